"""Copies of states: each is what ``save`` writes at that moment, whatever is trained before it is written."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.ids import CheckpointRef
from asyncsearch.runner import state_copies
from asyncsearch.runner.protocol import CopyWritten
from asyncsearch.runner.standalone import StandaloneTrial
from asyncsearch.runner.state_copies import StateWriter
from asyncsearch.trainable import SaveFunction, as_function
from tests.agent.driver import NODE, agent, committed
from tests.trainers.tools import Run, Trial

HP = {"lr": 0.1, "momentum": 0.9}
FRAMEWORKS = ["torch", "keras"]


def trainer_of(framework: str) -> type[Any]:
    pytest.importorskip(framework)
    if framework == "torch":
        from tests.trainers.digits_torch import TorchDigits

        return TorchDigits
    from tests.trainers.digits_keras import KerasDigits

    return KerasDigits


def begun(trainer_class: type[Any]) -> Any:
    """A trainer that has trained one unit."""
    run = Run(trainer_class, Trial([HP] * 4))
    run.trainer.train()
    return run.trainer


def files(path: Path) -> dict[str, bytes]:
    found = [path] if path.is_file() else sorted(path.iterdir())
    return {file.name if path.is_dir() else "": file.read_bytes() for file in found}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_copy_is_what_was_saved_byte_for_byte(tmp_path: Path, framework: str) -> None:
    trainer = begun(trainer_of(framework))
    trainer.save(tmp_path / "saved")
    write = trainer.copied_state(lambda size: True)
    trainer.train()
    trainer.save(tmp_path / "later")
    write(tmp_path / "copied")
    assert files(tmp_path / "copied") == files(tmp_path / "saved") != files(tmp_path / "later")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_nothing_is_copied_without_memory_or_where_save_is_the_users(framework: str) -> None:
    class Own(trainer_of(framework)):  # type: ignore[misc]
        def save(self, path: Path) -> None:
            super().save(path)

    asked: list[int] = []
    trainer = begun(trainer_of(framework))
    assert trainer.copied_state(asked.append) is None
    assert asked[0] >= sum(weights.nbytes for weights in weights_of(trainer.net))
    trainer.__class__ = Own
    assert trainer.copied_state(lambda size: True) is None


def weights_of(net: Any) -> list[Any]:
    return list(net.parameters()) if hasattr(net, "parameters") else net.get_weights()


def test_tensors_that_share_memory_share_it_in_the_copy() -> None:
    torch = pytest.importorskip("torch")
    from asyncsearch.trainers.torch.state_copy import copied

    base = torch.arange(6.0)
    sizes: list[int] = []
    state = {"whole": base, "part": [base[2:4]], "none": torch.empty(0)}

    def may_take(size: int) -> bool:
        sizes.append(size)
        return True

    found = copied(state, may_take)
    base.zero_()
    assert sizes == [base.nbytes]
    assert found["part"][0].tolist() == [2, 3]
    found["whole"][2] = 7
    assert found["part"][0].tolist() == [7, 3]


def test_a_state_with_a_sparse_tensor_is_not_copied() -> None:
    torch = pytest.importorskip("torch")
    from asyncsearch.trainers.torch.state_copy import copied

    assert copied({"w": torch.eye(2).to_sparse()}, lambda size: True) is None


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_trial_goes_on_bit_for_bit_from_a_copy_written_beside_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, framework: str
) -> None:
    monkeypatch.setattr(state_copies, "LEAST_BYTES", 0)
    kind, told = trainer_of(framework), list[Any]()
    whole, first = Run(kind, Trial([HP] * 4)).train(4), Run(kind, Trial([HP] * 4)).train(2)
    writer = StateWriter(told.append)
    copy = writer.copy_of(first.trainer.save, lambda: None)
    assert copy is not None
    writer.hold(copy, tmp_path / "checkpoint", 0, 2)
    writer.begin()
    Run(kind, Trial([HP], seed=6)).train(1)
    writer.finish()
    second = Run(kind, Trial([HP] * 4), 2, tmp_path / "checkpoint").train(4)
    assert first.reports + second.reports == whole.reports
    assert told == [CopyWritten()]


def test_a_search_pauses_a_torch_trial_by_a_copy_bit_for_bit(tmp_path: Path) -> None:
    class Wide(trainer_of("torch")):  # type: ignore[misc]
        channels, train_on = 128, 64

        def copied_state(self, may_take: Callable[[int], bool]) -> SaveFunction | None:
            found: SaveFunction | None = super().copied_state(may_take)
            print("copied" if found is not None else "refused")  # noqa: T201
            return found

    alone = StandaloneTrial(HP, max_resource=4, seed=7)
    as_function(Wide)(alone)
    given = {"max_resource": 4, "save": True, "params": HP}
    with agent(Wide, tmp_path) as driver:
        driver.train(0, stop=2, **given)
        driver.train(1, stop=1, max_resource=1, params=HP, node="1" * 32)
        committed(driver, 2)
        driver.train(2, start=2, stop=4, load=CheckpointRef(NODE, 2), **given)
        driver.end(2)
        assert "copied" in driver.text(0)
        assert driver.reports(0) + driver.reports(2) == alone.reports


def test_the_memory_of_a_copy_is_free_once_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_copies, "LEAST_BYTES", 0)
    alive = list[bool]()
    writer = StateWriter(lambda message: alive.append(written() is not None))
    copy = writer.copy_of(begun(trainer_of("torch")).save, lambda: None)
    assert copy is not None
    written = weakref.ref(copy.write)
    writer.hold(copy, tmp_path / "checkpoint", 0, 1)
    del copy
    writer.begin()
    writer.finish()
    assert alive == [False]
