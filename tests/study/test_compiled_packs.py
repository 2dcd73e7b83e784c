"""Searches whose packs are compiled: only where sizes of packs follow from measured times, and it is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, Study, loguniform
from asyncsearch.store.manifest import packed_with_in

torch = pytest.importorskip("torch")

from asyncsearch import TorchTrainer  # noqa: E402
from asyncsearch.packing import stack_stepper, step_compiler  # noqa: E402
from asyncsearch.packing.step_compiler import StepCompiler  # noqa: E402
from tests.packing.test_compiled_steps import GraphAsItIs  # noqa: E402


class Blobs(TorchTrainer):
    def model(self, hp: Mapping[str, Any]) -> Any:
        return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).double()

    def optimizer(self, hp: Mapping[str, Any], model: Any) -> Any:
        return torch.optim.SGD(model.parameters(), hp["lr"], momentum=0.9)

    def data(self, hp: Mapping[str, Any]) -> Any:
        x = torch.randn(128, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        return (x, (x[:, 0] > 0).long()), (x[:32], (x[:32, 0] > 0).long())


class Plain(Blobs):
    compile_packs = False


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> StepCompiler:
    found = StepCompiler()
    monkeypatch.setattr(step_compiler, "_compilers", [found])
    monkeypatch.setattr(step_compiler, "CompileProcess", GraphAsItIs)
    monkeypatch.setattr(step_compiler, "loaded", lambda graph: lambda flat: graph(*flat))
    monkeypatch.setattr(stack_stepper, "is_faster", lambda times: True)
    monkeypatch.setattr(stack_stepper, "pays", lambda times, steps_left: steps_left > 0)
    return found


def searched(trainable: type[Any], store: Path, pack: Any) -> Study:
    study = Study(
        trainable,
        space={"lr": loguniform(0.01, 0.1)},
        metric="loss",
        mode="min",
        scheduler=FIFO(max_resource=6),
        store=store,
        backend="inline",
        pack=pack,
    )
    study.run(num_trials=24, display="none")
    return study


def compiled_lanes(study: Study) -> int:
    """Return how many checkpoints of a study say that their steps were compiled."""
    manifests = [packed_with_in(path.read_bytes()) for path in Path(study.store.url).rglob("manifest.json")]
    return sum(found is not None and found.is_compiled is True for found in manifests)


def test_compiled_steps_find_the_same_values_and_are_recorded(tmp_path: Path, compiler: StepCompiler) -> None:
    plain = searched(Blobs, tmp_path / "plain", None)
    packed = searched(Blobs, tmp_path / "packed", "auto")
    assert compiler._made
    assert compiled_lanes(packed) > 0
    assert [one.value for one in packed.trials] == pytest.approx([one.value for one in plain.trials], abs=1e-9)
    told = [str(packed.explain(trial.id)) for trial in packed.trials]
    assert any("the step of its pack was compiled in 0 s of CPU time" in text for text in told)


@pytest.mark.parametrize(("trainable", "pack"), [(Blobs, 8), (Plain, "auto")])
def test_nothing_is_compiled_where_results_must_repeat_or_the_trainer_forbids_it(
    tmp_path: Path, compiler: StepCompiler, trainable: type[Any], pack: Any
) -> None:
    study = searched(trainable, tmp_path / "study", pack)
    assert compiler._made == {}
    assert compiled_lanes(study) == 0
