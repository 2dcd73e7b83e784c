"""What happens on a virtual cluster, in groups; each value is checked where the group is made. Pure."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from asyncsearch.arguments import above_zero, checked, count_of, finite_number, positive, yes_or_no
from asyncsearch.errors import UsageError
from asyncsearch.ids import TrialId, WorkerId
from asyncsearch.simulate.random_faults import Chance
from asyncsearch.sizing.pack_curves import speedup_at


class Loss(msgspec.Struct, frozen=True):
    """A worker dies at a point in time; launched again, it needs ``down_s`` seconds more to attach.

    Raises:
        UsageError: a time is negative or NaN.
    """

    worker: WorkerId
    at_s: float
    down_s: float = 0.0
    """Infinity: it never comes back."""

    def __post_init__(self) -> None:
        _check_seconds("at_s", self.at_s, math.inf)
        _check_seconds("down_s", self.down_s, math.inf)


class Delays(msgspec.Struct, frozen=True, kw_only=True):
    """How long things take, in virtual seconds.

    Raises:
        UsageError: a time is negative or not finite.
    """

    start_s: float = 0.0
    """From a launch to the worker's first message."""
    setup_s: float = 0.0
    """From the arrival of work at a worker to the beginning of its first unit: building, loading."""
    meet_s: float = 0.0
    """Until the workers of a gang have found each other, beyond ``setup_s``."""
    message_s: float = 0.0
    """From one side of a stream to the other."""
    commit_s: float = 0.0
    """From the end of training to a durable checkpoint."""
    detect_s: float = 0.0
    """From the death of a worker until the driver knows of it."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            _check_seconds(name, getattr(self, name), sys.float_info.max)


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong.

    Raises:
        UsageError: a value breaks its rule.
    """

    losses: Sequence[Loss] = ()
    """Which workers die when, and for how long they are away."""
    failures: Mapping[TrialId, int] = {}
    """Which trials raise, at which resource, once."""
    chance: Chance = Chance()
    """Stragglers and dropped work."""
    max_losses: int = 3
    """Attempts in a row that a trial may lose without progress before it counts as failed."""

    def __post_init__(self) -> None:
        checked(self.chance, Chance, "chance")
        if not isinstance(self.losses, Iterable):
            raise UsageError(f"losses={self.losses!r}: write a list, e.g. losses=[Loss(worker=3, at_s=600.0)].")
        for loss in self.losses:
            checked(loss, Loss, "losses")
        if not isinstance(self.failures, Mapping):
            raise UsageError(
                f"failures={self.failures!r}: write a mapping from a trial to the unit at which it raises, e.g. "
                "failures={3: 1}."
            )
        for trial, at in self.failures.items():
            count_of("failures: trial", trial)
            positive(f"failures[{trial!r}]", at)
        count_of("max_losses", self.max_losses)


class TrainingModel(msgspec.Struct, frozen=True, kw_only=True):
    """How the simulated trainable behaves.

    Raises:
        UsageError: a value breaks its rule.
    """

    restarts: bool = False
    """A promoted trial trains again from 0, as with a trainable that cannot load. The units up to its checkpoint take
    their time, and nothing is reported of them."""
    report_every: int | None = 1
    """Units between two reports; None: only where work is saved or ends, so that a scheduler which stops running trials
    does not see their values."""
    pack_speedup: Mapping[int, float] | Mapping[str, Mapping[int, float]] = {}
    """Trainings of a pack -> how many times as much they train in the same time together as one after another. Between
    two numbers it is interpolated, and beyond the last one constant; without any, a pack saves nothing. Or structure ->
    such numbers, ``""`` for all others: then only trainings of one structure gain by each other."""
    pack_memory: int | None = None
    """How many trainings of a pack have memory enough together; None: any number."""
    gang_speedup: Mapping[int, float] = {}
    """Workers of a trial -> how many times as fast as one they train it. Between two numbers it is interpolated, and
    beyond the last one constant; without any, k workers are k times as fast."""

    def __post_init__(self) -> None:
        if not isinstance(self.pack_speedup, Mapping):
            raise UsageError(
                f"pack_speedup={self.pack_speedup!r}: write a mapping from a number of trainings to how many times as "
                "much they train together, e.g. {1: 1.0, 8: 6.0}."
            )
        for name, curve in self.pack_speedup.items() if self.is_by_structure else [("", self.pack_speedup)]:
            for lanes, speedup in checked(curve, Mapping, f"pack_speedup[{name!r}]").items():
                positive("pack_speedup: trainings", lanes)
                above_zero(f"pack_speedup[{lanes!r}]", speedup)
        if self.pack_memory is not None:
            positive("pack_memory", self.pack_memory)
        for size, speedup in checked(self.gang_speedup, Mapping, "gang_speedup").items():
            positive("gang_speedup: workers", size)
            above_zero(f"gang_speedup[{size!r}]", speedup)
        yes_or_no("restarts", self.restarts)
        if self.report_every is not None:
            positive("report_every", self.report_every)

    def gang_speedup_of(self, size: int) -> float:
        """Return how many times as fast as one so many workers train a trial."""
        return speedup_at(self.gang_speedup, size) if self.gang_speedup else float(size)

    @property
    def is_by_structure(self) -> bool:
        """Whether trainings of different structures gain nothing by each other."""
        return any(isinstance(name, str) for name in self.pack_speedup)

    @property
    def curve(self) -> Mapping[int, float]:
        """Return the numbers where structures do not matter."""
        found: Mapping[Any, Any] = self.pack_speedup
        return found

    def curve_of(self, structure: str) -> Mapping[int, float]:
        """Return the numbers of a structure, or of all others."""
        curves: Mapping[Any, Any] = self.pack_speedup
        found: Mapping[int, float] = curves.get(structure, curves.get("", {}))
        return found


class Until(msgspec.Struct, frozen=True, kw_only=True):
    """What ends a simulation besides its number of trials.

    Raises:
        UsageError: a value breaks its rule.
    """

    seconds: float = math.inf
    """Virtual time."""
    target: float | None = None
    """A value of the metric; the simulation ends when one as good is reported."""
    completed: int | None = None
    """The simulation ends when so many trials are trained to ``max_resource``. Where nothing except this or ``target``
    ends it, it ends after 200,000 trials all the same."""

    def __post_init__(self) -> None:
        if self.seconds != math.inf:
            above_zero("seconds", self.seconds)
        if self.target is not None:
            finite_number("target", self.target)
        if self.completed is not None:
            positive("completed", self.completed)


def _check_seconds(name: str, value: object, most: float) -> None:
    # Without the second bound an integer beyond all floats would be a time below infinity.
    if not isinstance(value, int | float) or not (0 <= value <= sys.float_info.max or value == most):
        raise UsageError(f"{name}={value!r} is no time: write seconds from 0, e.g. {name}=1.0.")
