"""A trainable that raises the same in every trial ends the run, and one that works for some of them never does."""

from __future__ import annotations

import asyncio
import importlib
import json
from typing import Any

import pytest

from asyncsearch import Study
from asyncsearch.actions import EndRun, StopRun
from asyncsearch.engine import snapshot
from asyncsearch.engine.repeated_failures import RepeatedFailures, failed_as_a_whole, line_in, place_of
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import TrialsFailedError
from asyncsearch.events import Outcome, Reported, RunRequested, TrainingEnded, WorkerAttached
from asyncsearch.ids import Lease, TrialId, WorkerId
from asyncsearch.report.live.lines import title
from asyncsearch.report.live.status_of import status_of
from asyncsearch.runner.failures import exception_text
from asyncsearch.schedulers import ASHA, FIFO, PBT, SHA, Hyperband
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.random import RandomSearch
from asyncsearch.simulate import Simulation
from asyncsearch.simulate.workloads import Curves
from asyncsearch.sizing.gangs import Gang
from asyncsearch.space import uniform
from asyncsearch.testing.recording import SPACE, restored
from asyncsearch.trial import TrialState
from tests.engine.player import Player, only
from tests.engine.tools import make_state, packed_state

TRACEBACK = 'Traceback (most recent call last):\n  File "tune.py", line {line}, in train\n    use(data)\n{kind}: broken'


def play(workers: int, **config: Any) -> Player:
    player = Player(make_state(FIFO(max_resource=3), RandomSearch(), SPACE, **config))
    player.begin(50, workers)
    return player


def open_leases(player: Player) -> list[Lease]:
    return [attempt.lease for _, attempt in sorted(player.state.attempts.items()) if attempt.is_training]


def fail(player: Player, lease: Lease, line: int = 12, kind: str = "KeyError", resource: int = 0) -> list[Any]:
    text = TRACEBACK.format(line=line, kind=kind)
    return player.tell(TrainingEnded(lease, Outcome.FAILED, resource, error=text, error_kind=kind))


def fail_until_stopped(player: Player, most: int = 20, **options: Any) -> int:
    """Fail the oldest training again and again, and return how many failed before the run was stopped."""
    for count in range(1, most + 1):
        if any(isinstance(action, StopRun) for action in fail(player, open_leases(player)[0], **options)):
            return count
    return 0


@pytest.mark.parametrize(("workers", "failures"), [(1, 3), (2, 3), (3, 4), (8, 9)])
def test_the_same_failure_in_every_trial_ends_the_run(workers: int, failures: int) -> None:
    player = play(workers)
    assert fail_until_stopped(player) == failures
    assert only(player.last, StopRun)[0].reason == (
        'trials fail in the same way, and none has finished: KeyError in "tune.py", line 12'
    )


def test_the_run_raises_when_the_other_workers_have_stopped() -> None:
    player = play(2)
    fail_until_stopped(player)
    ended = player.tell(TrainingEnded(open_leases(player)[0], Outcome.STOPPED, 0))
    (end,) = [action for action in ended if isinstance(action, EndRun)]
    assert (end.error_kind, end.is_complete) == ("TrialsFailedError", False)


def test_failures_at_different_lines_do_not_end_the_run() -> None:
    player = play(1)
    for number in range(2, 14):
        actions = fail(player, open_leases(player)[0], line=number // 2)
        assert not any(isinstance(action, StopRun) for action in actions)


def test_a_run_in_which_a_training_came_to_its_end_goes_on() -> None:
    player = play(1)
    lease = open_leases(player)[0]
    player.tell(Reported(lease, 3, {"loss": 1.0}))
    player.tell(TrainingEnded(lease, Outcome.REACHED, 3))
    assert fail_until_stopped(player) == 0


def test_a_training_beyond_where_the_others_fail_is_waited_for() -> None:
    player = play(2)
    working, failing = open_leases(player)
    player.tell(Reported(working, 1, {"loss": 1.0}))
    for _ in range(6):
        assert not any(isinstance(action, StopRun) for action in fail(player, failing))
        failing = next(lease for lease in open_leases(player) if lease != working)


def test_a_crash_that_names_no_line_does_not_count() -> None:
    player = play(1)
    for _ in range(6):
        end = TrainingEnded(open_leases(player)[0], Outcome.FAILED, 0, error="killed by SIGKILL", error_kind="signal")
        assert not any(isinstance(action, StopRun) for action in player.tell(end))


def test_retries_of_one_trial_count_once() -> None:
    assert fail_until_stopped(play(1, max_failures=2)) == 9


def test_a_later_run_counts_anew() -> None:
    player = play(1)
    assert fail_until_stopped(player) == 3
    player.tell(RunRequested(50, 1))
    player.tell(WorkerAttached(WorkerId(0), 2))
    assert fail_until_stopped(player) == 3


def test_a_restored_state_has_counted_as_far() -> None:
    state = make_state(FIFO(max_resource=3), RandomSearch(), SPACE)
    player = Player(state)
    player.begin(50, 1)
    fail(player, open_leases(player)[0])
    fail(player, open_leases(player)[0])
    found = snapshot.decode(snapshot.encode(player.state, 9))
    assert found is not None
    assert found.repeated == player.state.repeated
    assert sum(found.repeated.counts.values()) == 2


@pytest.mark.parametrize(("trials", "words"), [(1, "the only trial failed"), (2, "all 2 trials failed")])
def test_a_run_with_nothing_but_failures_raises_however_few_they_are(trials: int, words: str) -> None:
    player = Player(make_state(FIFO(max_resource=3), RandomSearch(), SPACE))
    player.begin(trials, 1)
    for number in range(trials):
        fail(player, open_leases(player)[0], line=number)
    (end,) = only(player.last, EndRun)
    assert (end.reason, end.error_kind, end.is_complete) == (words, "TrialsFailedError", True)


def test_a_failure_among_trained_trials_does_not_end_the_run_in_an_error() -> None:
    player = Player(make_state(FIFO(max_resource=1), RandomSearch(), SPACE))
    player.begin(2, 1)
    fail(player, open_leases(player)[0])
    lease = open_leases(player)[0]
    player.tell(Reported(lease, 1, {"loss": 1.0}))
    player.tell(TrainingEnded(lease, Outcome.REACHED, 1))
    (end,) = only(player.last, EndRun)
    assert (end.error_kind, end.is_complete) == ("", True)


@pytest.mark.parametrize("kind", ["bad_report", "cannot_pause", "no_report", "exit"])
def test_no_name_of_a_kind_of_failure_is_shown_to_people(kind: str) -> None:
    lease = Lease(1, WorkerId(0), 0)
    end = TrainingEnded(lease, Outcome.FAILED, 0, error=TRACEBACK.format(line=3, kind="ReportError"), error_kind=kind)
    assert "_" not in place_of(end).replace("tune.py", "")
    assert 'in "tune.py", line 3' in place_of(end)


def _raised(library: Any) -> str:
    try:
        library()
    except Exception as error:
        return exception_text(error)
    raise AssertionError("it has not failed")


async def _in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.to_thread(json.loads, "{"))


@pytest.mark.parametrize(
    "library",
    [lambda: json.loads("{"), lambda: importlib.import_module("no_such_module"), lambda: asyncio.run(_in_a_group())],
    ids=["library", "import", "group"],
)
def test_a_failure_inside_a_library_is_placed_at_the_line_of_the_user(library: Any) -> None:
    end = TrainingEnded(Lease(1, WorkerId(0), 1), Outcome.FAILED, 0, error=_raised(library), error_kind="E")
    assert f'E in "{__file__}", line ' in place_of(end)


def test_a_failure_without_a_line_of_the_user_is_placed_in_the_library() -> None:
    text = 'Traceback (most recent call last):\n  File "/v/lib/python3.11/site-packages/a/b.py", line 7, in f\nE: x'
    assert line_in(text) == '"/v/lib/python3.11/site-packages/a/b.py", line 7'


def in_gangs(workers: int, size: int, min_size: int | None = None) -> Player:
    state = make_state(FIFO(max_resource=3), RandomSearch(), SPACE)
    state.gang = Gang(size, min_size)
    player = Player(state)
    player.begin(None, workers)
    return player


@pytest.mark.parametrize(("workers", "size", "failures"), [(2, 2, 3), (3, 2, 4), (3, 3, 4), (4, 2, 5), (6, 3, 7)])
def test_the_same_failure_in_every_gang_ends_the_run(workers: int, size: int, failures: int) -> None:
    assert fail_until_stopped(in_gangs(workers, size)) == failures


@pytest.mark.parametrize(
    ("alive", "size", "least", "voices"), [(5, 3, None, 1), (5, 3, 2, 2), (4, 2, 1, 2), (1, 2, 1, 1)]
)
def test_a_gang_has_one_voice(alive: int, size: int, least: int | None, voices: int) -> None:
    assert in_gangs(alive, size, least).state.voices == voices


def test_a_rank_that_failed_the_gangs_of_two_others_is_one_that_says_so() -> None:
    failures = RepeatedFailures()
    for gang in ([WorkerId(0), WorkerId(1)], [WorkerId(2), WorkerId(1)]):
        failures.claim("CannotPauseError", gang)
    assert not failures.is_agreed("CannotPauseError", 2)
    failures.claim("CannotPauseError", [WorkerId(0), WorkerId(3)])
    assert failures.is_agreed("CannotPauseError", 2)


GOES_ON = [
    pytest.param(ASHA(max_resource=9), id="asha"),
    pytest.param(ASHA(max_resource=9, variant="stopping"), id="stopping"),
    pytest.param(ASHA(max_resource=9, finish_best=True), id="finish best"),
    pytest.param(SHA(max_resource=9), id="sha"),
    pytest.param(Hyperband(max_resource=9, brackets=1), id="hyperband"),
    pytest.param(PBT(max_resource=9, perturbation_interval=1), id="pbt"),
]


class Failing(Curves):
    """Trials that fail in the unit after ``units``, except some."""

    def __init__(self, units: int, sound: tuple[int, ...] = ()) -> None:
        super().__init__(seed=1)
        self.units, self.sound = units, sound

    def fails_after(self, trial: TrialId) -> tuple[int, float] | None:
        return None if trial in self.sound else (self.units, 0.5)


def search(scheduler: Scheduler, units: int, sound: tuple[int, ...] = (), pack: int | None = None) -> Any:
    state = packed_state(scheduler, pack)
    end = Simulation(state, workers=2, workload=Failing(units, sound)).run(9)
    return state, end


@pytest.mark.parametrize("pack", [None, 3], ids=["alone", "packed"])
@pytest.mark.parametrize("scheduler", GOES_ON)
def test_a_search_fails_if_every_trial_that_goes_on_does(scheduler: Scheduler, pack: int | None) -> None:
    state, end = search(scheduler, 1, pack=pack)
    assert isinstance(end, EndRun)
    assert (end.error_kind, end.is_complete) == ("TrialsFailedError", True)
    are_all_failed = all(trial.state is TrialState.FAILED for trial in state.trials)
    assert (
        "all 9 trials failed" in end.reason
        if are_all_failed
        else "failed: it failed as the workload says" in end.reason
    )
    words = title(status_of(state))
    assert "failed" in words
    assert "finished" not in words
    again = restored(state, packed_state(scheduler, pack))
    assert failed_as_a_whole(again.trials, again.promoted) == failed_as_a_whole(state.trials, state.promoted)


@pytest.mark.parametrize("scheduler", GOES_ON)
def test_a_search_of_which_one_trial_gets_on_has_not_failed(scheduler: Scheduler) -> None:
    state, _ = search(scheduler, 1, sound=tuple(range(9)))
    went_on = [t.id for t in state.trials if t.resource > 1]
    state, end = search(scheduler, 1, sound=(went_on[0],))
    assert not end.error_kind, end.reason
    assert any(trial.resource > 1 and trial.state is not TrialState.FAILED for trial in state.trials)


def test_failures_beyond_a_rung_that_others_have_passed_fail_no_search() -> None:
    _, end = search(ASHA(max_resource=9), 4)
    assert not end.error_kind


def test_a_search_with_failed_and_complete_trials_has_not_failed() -> None:
    _, end = search(FIFO(max_resource=3), 1, sound=(4,))
    assert not end.error_kind


def test_what_promotions_came_to_is_in_the_snapshot() -> None:
    state, _ = search(ASHA(max_resource=9), 1)
    found = snapshot.decode(snapshot.encode(state, 1))
    assert found is not None
    assert found.promoted == state.promoted
    assert isinstance(state, StudyState)


def explode(trial: Any) -> None:
    weights = {"x": 1.0}
    for epoch in trial.epochs(state={"weights": weights}):
        if epoch == 2:
            raise ValueError("exploded")
        trial.report(loss=trial.params["x"])


def test_run_and_resume_raise_with_the_line(tmp_path: Any) -> None:
    def study(resume: bool) -> Study:
        options: dict[str, Any] = {"scheduler": ASHA(max_resource=9), "store": tmp_path / "st", "backend": "inline"}
        return Study(explode, space={"x": uniform(0, 1)}, metric="loss", mode="min", resume=resume, **options)

    line = explode.__code__.co_firstlineno + 4
    for resume in (False, True):
        with pytest.raises(TrialsFailedError) as raised:
            study(resume).run(num_trials=9, parallelism=1, display="none")
        assert f'ValueError: exploded, in "{__file__}", line {line}' in str(raised.value)
    assert study(True).best_trial.value is not None, "what was reported is kept"
