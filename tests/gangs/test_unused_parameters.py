"""A parameter that one rank does not use fails its trial at once: the other ranks would wait for its gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
import torch.distributed as dist

from asyncsearch import FIFO, TrialState
from asyncsearch.errors import TrialsFailedError, UsageError
from asyncsearch.trainers.torch.gangs.strategy import Ddp
from tests.gangs.searches import Digits, digits
from tests.shares import takes_long


class Branching(torch.nn.Module):  # type: ignore[misc]
    """Uses its second layer only where it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(64, 10).double(), torch.nn.Linear(64, 10).double()
        self.frozen = torch.nn.Parameter(torch.zeros(1), requires_grad=False)
        self.uses_both = True

    def forward(self, x: torch.Tensor) -> Any:
        return self.first(x) + self.second(x) if self.uses_both else self.first(x)


class Partial(Digits):
    """Its rank 1 leaves out a layer in the last step of a unit, where rank 0 waits for rank 1 and is not waited for."""

    samples_per_unit = 50

    def model(self, hp: Any) -> Any:
        return Branching()

    def step(self, batch: Any) -> None:
        self.net.uses_both = self.trial.rank == 0
        super().step(batch)
        self.net.uses_both = True


class Allowed(Partial):
    ddp_options = {"find_unused_parameters": True}  # noqa: RUF012


class OnlyRank(NamedTuple):
    """The only rank of a trial, which steps as a trainer's strategy does."""

    strategy: Ddp
    parallel: Any

    def step(self, *, uses_both: bool) -> None:
        self.parallel.module.uses_both = uses_both
        self.parallel(torch.ones(1, 64, dtype=torch.float64)).sum().backward()
        self.strategy.require_gradients(self.parallel)


@pytest.fixture
def rank_of() -> Iterator[Callable[[type[Digits]], OnlyRank]]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

    def made(kind: type[Digits]) -> OnlyRank:
        trainer: Any = kind()
        trainer.trial, trainer._device = SimpleNamespace(process_group=lambda: dist.group.WORLD), torch.device("cpu")
        strategy = Ddp(trainer)
        return OnlyRank(strategy, strategy.parallel(Branching()))

    yield made
    dist.destroy_process_group()


def test_parameters_without_a_gradient_are_named_with_the_line_to_write(
    rank_of: Callable[[type[Digits]], OnlyRank],
) -> None:
    rank = rank_of(Partial)
    rank.step(uses_both=True)
    with pytest.raises(UsageError) as caught:
        rank.step(uses_both=False)
    assert str(caught.value).startswith("'second.weight', 'second.bias' got no gradient in rank 0")
    assert 'ddp_options = {"find_unused_parameters": True}' in str(caught.value)


@pytest.mark.slow
def test_a_parameter_one_rank_does_not_use_fails_the_trial_without_delay(tmp_path: Path) -> None:
    study = digits(tmp_path / "s", 2, Partial, scheduler=FIFO(max_resource=2))
    with pytest.raises(TrialsFailedError):
        study.run(1, parallelism=2, display="none")
    assert study.trials[0].state is TrialState.FAILED
    assert "'second.weight', 'second.bias' got no gradient in rank 1" in str(study.trials[0].reason)


def test_parameters_without_a_gradient_are_allowed_on_request(rank_of: Callable[[type[Digits]], OnlyRank]) -> None:
    rank = rank_of(Allowed)
    for uses_both in (True, False, False):
        rank.step(uses_both=uses_both)


@takes_long
@pytest.mark.slow
def test_a_parameter_one_rank_does_not_use_is_allowed_on_request(tmp_path: Path) -> None:
    study = digits(tmp_path / "s", 2, Allowed, scheduler=FIFO(max_resource=2)).run(1, parallelism=2, display="none")
    assert study.trials[0].state is TrialState.COMPLETED
