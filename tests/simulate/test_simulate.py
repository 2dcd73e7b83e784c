"""``simulate``: a whole search in one call, and what its result says."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asyncsearch.engine.invariants import check
from asyncsearch.errors import ResourceError, UsageError
from asyncsearch.ids import TrialId, WorkerId
from asyncsearch.schedulers import ASHA, FIFO, PBT, SHA, MedianStopping
from asyncsearch.searchers import GridSearch
from asyncsearch.sequences import multistep
from asyncsearch.simulate import (
    Chance,
    Curves,
    Delays,
    Faults,
    Loss,
    NoisyQuadratic,
    SimulationResult,
    TrainingModel,
    Until,
    simulate,
)
from asyncsearch.space import choice, loguniform
from asyncsearch.testing.recording import Histories
from asyncsearch.trial import Params, Trial, TrialState


def search(**options: Any) -> SimulationResult:
    settings: dict[str, Any] = {"scheduler": ASHA(max_resource=27), "workers": 4, "num_trials": 60} | options
    return simulate(settings.pop("workload", Curves(seed=1)), **settings)


def ends(trial: Trial) -> tuple[Any, ...]:
    """What is the same however often is reported: a trial that fails was not heard of since its last report."""
    is_failed = trial.state is TrialState.FAILED
    return trial.id, trial.state, trial.target, None if is_failed else (trial.resource, trial.value)


def outcome(result: SimulationResult) -> list[tuple[Any, ...]]:
    return [(t.id, t.state, t.target, t.resource, t.value, t.started_s, t.ended_s) for t in result.trials]


def test_the_result_says_what_happened() -> None:
    result = search()
    assert result.is_complete
    assert result.promotions == len(result.arrivals) - 60
    assert [arrival.trial for arrival in result.completed] == [
        trial.id for trial in sorted(result.trials, key=lambda t: t.ended_s or 0) if trial.resource == 27
    ]
    assert result.trained == sum(trial.resource for trial in result.trials)
    best = min(trial.best for trial in result.trials if trial.best is not None)
    assert result.best is not None
    assert result.best.value == best
    assert result.value_at(result.wall_s) == best
    assert "60 trials on 4 workers" in str(result)


def test_incumbents_only_improve_and_the_first_gives_the_time_to_a_value() -> None:
    result = search()
    values = [incumbent.value for incumbent in result.incumbents]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == len(values) > 2
    middle = result.incumbents[len(values) // 2]
    assert result.time_to(middle.value) == middle.at_s
    assert result.time_to(values[-1] - 1e-9) is None
    assert result.value_at(middle.at_s) == middle.value
    assert result.value_at(-1.0) is None


def test_mode_max_sees_the_mirrored_search() -> None:
    class Mirrored(Curves):
        def value(self, trial: TrialId, params: Params, resource: int) -> float:
            return -super().value(trial, params, resource)

    low, high = search(), search(workload=Mirrored(seed=1), mode="max", metric="accuracy")
    assert [(i.at_s, i.trial, -i.value) for i in low.incumbents] == [
        (i.at_s, i.trial, i.value) for i in high.incumbents
    ]
    assert low.wall_s == high.wall_s


def test_workers_that_always_have_work_are_busy_all_the_time() -> None:
    result = search(num_trials=None, until=Until(seconds=100.5))
    assert result.wall_s == 100.5
    assert result.busy_share == pytest.approx(1.0)
    assert result.reason == "time was up"
    assert not result.is_complete


def test_the_time_of_one_worker_is_the_sum_of_all_training() -> None:
    result = search(workers=1)
    assert result.wall_s == result.busy_s == result.trained


def test_the_simulation_ends_when_the_target_is_met() -> None:
    whole = search()
    target = whole.incumbents[2].value
    result = search(until=Until(target=target))
    assert result.wall_s == whole.time_to(target)
    assert result.reason == "the target was met"


def test_the_simulation_ends_when_enough_trials_are_trained_to_the_end() -> None:
    result = search(num_trials=None, until=Until(completed=2))
    assert len(result.completed) == 2
    assert result.wall_s == result.completed[-1].at_s


@pytest.mark.parametrize("scheduler", [ASHA(max_resource=27), SHA(max_resource=27), FIFO(max_resource=5)])
@pytest.mark.parametrize("report_every", [None, 2, 4])
def test_fewer_reports_change_nothing_but_the_reports(scheduler: Any, report_every: int | None) -> None:
    options: dict[str, Any] = {
        "scheduler": scheduler,
        "workload": Curves(seed=4, spread=0.5),
        "faults": Faults(
            losses=[Loss(WorkerId(1), 7.3, 2.0)],
            failures={TrialId(3): 2},
            chance=Chance(spread=0.4, drop=0.01),
            max_losses=100,  # a report is progress, after which losses count from one again
        ),
        "delays": Delays(message_s=0.01, setup_s=0.2),
    }
    fine, coarse = search(**options), search(training=TrainingModel(report_every=report_every), **options)
    assert [ends(trial) for trial in fine.trials] == [ends(trial) for trial in coarse.trials]
    assert coarse.wall_s == pytest.approx(fine.wall_s)
    assert coarse.busy_s == pytest.approx(fine.busy_s)


@pytest.mark.parametrize("report_every", [None, 7])
def test_a_split_on_the_way_between_two_reports_is_saved_there(report_every: int | None) -> None:
    space = {"lr": multistep(0.1, milestones=choice([3], [5], [11]), gamma=choice(0.1, 0.5))}
    options: dict[str, Any] = {"scheduler": FIFO(max_resource=16), "searcher": GridSearch(), "num_trials": None}
    fine = search(workload=Histories(), space=space, **options)
    coarse = search(workload=Histories(), space=space, training=TrainingModel(report_every=report_every), **options)
    check(coarse.state)
    assert fine.busy_s == coarse.busy_s < 6 * 16
    assert [trial.value for trial in fine.trials] == [trial.value for trial in coarse.trials]


def test_a_promoted_trial_that_restarts_trains_again_what_it_had() -> None:
    resumed, restarted = search(workers=1), search(workers=1, training=TrainingModel(restarts=True))
    assert (
        resumed.busy_s
        < restarted.busy_s
        < resumed.busy_s + sum(arrival.resource // 3 for arrival in restarted.arrivals if arrival.resource > 1)
    ), "those that go on where they are train nothing again"
    assert [trial.value for trial in restarted.trials] == [trial.value for trial in resumed.trials]


def test_setting_up_is_paid_for_each_piece_of_work() -> None:
    quick, slow = search(workers=1), search(workers=1, delays=Delays(setup_s=2.0))
    assert slow.wall_s == quick.wall_s + 2.0 * slow.state.next_lease


def test_the_same_seed_gives_the_same_search() -> None:
    options = {"faults": Faults(chance=Chance(spread=0.5, drop=0.02)), "workers": 7}
    assert outcome(search(**options)) == outcome(search(**options))


def test_without_workers_the_simulation_ends_where_the_last_one_died() -> None:
    faults = Faults(losses=[Loss(WorkerId(number), 5.0 + number, math.inf) for number in range(2)])
    result = simulate(Curves(), scheduler=ASHA(max_resource=9), workers=2, num_trials=30, faults=faults)
    assert (result.wall_s, result.reason, result.is_complete) == (6.0, "no worker was left", False)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Delays(commit_s=-1), "commit_s=-1 is no time"),
        (lambda: Delays(start_s=math.inf), "start_s=inf is no time"),
        (lambda: Loss(WorkerId(0), -1), "at_s=-1 is no time"),
        (lambda: Loss(WorkerId(0), 1, math.nan), "down_s=nan is no time"),
        (lambda: Loss(WorkerId(0), 10**400), "at_s=10{400} is no time"),
        (lambda: Delays(setup_s="1"), "setup_s='1' is no time"),  # type: ignore[arg-type]
        (lambda: Chance(drop="1"), "drop='1' must be a finite number"),  # type: ignore[arg-type]
        (lambda: Until(seconds=0), "seconds=0 must be a positive, finite number"),
        (lambda: Until(seconds=math.nan), "seconds=nan must be"),
        (lambda: Until(target=math.nan), "target=nan must be a finite number"),
        (lambda: Until(target="low"), "target='low' must be"),  # type: ignore[arg-type]
        (lambda: Until(completed=0), "completed=0 must be"),
        (lambda: TrainingModel(report_every=0), "report_every=0"),
        (lambda: TrainingModel(restarts="no"), "restarts='no' is neither True nor False: write restarts=True"),  # type: ignore[arg-type]
        (lambda: Faults(chance=3), "chance=3 is not a Chance"),  # type: ignore[arg-type]
        (lambda: Faults(losses=[3]), "losses=3 is not a Loss"),  # type: ignore[list-item]
        (lambda: Faults(losses=3), r"losses=3: write a list, e.g. losses=\[Loss"),  # type: ignore[arg-type]
        (lambda: Faults(failures=[3]), "write a mapping from a trial to the unit"),  # type: ignore[arg-type]
        (lambda: Faults(failures={"trial-0": 1}), "trial='trial-0' must be an integer from 0"),  # type: ignore[dict-item]
        (lambda: Faults(failures={TrialId(0): 0}), r"failures\[0\]=0 must be a positive integer"),
        (lambda: Faults(max_losses=-1), "max_losses=-1 must be an integer from 0"),
        (lambda: Curves(unit_s=0), "unit_s=0 must be a positive, finite number"),
        (lambda: Curves(unit_s=math.nan), "unit_s=nan must be"),
        (lambda: Curves(spread=-1), "spread=-1 must be a finite number from 0"),
        (lambda: Curves(spread=10**400), "spread=.* must be a finite number from 0"),
        (lambda: Curves(seed="a"), "seed='a' must be an integer from 0"),  # type: ignore[arg-type]
        (lambda: Chance(seed=0.5), "seed=0.5 must be an integer from 0"),  # type: ignore[arg-type]
        (lambda: NoisyQuadratic(report_noise=math.nan), "report_noise=nan must be"),
        (lambda: NoisyQuadratic().optimum(-1), "resource=-1 must be an integer from 0"),
        (
            lambda: simulate(
                Curves(), scheduler=FIFO(max_resource=1), num_trials=1, faults=Faults(losses=[Loss(WorkerId(1), 1)])
            ),
            "of 1 workers the numbers are 0 to 0",
        ),
    ],
)
def test_what_cannot_happen_is_refused(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make()


def test_what_a_dead_worker_said_and_nobody_heard_is_no_incumbent() -> None:
    result = search(
        scheduler=FIFO(max_resource=5),
        workers=1,
        num_trials=1,
        delays=Delays(message_s=0.5),
        faults=Faults(losses=[Loss(WorkerId(0), 3.7)], max_losses=0),
    )
    assert [trial.resource for trial in result.trials] == [2]
    assert [incumbent.resource for incumbent in result.incumbents] == [1, 2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 0}, "workers=0 must be a positive integer"),
        ({"share": "no"}, "share='no' is neither True nor False"),
        ({"workers": 2.5}, "workers=2.5 must be"),
        ({"num_trials": 0}, "num_trials=0 must be"),
        ({"num_trials": -3}, "num_trials=-3 must be"),
        ({"num_trials": None}, "Nothing would end"),
        ({"until": 60.0}, r"until=60.0 is not a Until: write Until\(...\)"),
        ({"target": 0.1}, r"'target': write until=Until\(target=0.1\)"),
        ({"restarts": True}, r"write training=TrainingModel\(restarts=True\)"),
        (
            {"until": Until(completed=1), "scheduler": ASHA()},
            r"completed=1 counts trials that are trained to max_resource, and ASHA\(\) has none: give it one",
        ),
        ({"mode": "most"}, "mode='most'"),
        ({"scheduler": ASHA}, r"write scheduler=ASHA\(max_resource=81\)"),
        ({"searcher": 3}, "searcher=3 is not a Searcher"),
        ({"delays": 3}, r"delays=3 is not a Delays: write Delays\(...\)"),
        ({"workload": 3}, "workload=3 is no object with a function value"),
        ({"workload": Curves}, "is no object with a function value"),
    ],
)
def test_what_cannot_be_simulated_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        search(**options)


@pytest.mark.parametrize("scheduler", [None, FIFO(), MedianStopping()])
def test_trials_of_unknown_end_are_refused_and_not_trained_for_one_unit(scheduler: Any) -> None:
    with pytest.raises(UsageError, match=r"Curves does not say when that is: write max_resource=, as in"):
        search(scheduler=scheduler)


def test_trials_end_where_the_workload_says_that_their_functions_return() -> None:
    class Ending(Curves):
        def units(self, trial: TrialId) -> int:
            return 2 + trial

    result = search(workload=Ending(), scheduler=FIFO(), num_trials=3)
    assert [trial.resource for trial in result.trials] == [2, 3, 4]


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"seconds": 0.0}, r"Odd.seconds\(\) returned 0.0 for trial-0: it must return how long a unit takes"),
        ({"seconds": -1.0}, "returned -1.0"),
        ({"seconds": math.nan}, "returned nan"),
        ({"seconds": math.inf}, "returned inf"),
        ({"seconds": "1"}, "returned '1'"),
        ({"seconds": None}, "returned None"),
        ({"value": None}, r"Odd.value\(\) returned None for trial-0: it must return a number, NaN where there is none"),
        ({"value": {"loss": 1.0}}, "returned {'loss': 1.0}"),
        ({"value": 10**400}, r"Odd.value\(\) returned 10{400} for trial-0: it must return a number, NaN where"),
        ({"value": -(10**5000)}, "returned an integer of thousands of digits for trial-0: it must return a number"),
        ({"value": np.complex128(1j)}, "it must return a number, NaN where there is none"),
        ({"seconds": 10**400}, "returned 10{400} for trial-0: it must return how long a unit takes"),
        ({"units": 0}, r"Odd.units\(\) returned 0 for trial-0: it must return after how many units"),
        ({"units": math.inf}, "returned inf"),
        ({"units": 2.5}, "returned 2.5"),
        ({"units": 10**400}, "returned 10{400} for trial-0: it must return after how many units"),
        ({"fails_after": 3}, r"Odd.fails_after\(\) returned 3 for trial-0: it must return None, or \(units, seconds\)"),
        ({"fails_after": (-1, 0.0)}, r"returned \(-1, 0.0\)"),
        ({"fails_after": (1.5, 0.0)}, r"returned \(1.5, 0.0\)"),
        ({"fails_after": (1, -0.5)}, r"returned \(1, -0.5\)"),
        ({"fails_after": (1, math.nan)}, r"returned \(1, nan\)"),
        ({"fails_after": (1, 10**400)}, r"returned \(1, 10{400}\)"),
        ({"fails_after": (1, 0.0, 0)}, r"returned \(1, 0.0, 0\)"),
    ],
)
def test_a_workload_that_returns_what_cannot_be_is_refused(answers: dict[str, Any], words: str) -> None:
    class Odd(Curves):
        def value(self, trial: TrialId, params: Params, resource: int) -> Any:
            return answers.get("value", 0.5)

        def seconds(self, trial: TrialId, params: Params) -> Any:
            return answers.get("seconds", 1.0)

        def units(self, trial: TrialId) -> Any:
            return answers.get("units", 3)

        def fails_after(self, trial: TrialId) -> Any:
            return answers.get("fails_after")

    with pytest.raises(UsageError, match=words):
        search(workload=Odd(), scheduler=FIFO())


@pytest.mark.parametrize("until", [Until(target=-1.0), Until(completed=10**9)])
def test_a_search_that_only_an_unmet_target_would_end_ends_all_the_same(
    until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncsearch.simulate.simulated_search._MOST_TRIALS", 50)
    result = search(num_trials=None, until=until)
    assert len(result.trials) == 50
    assert result.reason == "50 trials began before it was met; num_trials= lets more begin"
    assert not result.is_complete
    assert len(search(num_trials=60, until=until).trials) == 60


def test_what_a_study_refuses_of_populations_is_refused_here_too() -> None:
    pbt = PBT(max_resource=9, perturbation_interval=3, population=8)
    with pytest.raises(ResourceError, match="population=8 is larger than num_trials=4"):
        search(scheduler=pbt, num_trials=4)
    for num_trials in (None, 64):
        with pytest.raises(ResourceError, match="population=8 is larger than num_trials=3"):
            search(scheduler=pbt, searcher=GridSearch(), space={"x": choice(0.1, 0.2, 0.3)}, num_trials=num_trials)


def test_questions_to_a_result_that_have_no_answer_are_refused() -> None:
    result = search()
    assert result.value_at(math.inf) == (result.best.value if result.best else None)
    for ask in (result.time_to, result.value_at):
        with pytest.raises(UsageError, match="=nan must be a finite number"):
            ask(math.nan)


def test_a_parameter_that_the_workload_needs_and_the_space_lacks_is_named() -> None:
    class Parabola(Curves):
        def value(self, trial: TrialId, params: Params, resource: int) -> float:
            return float(params["width"])

    with pytest.raises(UsageError, match="Parabola looked for the parameter 'width', and this space has only x"):
        search(workload=Parabola())
    with pytest.raises(UsageError, match="needs the parameters lr, x0, and the trials lack x0: add them in space="):
        search(workload=NoisyQuadratic(), space={"lr": loguniform(1e-3, 1.0)})


def test_a_workloads_own_missing_keys_stay_what_they_are() -> None:
    class Table(Curves):
        def value(self, trial: TrialId, params: Params, resource: int) -> float:
            table: dict[int, float] = {}
            return table[resource]

    with pytest.raises(KeyError, match="1"):
        search(workload=Table())
