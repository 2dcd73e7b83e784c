"""Which running trainings pause to go on with more workers, or to give some away: each condition at its edge."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asyncsearch.actions import AnyAction, CutWork
from asyncsearch.engine.applying import apply
from asyncsearch.engine.sizing.gangs import _grow, _shrink, _units_left, resize
from asyncsearch.events import Outcome, TrainingEnded, WorkerLost
from asyncsearch.ids import WorkerId
from asyncsearch.schedulers import FIFO
from asyncsearch.sizing.autoscale import Autoscale, KnownSpeed, KnownSpeeds
from asyncsearch.sizing.gangs import Gang
from asyncsearch.sizing.packing import group_of
from asyncsearch.trial import UNBOUNDED
from tests.engine.player import Player
from tests.engine.tools import make_state

UNITS = 30


def speed(start_s: float = 1.0, **unit_s: float) -> KnownSpeed:
    """Return what is known: ``one=10.0`` seconds of a unit on one worker, and so on; each start takes as long."""
    sizes = {("one", "two", "three", "four").index(name) + 1: seconds for name, seconds in unit_s.items()}
    sizes = sizes or {1: 10.0, 2: 5.0, 3: 4.0, 4: 2.5}
    return KnownSpeed(
        {size: [one] for size, one in sizes.items()},
        {size: [one + start_s] for size, one in sizes.items()},
        ratios={size: [one / min(sizes.items())[1]] for size, one in sizes.items()},
    )


class Resized(Player):
    """Trials that train, each on a worker of its own, up to ``UNITS``; decides about their sizes where it is told."""

    def __init__(self, trials: int = 1, workers: int = 4, size: int = 1, **known: Any) -> None:
        super().__init__(make_state(FIFO(max_resource=UNITS), can_save=True))
        self.begin(trials, workers)
        self.attempts = list(self.state.attempts.values())
        for attempt in self.attempts:
            attempt.last_s, attempt.size = 1.0, size
        self.scale = Autoscale(0.1, max_size=4)
        self.gang = self.state.gang = Gang(size, autoscale=self.scale)
        self.know(speed(**known))

    def know(self, known: KnownSpeed) -> None:
        self.state.speeds[group_of(self.state.trials[0].params)] = KnownSpeeds({"": known})

    def left(self, *units: int) -> None:
        """Let so many units be left of each training after the present one."""
        for attempt, count in zip(self.attempts, units, strict=True):
            attempt.resource = UNITS - 1 - count

    def emit(self, action: AnyAction) -> None:
        apply(self.state, action, 9.0)
        assert isinstance(action, CutWork)
        self.found.append((self.attempts.index(self.state.attempts[action.lease.number]), str(action.resize)))

    def grown(self, idle: int) -> list[tuple[int, str]]:
        """Return which trainings pause for so many idle workers, and the beginning of each reason."""
        self.found: list[tuple[int, str]] = []
        _grow(self.state, self.gang, self.scale, idle, self.emit)
        return [(number, reason.partition(":")[0]) for number, reason in self.found]

    def shrunk(self) -> list[int]:
        self.found = []
        _shrink(self.state, self.gang, self.emit)
        return [number for number, _ in self.found]

    def resized(self) -> list[int]:
        self.found = []
        resize(self.state, self.emit)
        return [number for number, _ in self.found]


def on(workers: int) -> str:
    return f"it goes on with {workers} workers"


def test_the_training_that_gains_most_grows_first_the_next_by_the_rest() -> None:
    player = Resized(trials=2)
    player.left(10, 20)
    assert player.grown(3) == [(1, on(4))]
    player = Resized(trials=2)
    player.left(10, 20)
    assert player.grown(4) == [(1, on(4)), (0, on(2))]


def test_no_training_grows_by_fewer_workers_than_a_trial_has() -> None:
    player = Resized(size=2, two=10.0, four=5.0)
    player.left(20)
    assert player.grown(1) == []
    assert player.grown(2) == [(0, on(4))]


def test_a_training_on_fewer_workers_than_others_does_not_grow() -> None:
    player = Resized(size=2, two=10.0, four=5.0)
    player.left(20)
    player.attempts[0].size = 1
    assert player.grown(3) == []


def test_a_training_that_has_as_many_workers_as_pay_does_not_grow() -> None:
    player = Resized(one=10.0, two=5.0, three=6.0, four=7.0)
    player.left(20)
    player.attempts[0].size = 2
    assert player.grown(2) == []


@pytest.mark.parametrize(("start_s", "grows"), [(24.9, True), (25.0, False)])
def test_a_training_grows_where_it_saves_more_than_two_starts(start_s: float, grows: bool) -> None:
    player = Resized(start_s=start_s, one=10.0, two=5.0)
    player.left(10)
    assert player.grown(1) == ([(0, on(2))] if grows else [])


@pytest.mark.parametrize(("units", "grows"), [(0, False), (1, True)])
def test_a_training_without_a_unit_beyond_the_present_one_does_not_grow(units: int, grows: bool) -> None:
    player = Resized(one=10.0, two=5.0)
    player.left(units)
    assert player.grown(1) == ([(0, on(2))] if grows else [])


def test_what_no_training_was_measured_for_changes_nothing() -> None:
    player = Resized()
    player.left(20)
    player.know(KnownSpeed())
    player.attempts[0].size = 2
    assert (player.grown(2), player.shrunk()) == ([], [])


def test_the_larger_training_that_has_most_left_gives_workers_away() -> None:
    player = Resized(trials=3)
    player.left(29, 10, 20)
    player.attempts[1].size = player.attempts[2].size = 2
    assert player.shrunk() == [2], "the first one has most left, and no more workers than others"
    player = Resized(trials=2)
    player.left(15, 20)
    player.attempts[0].size, player.attempts[1].size = 2, 4
    assert player.shrunk() == [0], "15 units of 5 s are more than 20 of 2.5 s"


@pytest.mark.parametrize(("start_s", "shrinks"), [(24.9, True), (25.0, False)])
def test_a_training_that_is_about_to_end_gives_nothing_away(start_s: float, shrinks: bool) -> None:
    player = Resized(start_s=start_s, one=10.0, two=5.0)
    player.left(10)
    player.attempts[0].size = 2
    assert player.shrunk() == ([0] if shrinks else [])


def test_workers_are_given_away_only_where_a_trial_waits_and_none_is_free() -> None:
    player = Resized(workers=1)
    player.left(20)
    player.attempts[0].size = 2
    assert player.resized() == []
    player.state.scheduler.next_promotion = object  # type: ignore[assignment]
    assert player.resized() == [0]


def test_they_are_given_away_for_a_trial_that_has_lost_its_worker() -> None:
    player = Resized(trials=2, workers=2)
    player.left(20, 20)
    player.tell(WorkerLost(WorkerId(1), 1, "killed"))
    assert player.resized() == []
    player.attempts[0].size = 2
    assert player.resized() == [0]


def test_one_free_worker_is_enough_where_a_trial_has_one() -> None:
    player = Resized(workers=2)
    player.left(20)
    assert player.resized() == [0]


def test_no_training_pauses_while_another_one_does_so() -> None:
    player = Resized(trials=2)
    player.left(10, 20)
    player.attempts[1].resize = "it goes on with 2 workers"
    assert player.resized() == []
    player.attempts[1].resize = ""
    assert player.resized() == [1]


CANNOT_PAUSE: dict[str, Any] = {
    "is_stop_sent": True,
    "last_s": None,
    "resize": "it goes on with 2 workers",
    "is_closed": True,
    "is_lost": True,
}


@pytest.mark.parametrize("fact", CANNOT_PAUSE)
def test_nothing_is_left_of_a_training_that_cannot_pause(fact: str) -> None:
    player = Resized()
    player.left(7)
    (attempt,) = player.attempts
    assert _units_left(attempt) == 7
    setattr(attempt, fact, CANNOT_PAUSE[fact])
    assert _units_left(attempt) == 0


def test_nor_of_one_that_has_ended_or_has_no_end_or_is_cut_or_evaluates() -> None:
    (attempt,) = Resized().attempts
    attempt.cut = attempt.resource + 1
    assert _units_left(attempt) == 0
    attempt.cut = None
    attempt.end = TrainingEnded(attempt.lease, Outcome.REACHED, 9)
    assert _units_left(attempt) == 0
    attempt.end = None
    (stage,) = attempt.batch.stages
    for start, stop in ((0, UNBOUNDED), (UNITS, UNITS)):
        changed = msgspec.structs.replace(stage, start=start, stop=stop)
        attempt.batch = msgspec.structs.replace(attempt.batch, stages=(changed,))
        assert _units_left(attempt) == 0
