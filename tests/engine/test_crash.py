"""The driver may die at every record of its journal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from asyncsearch.actions import Assign, CutWork
from asyncsearch.engine import snapshot
from asyncsearch.engine.state import StudyState
from asyncsearch.events import CheckpointCommitted
from asyncsearch.ids import TrialId, WorkerId
from asyncsearch.journal.format import Record, SegmentReader
from asyncsearch.schedulers import ASHA, FIFO, SHA
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.simulate import Delays, Faults, Loss, TrainingModel
from asyncsearch.simulate.workloads import Curves
from asyncsearch.sizing.autoscale import Autoscale
from asyncsearch.sizing.gangs import Gang
from asyncsearch.trial import TrialState
from tests.engine.tools import (
    Recorded,
    make_state,
    record,
    replayed,
    require_each_state,
    require_same_decisions,
    results,
)
from tests.schedulers.journal_oracle import require_legal_promotions

ORDER_CANNOT_MATTER = [
    pytest.param(FIFO(max_resource=4), 3, id="fifo"),
    pytest.param(SHA(max_resource=9), 3, id="sha"),
    pytest.param(ASHA(max_resource=9), 1, id="asha on one worker"),
]
TRIALS = 12


def resumed(scheduler: Scheduler, lines: list[bytes], workers: int, **options: Any) -> Recorded:
    state = replayed(make_state(scheduler, max_failures=1), lines)
    return record(state, TRIALS, workers, last=len(lines) - 1, **options)


@pytest.mark.parametrize(("scheduler", "workers"), ORDER_CANNOT_MATTER)
def test_every_journal_prefix_resumes_to_the_undisturbed_results(scheduler: Scheduler, workers: int) -> None:
    whole = record(make_state(scheduler, max_failures=1), TRIALS, workers)
    for cut in range(1, len(whole.lines) + 1):
        again = resumed(scheduler, whole.lines[:cut], workers)
        assert results(again.state) == results(whole.state), f"cut after record {cut - 1}"


@pytest.mark.parametrize(
    ("scheduler", "workers"), [*ORDER_CANNOT_MATTER, pytest.param(ASHA(max_resource=9), 4, id="asha")]
)
def test_replaying_every_prefix_gives_the_state_that_was_there_to_the_byte(scheduler: Scheduler, workers: int) -> None:
    options: dict[str, Any] = {"faults": Faults(losses=[Loss(WorkerId(0), 7.0, 2.0)], failures={TrialId(2): 1})}
    options["delays"] = Delays(commit_s=0.2)
    whole = record(make_state(scheduler, max_failures=1), TRIALS, workers, **options)
    require_each_state(whole, lambda: make_state(scheduler, max_failures=1))


def test_a_snapshot_restored_and_taken_again_is_equal_to_the_byte() -> None:
    whole = record(make_state(ASHA(max_resource=9)), TRIALS, 4, faults=Faults(losses=[Loss(WorkerId(1), 5.0)]))
    require_each_state(whole, lambda: make_state(ASHA(max_resource=9)))


def test_a_damaged_snapshot_or_one_of_another_format_is_passed_over() -> None:
    data = snapshot.encode(make_state(), 0)
    assert snapshot.decode(data[:-3]) is None
    assert snapshot.decode(data.replace(b'"format":1', b'"format":99')) is None


def test_deciding_again_gives_the_recorded_decisions() -> None:
    whole = record(make_state(ASHA(max_resource=9), max_failures=1), TRIALS, 4, faults=Faults(failures={TrialId(3): 1}))
    require_same_decisions(whole, make_state(ASHA(max_resource=9), max_failures=1))


def test_asha_on_several_workers_obeys_its_rule_wherever_a_journal_is_cut() -> None:
    scheduler = ASHA(max_resource=9)
    losses = [Loss(WorkerId(1), 6.0, 3.0)]
    whole = record(make_state(scheduler, max_failures=1), TRIALS, 4, faults=Faults(losses=losses))
    for cut in range(1, len(whole.lines) + 1):
        again = resumed(scheduler, whole.lines[:cut], 4)
        require_legal_promotions(records_of(whole.lines[:cut], again.lines), [1, 3, 9])
        assert all(trial.state is not TrialState.RUNNING for trial in again.state.trials)


def records_of(*segments: list[bytes]) -> Iterator[Record]:
    reader = SegmentReader()
    for number, lines in enumerate(segments):
        yield from reader.read(f"{number}.jsonl", lines)


def test_no_acknowledged_checkpoint_is_trained_again() -> None:
    scheduler = ASHA(max_resource=9)
    whole = record(make_state(scheduler, max_failures=1), TRIALS, 3)
    for cut in range(1, len(whole.lines) + 1):
        again = resumed(scheduler, whole.lines[:cut], 3)
        require_nothing_repeated([*whole.steps[: cut - 1], *again.steps])


def require_nothing_repeated(steps: Sequence[Any]) -> None:
    """Require that each work begins at the last checkpoint that the driver has acknowledged."""
    durable: dict[str, int] = {}
    for _, event, actions in steps:
        if isinstance(event, CheckpointCommitted):
            durable[event.checkpoint.node] = event.checkpoint.resource
        for action in actions:
            if isinstance(action, Assign):
                stage = action.work.lanes[0].stages[0]
                assert stage.start == durable.get(stage.node, 0)


def test_a_driver_may_die_at_any_record_while_trainings_resize() -> None:
    options: dict[str, Any] = {
        "workload": Curves(seed=1, unit_s=10.0),
        "training": TrainingModel(gang_speedup={1: 1.0, 4: 3.4}),
    }

    def scaled() -> StudyState:
        state = make_state(FIFO(max_resource=12), can_save=True)
        state.gang = Gang(1, autoscale=Autoscale(0.1))
        return state

    whole = record(scaled(), 2, 4, **options)
    resizes = [one for _, _, actions in whole.steps for one in actions if isinstance(one, CutWork) and one.resize]
    assert resizes
    for cut in range(1, len(whole.lines) + 1):
        again = record(replayed(scaled(), whole.lines[:cut]), 2, 4, last=cut - 1, **options)
        assert results(again.state) == results(whole.state), f"cut after record {cut - 1}"
        require_nothing_repeated([*whole.steps[: cut - 1], *again.steps])
