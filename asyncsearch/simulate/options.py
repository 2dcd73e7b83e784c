"""Circumstances of a simulation, in groups: delays, faults and chance, training, end; each value is checked. Pure."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import Any

import msgspec

from asyncsearch.arguments import above_zero, checked, count_of, finite_number, not_negative, positive, yes_or_no
from asyncsearch.errors import UsageError
from asyncsearch.ids import TrialId, WorkerId
from asyncsearch.randomness import generator
from asyncsearch.sizing.pack_probe import speedup_at

_BLOCK = 1024
_NORMAL = NormalDist()


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
    """From the arrival of work at a worker to the beginning of its first unit: imports, building."""
    load_s: float = 0.0
    """Until a checkpoint is loaded, beyond ``setup_s``, where the work begins with one."""
    save_s: float = 0.0
    """For which training waits each time that it saves. The lanes of a pack wait for each other."""
    meet_s: float = 0.0
    """Until the workers of a gang have found each other, beyond ``setup_s``."""
    message_s: float = 0.0
    """From one side of a stream to the other."""
    commit_s: float = 0.0
    """From the end of training to a durable checkpoint."""
    detect_s: float = 0.0
    """From the death of a worker until the driver knows of it."""
    release_idle_s: float | None = None
    """From the moment in which a worker is without a use until it gives its slot back, as
    ``WorkerOptions(release_idle=)`` says. None if it keeps the slot."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if (seconds := getattr(self, name)) is not None or name != "release_idle_s":
                _check_seconds(name, seconds, sys.float_info.max)


class Chance(msgspec.Struct, frozen=True, kw_only=True):
    """Stragglers and dropped work, as in appendix A.1 of the ASHA paper.

    Raises:
        UsageError: ``spread`` is negative or not finite, ``drop`` is no probability below 1, or
            ``seed`` is no integer from 0.
    """

    spread: float = 0.0
    """Standard deviation of z: each piece of work takes ``1 + |z|`` times as long as the workload says."""
    drop: float = 0.0
    """Probability that work which is being trained is lost within a second; its worker is launched again."""
    seed: int = 0

    def __post_init__(self) -> None:
        not_negative("spread", self.spread)
        count_of("seed", self.seed)
        if not 0 <= finite_number("drop", self.drop) < 1:
            raise UsageError(
                f"drop={self.drop!r} is a probability a second: write a number from 0 to below 1, e.g. 0.01."
            )


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """Losses of workers and failures of trials.

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
    """Units between two reports. None reports only where work is saved or ends, so that a scheduler which stops running
    trials does not see their values."""
    pack_speedup: Mapping[int, float] | Mapping[str, Mapping[int, float]] = {}
    """Trainings of a pack -> how many times as much they train in the same time together as one after another. Between
    two numbers it is interpolated, and beyond the last one constant; without any, a pack saves nothing. Or structure ->
    such numbers, ``""`` for all others: then only trainings of one structure gain by each other."""
    pack_memory: int | None = None
    """How many trainings of a pack have memory enough together. None means any number."""
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
    """The end of a simulation besides its number of trials.

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


class Draws:
    """Slowness and loss of each lease, drawn from a seed and its number.

    They are drawn in blocks: a generator for each lease would cost more than the engine.
    """

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._block = -1
        self._drawn: list[float] = []

    def slowness(self, lease: int) -> float:
        """Return by how much longer the work of a lease takes, from 1."""
        if not self._chance.spread:
            return 1.0
        # 1 - u lies in (0, 1], and only its upper half is used: |z| of a normal z.
        return 1.0 - self._chance.spread * _NORMAL.inv_cdf(max((1.0 - self._uniform(lease, 0)) / 2, 1e-300))

    def lost_after_s(self, lease: int) -> float:
        """Return after how many seconds of training the work of a lease is lost, or infinity if never."""
        if not self._chance.drop:
            return math.inf
        return math.log(1.0 - self._uniform(lease, 1)) / math.log(1.0 - self._chance.drop)

    def _uniform(self, lease: int, which: int) -> float:
        """Return a number from 0 to below 1."""
        block, place = divmod(lease, _BLOCK)
        if block != self._block:
            self._block = block
            self._drawn = generator(self._chance.seed, "simulate.chance", block).random(2 * _BLOCK).tolist()
        return self._drawn[2 * place + which]
