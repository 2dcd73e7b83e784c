"""However the workers of a trial divide the model, the trial has the results that it has on one worker."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from asyncsearch import ASHA, FIFO, Study
from asyncsearch.errors import UsageError
from asyncsearch.trainers.torch.gangs.zero1 import Zero1 as Divided
from asyncsearch.trainers.torch.gangs.zero1 import owners
from tests.gangs.searches import Digits, digits, digits_weights, once, promotions
from tests.shares import IS_ALL, first, takes_long

UNITS = 3
BATCHES = 11
"""In a unit of ``Digits``."""


class Clipped(Digits):
    """Has what strategies may get wrong: norms of the whole gradient, changed values, a last batch that is smaller."""

    clip_grad_norm = 0.05


class Fsdp2(Clipped):
    strategy = "fsdp2"


class Zero1(Clipped):
    strategy = "zero1"


class Norms(Digits):
    """Has batch norms, in batches of which one is so small that a rank of four has no share of it."""

    sync_batch_norm = True

    def data(self, hp: Mapping[str, Any]) -> Any:
        (x, y), validation = super().data(hp)
        return (x[:453], y[:453]), validation

    def model(self, hp: Mapping[str, Any]) -> Any:
        # A bias before a norm has a gradient of rounding errors alone, which Adam makes large.
        before, after = torch.nn.Conv2d(1, 3, 3, bias=False), torch.nn.Linear(108, 16, bias=False)
        layers = [before, torch.nn.BatchNorm2d(3), torch.nn.Flatten(), after]
        norm = torch.nn.BatchNorm1d(16, momentum=None, affine=False)
        return torch.nn.Sequential(torch.nn.Unflatten(1, (1, 8, 8)), *layers, norm, torch.nn.Linear(16, 10)).double()


class NormsFsdp2(Norms):
    strategy = "fsdp2"


class Single(Fsdp2):
    """Trains in torch's usual precision, and says how much of the optimizer's state this rank has."""

    def data(self, hp: Mapping[str, Any]) -> Any:
        return tuple((x.float(), y) for x, y in super().data(hp))

    def model(self, hp: Mapping[str, Any]) -> Any:
        return super().model(hp).float()

    def evaluate(self) -> Mapping[str, Any]:
        held = [value for values in self.opt.state.values() for value in values.values()]
        return {**super().evaluate(), "held": sum(getattr(one, "_local_tensor", one).numel() for one in held)}


class SingleZero1(Single):
    strategy = "zero1"


STRATEGIES = [(2, Zero1), (2, Fsdp2), (4, Zero1), (4, Fsdp2)]
"""The test command has ``fsdp2`` below batch norms and as a study goes on, ``zero1`` where its state is divided."""
NORMS = [(2, NormsFsdp2), (4, Norms), (2, Norms)]
"""With four workers, a rank has no share of the last batch."""


def backend_for(gang: int | None) -> str:
    """Return where a search runs: one worker needs no process of its own."""
    return "processes" if gang else "inline"


def fifo(store: Path, gang: int | None, trainable: Any) -> Study:
    made = digits(store, gang, trainable, scheduler=FIFO(max_resource=UNITS), backend=backend_for(gang))
    return made.run(2, parallelism=gang or 1, display="none")


def asha(store: Path, gang: int | None, trainable: Any, trials: int) -> Study:
    scheduler = ASHA(max_resource=9, reduction_factor=3)
    made = digits(store, gang, trainable, scheduler=scheduler, resume=True, backend=backend_for(gang))
    return made.run(trials, parallelism=gang or 1, display="none")


def require_same(one: Study, other: Study, within: float = 1e-9) -> None:
    """Check that two studies have the same checkpoints, within rounding."""
    expected, found = digits_weights(other.store), digits_weights(one.store)
    assert found.keys() == expected.keys() != set()
    for checkpoint, tensors in found.items():
        assert tensors.keys() == expected[checkpoint].keys()
        for name, tensor in tensors.items():
            torch.testing.assert_close(tensor, expected[checkpoint][name], rtol=0.0, atol=within)
    for trial, same in zip(one.trials, other.trials, strict=True):
        assert trial.value == pytest.approx(same.value, abs=within)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[type[Digits]], Study]:
    """Return a function that gives the study of a trainable on one worker, which runs once."""
    found: dict[type[Digits], Study] = {}

    def run(trainable: type[Digits]) -> Study:
        if trainable not in found:
            found[trainable] = fifo(tmp_path_factory.mktemp("alone") / "s", None, trainable)
        return found[trainable]

    return run


@takes_long
@pytest.mark.slow
@pytest.mark.parametrize(("size", "trainable"), STRATEGIES)
def test_a_strategy_reaches_the_weights_of_one_worker(
    tmp_path: Path, alone: Callable[[type[Digits]], Study], size: int, trainable: type[Digits]
) -> None:
    require_same(fifo(tmp_path / "together", size, trainable), alone(Clipped))


@pytest.mark.slow
@pytest.mark.parametrize(("size", "trainable"), NORMS if IS_ALL else NORMS[:1])
def test_batch_norms_see_the_whole_batch(
    tmp_path: Path, alone: Callable[[type[Digits]], Study], size: int, trainable: type[Digits]
) -> None:
    require_same(fifo(tmp_path / "together", size, trainable), alone(Norms))


@pytest.mark.slow
@pytest.mark.parametrize("trainable", first([SingleZero1, Single]))
def test_the_state_of_the_optimizer_is_divided(
    tmp_path: Path, alone: Callable[[type[Digits]], Study], trainable: type[Digits]
) -> None:
    together = fifo(tmp_path / "together", 2, trainable)
    require_same(together, alone(Single), within=1e-4)
    held, whole = (float(study.history(0)[-1][1]["held"]) for study in (together, alone(Single)))
    assert held <= 0.9 * whole


@pytest.mark.slow
def test_a_study_goes_on_with_another_strategy_and_number_of_workers(tmp_path: Path) -> None:
    turns: list[tuple[int, int | None, type[Digits]]] = [
        (3, 2, Fsdp2),
        (5, 3, Fsdp2),
        (6, None, Clipped),
        (8, 3, Zero1),
        (9, 2, Fsdp2),
    ]
    for trials, size, trainable in turns if IS_ALL else (turns[0], turns[2]):
        together = asha(tmp_path / "s", size, trainable, trials)
        expected = asha(tmp_path / "alone", None, Clipped, trials)
        assert promotions(together) == promotions(expected)
        require_same(together, expected)


class Killed(Fsdp2):
    """Loses rank 1 in the first step of unit 2, once."""

    def step(self, batch: Any) -> None:
        if self.steps == BATCHES and self.trial.rank and once(Path(self.hp["folder"]), type(self).__name__):
            os.kill(os.getpid(), signal.SIGKILL)
        super().step(batch)


class KilledZero1(Killed):
    strategy = "zero1"


@takes_long  # with a rank that is lost while it saves: test_shards.py
@pytest.mark.slow
@pytest.mark.parametrize("trainable", [Killed, KilledZero1])
def test_a_trial_outlives_a_rank_however_it_is_divided(tmp_path: Path, trainable: type[Digits]) -> None:
    def study(store: str, gang: int | None, trainable: type[Digits]) -> Study:
        options: dict[str, Any] = {"metric": "loss", "mode": "min", "name": "digits", "backend": backend_for(gang)}
        options |= {"space": {"lr": 0.01, "folder": str(tmp_path)}, "scheduler": FIFO(max_resource=UNITS)}
        made = Study(trainable, store=tmp_path / store, workers_per_trial=gang, save_every=1, **options)
        return made.run(1, parallelism=gang or 1, display="none")

    require_same(study("together", 2, trainable), study("alone", None, Clipped))
    assert (tmp_path / trainable.__name__).exists()


class Unknown(Digits):
    strategy = "zero3"


class Half(Fsdp2):
    precision = "float16"


@pytest.mark.parametrize(
    ("trainable", "words"),
    [
        (Unknown, "Unknown.strategy='zero3' is unknown: write 'ddp', 'fsdp2' or 'zero1'."),
        (Half, "write precision='bfloat16', or strategy='ddp'"),
    ],
)
def test_a_strategy_that_cannot_be_is_refused(tmp_path: Path, trainable: type[Digits], words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        digits(tmp_path / "s", 2, trainable, scheduler=FIFO(max_resource=UNITS))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (torch.optim.LBFGS, "LBFGS has one of all of them: write strategy='ddp'"),
        (lambda _: object(), "returned object: derive it from that class"),
    ],
)
def test_an_optimizer_whose_state_cannot_be_divided_is_refused(made: Callable[[Any], Any], words: str) -> None:
    divided = Divided.__new__(Divided)
    divided._size = 2
    with pytest.raises(UsageError, match=re.escape(words)):
        divided.attach(made([torch.nn.Parameter(torch.zeros(2))]))


def test_every_rank_owns_about_as_much() -> None:
    sizes = [100, 1, 40, 30, 30, 7, 1]
    owned = owners([torch.empty(size) for size in sizes], 3)
    loads = [sum(one.numel() for one, rank in owned.items() if rank == number) for number in range(3)]
    assert sorted(loads) == [49, 60, 100]
