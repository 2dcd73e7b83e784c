"""An earlier study on other numbers of workers."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asyncsearch.engine.config import EngineConfig
from asyncsearch.errors import UsageError
from asyncsearch.events import Reported
from asyncsearch.ids import TrialId
from asyncsearch.journal.projection import branched
from asyncsearch.report.what_if.recorded_study import recorded
from asyncsearch.report.what_if.worker_counts import what_if
from asyncsearch.schedulers import ASHA, FIFO, PBT, SHA, MedianStopping
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.simulate import Delays, Faults, NoisyQuadratic, simulate
from asyncsearch.simulate.workloads import Curves
from asyncsearch.space import Space
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store
from asyncsearch.study.study import Study
from asyncsearch.trial import Trial, TrialState
from tests.engine.tools import Recorded, make_state, record
from tests.report.tools import SCHEDULER, SPACE, records_of, simulated, store_of

DELAYS = Delays(start_s=3.0, setup_s=0.5, commit_s=0.25)


class Planned:
    """A study as its script describes it."""

    def __init__(self, made: Recorded, folder: Path) -> None:
        self.config: EngineConfig = made.state.config
        self.store: Store = open_store(store_of(made, folder / "study"))
        self.space: Space = SPACE
        self.scheduler: Any = SCHEDULER


def quiet(**options: Any) -> Recorded:
    settings: dict[str, Any] = {"faults": Faults(), "delays": DELAYS} | options
    return simulated(**settings)


def test_on_as_many_workers_it_takes_as_long_as_it_took(tmp_path: Path) -> None:
    made = quiet(workload=Curves(seed=1))
    found = what_if(Planned(made, tmp_path), workers=[3])
    assert found.recorded is not None
    workers, wall_s = found.recorded
    assert workers == 3
    assert found.cases[0].wall_s == pytest.approx(wall_s, rel=2e-3)
    assert found.cases[0].guessed == 0
    assert found.cases[0].best == min(trial.best for trial in made.state.trials if trial.best is not None)


def test_units_of_which_not_each_tells_its_time_cost_the_same() -> None:
    records = records_of(quiet(workload=Curves(seed=1)))
    reports = itertools.count()
    some = [
        record
        if not isinstance(record.event, Reported) or next(reports) % 2
        else msgspec.structs.replace(record, event=msgspec.structs.replace(record.event, spent=msgspec.UNSET))
        for record in records
    ]
    assert next(reports) > 30
    assert recorded(some, "loss").mean_s == pytest.approx(recorded(records, "loss").mean_s, rel=0.02)


def test_units_of_less_than_a_millisecond_have_a_cost() -> None:
    made = quiet(workload=Curves(seed=1, unit_s=1e-5), delays=Delays())
    assert recorded(records_of(made), "loss").mean_s > 0


def test_loads_and_saves_take_as_long_as_workers_have_measured(tmp_path: Path) -> None:
    delays = Delays(start_s=3.0, setup_s=0.5, load_s=2.0, save_s=0.75, message_s=0.01)
    made = quiet(workload=Curves(seed=1), delays=delays)
    own = recorded(records_of(made), "loss").delays
    assert (own.setup_s, own.load_s, own.save_s) == pytest.approx((0.5, 2.0, 0.75), rel=2e-3)
    found = what_if(Planned(made, tmp_path), workers=[3])
    assert found.recorded is not None
    assert found.cases[0].wall_s == pytest.approx(found.recorded[1], rel=0.02)


def test_more_workers_take_less_time_and_the_table_says_how_much(tmp_path: Path) -> None:
    found = what_if(Planned(quiet(), tmp_path), workers=[1, 2, 8])
    times = [case.wall_s for case in found.cases]
    assert times[0] > 1.5 * times[1] > 1.5 * times[2]
    shares = [case.busy_share for case in found.cases]
    assert shares == sorted(shares, reverse=True)
    assert found.cases[0].worker_s == times[0]
    text = str(found)
    assert text.splitlines()[0].split()[:2] == ["workers", "time"]
    assert f"{times[0] / times[1]:.2f}" in text
    assert "The study itself took" in text


def test_units_that_were_never_trained_are_counted_as_guessed(tmp_path: Path) -> None:
    found = what_if(Planned(quiet(), tmp_path), workers=[3], scheduler=FIFO(max_resource=9))
    assert 0.3 < found.cases[0].guessed < 0.9


def test_times_are_measured_in_the_journal() -> None:
    made = quiet(workload=Curves(seed=1, spread=0.5), num_trials=30)
    workload = recorded(records_of(made), "loss")
    assert workload.delays.start_s == 3.0
    assert workload.delays.commit_s == pytest.approx(0.25)
    assert workload.delays.setup_s == pytest.approx(0.5)
    true = Curves(seed=1, spread=0.5)
    for trial in made.state.trials:
        assert workload.seconds(trial.id, {}) == pytest.approx(true.seconds(trial.id, {}), rel=2e-3)


def test_beyond_what_is_known_the_last_value_is_repeated() -> None:
    made = quiet()
    workload = recorded(records_of(made), "loss")
    trial = next(trial for trial in made.state.trials if trial.resource == 1)
    assert workload.value(trial.id, {}, 1) == trial.value
    assert workload.guessed == 0
    assert workload.value(trial.id, {}, 9) == trial.value
    assert (workload.guessed, workload.reports) == (1, 2)


def states(trials: list[Trial]) -> list[tuple[Any, ...]]:
    return [(trial.id, trial.state, trial.target, trial.resource, trial.value) for trial in trials]


class Broken(Curves):
    """Every third trial fails: before its first unit, on its way, where it was to pause, or at the end."""

    at = ((0, 0.5), (1, 0.0), (1, 0.5), (2, 0.0), (2, 0.7), (3, 0.0), (4, 0.2), (9, 0.0))

    def units(self, trial: TrialId) -> int:
        return 9

    def fails_after(self, trial: TrialId) -> tuple[int, float] | None:
        return self.at[trial // 3 % len(self.at)] if trial % 3 == 0 else None


@pytest.mark.parametrize("max_failures", [0, 2])
@pytest.mark.parametrize(
    "scheduler",
    [FIFO(), FIFO(max_resource=9), ASHA(max_resource=9), ASHA(max_resource=9, variant="stopping"), SHA(max_resource=9)],
    ids=lambda scheduler: scheduler.describe(),
)
def test_failed_trials_fail_again_and_take_as_long_without_a_guess(
    scheduler: Scheduler, max_failures: int, tmp_path: Path
) -> None:
    state = make_state(scheduler, space=SPACE, max_failures=max_failures)
    made = record(state, 30, workers=3, workload=Broken(seed=1, spread=0.5), delays=DELAYS)
    failed = [trial.id for trial in made.state.trials if trial.state is TrialState.FAILED]
    assert len(failed) > 3
    planned = Planned(made, tmp_path)
    planned.scheduler = scheduler
    found = what_if(planned, workers=[3])
    assert found.recorded is not None
    assert found.cases[0].wall_s == pytest.approx(found.recorded[1], rel=2e-3)
    assert found.cases[0].guessed == 0
    assert found.cases[0].best == min(trial.best for trial in made.state.trials if trial.best is not None)
    workload = recorded(records_of(made), "loss")
    options: dict[str, Any] = {"delays": workload.delays, "max_failures": max_failures, "workers": 3, "num_trials": 30}
    again = simulate(workload, scheduler=scheduler, searcher=workload.searcher, space=SPACE, **options)
    assert states(again.trials) == states(made.state.trials)


def test_a_failure_without_a_report_of_its_unit_takes_the_whole_unit(
    tmp_path: Path,
) -> None:
    made = quiet(workload=Curves(seed=1, spread=0.5), faults=Faults(failures={TrialId(4): 1, TrialId(0): 2}))
    found = what_if(Planned(made, tmp_path), workers=[3])
    assert found.recorded is not None
    assert found.cases[0].wall_s == pytest.approx(found.recorded[1], rel=2e-3)
    assert found.cases[0].guessed == 0


def test_what_failed_once_and_went_well_when_it_was_tried_again_goes_well() -> None:
    state = make_state(ASHA(max_resource=9), max_failures=1)
    made = record(state, 9, workers=1, faults=Faults(failures={TrialId(2): 1}))
    assert made.state.trials[2].failures == 1
    workload = recorded(records_of(made), "loss")
    assert [workload.fails_after(trial.id) for trial in made.state.trials] == [None] * 9


def test_the_last_attempt_gives_a_failures_time_and_all_give_its_progress() -> None:
    class Hanging(Curves):
        def __init__(self) -> None:
            super().__init__(seed=1)
            self.attempts = iter([(3, 0.5), (1, 10.0)])

        def fails_after(self, trial: TrialId) -> tuple[int, float]:
            return next(self.attempts)

    made = record(make_state(FIFO(max_resource=5), max_failures=1), 1, workers=1, workload=Hanging())
    units, seconds = recorded(records_of(made), "loss").fails_after(TrialId(0)) or (0, 0.0)
    assert units == 3
    assert units + seconds == pytest.approx(1 + 10.0, rel=2e-3)


def test_a_failure_with_anothers_weights_is_no_failure_of_its_beginning() -> None:
    class Late(NoisyQuadratic):
        def fails_after(self, trial: TrialId) -> tuple[int, float] | None:
            return 7, 0.5

    quadratic = Late()
    state = make_state(PBT(max_resource=9, perturbation_interval=3), space=quadratic.space, share=False)
    made = record(state, 8, workers=2, workload=quadratic)
    records = records_of(made)
    took_over = branched(records)
    assert {trial.state for trial in made.state.trials} == {TrialState.FAILED}
    assert took_over
    workload = recorded(records, "loss")
    for trial in made.state.trials:
        failure = workload.fails_after(trial.id)
        assert (failure is None) is (trial.id in took_over)
        assert failure is None or failure[0] == 7


def test_lost_workers_and_failures_in_the_journal_do_not_disturb(tmp_path: Path) -> None:
    made = simulated()
    found = what_if(Planned(made, tmp_path), workers=[1, 3])
    assert all(case.wall_s > 0 for case in found.cases)


def test_a_study_without_reports_cannot_be_asked(tmp_path: Path) -> None:
    made = quiet()
    folder = store_of(made, tmp_path / "empty", lines=3)
    planned = Planned(made, tmp_path)
    planned.store = open_store(folder)
    with pytest.raises(UsageError, match="nothing to simulate"):
        what_if(planned)


def test_a_study_that_was_only_opened_for_reading_is_refused(tmp_path: Path) -> None:
    planned = Planned(quiet(), tmp_path)
    planned.scheduler = None
    with pytest.raises(UsageError, match=r"Study\.resume"):
        what_if(planned)
    assert what_if(planned, workers=[1], scheduler=ASHA(max_resource=9)).cases


@pytest.mark.parametrize("study", [3, None, "studies/digits", Study])
def test_what_is_no_study_is_refused(study: Any) -> None:
    with pytest.raises(UsageError, match="this is not a study: write what_if"):
        what_if(study)


@pytest.mark.parametrize(
    ("scheduler", "words"),
    [
        (ASHA, r"is not a Scheduler: write ASHA\(...\)"),
        (3, "scheduler=3 is not a Scheduler"),
        (
            PBT(max_resource=9, perturbation_interval=3),
            r"^PBT\(max_resource=9, perturbation_interval=3\) makes new configurations .* pass another scheduler=",
        ),
    ],
)
def test_schedulers_that_cannot_be_asked_are_refused(tmp_path: Path, scheduler: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        what_if(Planned(quiet(), tmp_path), scheduler=scheduler)


@pytest.mark.parametrize("workers", [[], [0], [2, -1], 3, [1, "a"], "12", [1.5], [True]])
def test_numbers_of_workers_that_cannot_be_are_refused(tmp_path: Path, workers: Any) -> None:
    with pytest.raises(UsageError, match=r"workers.*="):
        what_if(Planned(quiet(), tmp_path), workers=workers)


def test_values_of_borrowed_weights_are_not_those_of_what_a_trial_began_as() -> None:
    quadratic = NoisyQuadratic()
    state = make_state(PBT(max_resource=9, perturbation_interval=3), space=quadratic.space, share=True)
    records = records_of(record(state, 8, workers=2, workload=quadratic))
    took_over = branched(records)
    assert took_over
    workload = recorded(records, "loss")
    for trial, (params, resource) in took_over.items():
        assert workload.params[trial] == params
        assert workload.value(trial, params, 3) == quadratic.value(trial, params, 3)
        assert workload.value(trial, params, 9) == workload.value(trial, params, resource)


def test_trials_that_end_by_themselves_are_as_long_as_they_were() -> None:
    class Returning(Curves):
        def units(self, trial: TrialId) -> int:
            return 3 + trial % 4

    for scheduler in (FIFO(), MedianStopping(min_trials=2), ASHA(variant="stopping")):
        recorder = record(make_state(scheduler), 12, workers=1, workload=Returning(seed=1))
        trials = recorder.state.trials
        records = records_of(recorder)
        workload = recorded(records, "loss")
        longest = max(trial.resource for trial in trials)
        for trial in trials:
            is_known = trial.state is TrialState.COMPLETED
            assert workload.units(trial.id) == (trial.resource if is_known else longest)
        again = simulate(workload, scheduler=scheduler, searcher=workload.searcher, seed=3)
        assert [trial.resource for trial in again.trials] == [trial.resource for trial in trials]
        assert again.wall_s == pytest.approx(sum(trial.resource for trial in trials))


def test_trials_are_those_of_the_study_in_their_order() -> None:
    made = quiet()
    workload = recorded(records_of(made), "loss")
    assert list(workload.params) == [trial.params for trial in made.state.trials]
    state = workload.searcher.begin(SPACE, 0)
    assert state.length() == len(made.state.trials)
    assert state.propose(3) == made.state.trials[TrialId(3)].params
    assert state.propose(10**6) is None
