"""What a worker says of its own lease may contradict itself: no such message breaks the engine, and so the search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.engine import snapshot
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.state import StudyState
from asyncsearch.events import (
    CheckpointCommitted,
    CheckpointFailed,
    Outcome,
    PackMeasured,
    PackMemory,
    PackSeconds,
    Reported,
    TrainingEnded,
    VolumeMeasured,
)
from asyncsearch.ids import CheckpointRef
from asyncsearch.schedulers import ASHA, FIFO, SHA, Hyperband
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.sizing.gangs import Gang
from asyncsearch.sizing.packing import KnownPacks, packing_for
from tests.engine.test_random_events import SHARED
from tests.engine.tools import make_state, packed_state
from tests.examples import examples
from tests.security.test_foreign_names import Door

METRICS: list[Any] = [{}, {"loss": 0.5}, {"loss": "NaN"}, {"loss": -1e308}, {"other": 1.0}]
KINDS = ["", "killed", "cannot_pause", "checkpoint", "no_report", "out_of_memory", "ValueError"]
SECONDS = [5e-324, 1e-300, 1.0, 2e11]


def sharing() -> StudyState:
    return make_state(ASHA(max_resource=9), GridSearch(), SHARED)


def packs() -> StudyState:
    return packed_state(Hyperband(max_resource=9), 4, SHARED, GridSearch())


def measured() -> StudyState:
    state = packed_state(SHA(max_resource=9), 4)
    state.packing = packing_for("auto", "plan")
    return state


def gangs() -> StudyState:
    state = make_state(FIFO(max_resource=9))
    state.gang = Gang(2)
    return state


def drawn(data: Any, attempt: Attempt) -> Any:
    """Draw a message of the worker that holds a lease, with any resource of its work in any place."""
    stages, lease, lane = attempt.batch.stages, attempt.lease, attempt.lane
    start, stop = stages[0].start, min(stages[-1].stop, 30)
    resources = st.sampled_from([start, start + 1, (start + stop) // 2, attempt.resource, stop - 1, stop, 0, 1])
    at = data.draw(resources)
    seconds = [PackSeconds(count, data.draw(st.sampled_from(SECONDS))) for count in (1, 2, 4)]
    memory = PackMemory(2**52, data.draw(st.sampled_from([0, 2**52])), 0, "a limit")
    outcome, metrics, kind = (data.draw(st.sampled_from(one)) for one in (list(Outcome), METRICS, KINDS))
    saved = data.draw(st.one_of(st.none(), resources))
    checkpoint = CheckpointRef(attempt.node_at(max(1, at)), max(1, at))
    return data.draw(
        st.sampled_from(
            [
                Reported(lease, max(1, at), metrics, lane),
                TrainingEnded(lease, outcome, at, saved, "error", kind, lane),
                TrainingEnded(lease, outcome, at, saved, "error", kind, lane),
                CheckpointCommitted(lease, checkpoint, 2**52, lane),
                CheckpointFailed(lease, checkpoint, "no", lane, data.draw(st.sampled_from(["", "store"]))),
                PackMeasured(lease, tuple(seconds), "device", memory=data.draw(st.sampled_from([None, memory]))),
                VolumeMeasured(lease, 2**52, 2**52),
            ]
        )
    )


@pytest.mark.parametrize("make", [sharing, packs, measured, gangs])
@settings(max_examples=examples(50), deadline=None)
@given(st.data())
def test_no_message_of_a_worker_about_its_own_lease_breaks_the_engine(
    make: Callable[[], StudyState], data: Any
) -> None:
    door = Door(make(), workers=3, trials=8)
    state = door.player.state
    for _ in range(40):
        if not state.attempts:
            break
        attempt = data.draw(st.sampled_from([state.attempts[number] for number in sorted(state.attempts)]))
        event = door.hear(attempt.lease.worker, drawn(data, attempt))
        if event is not None:
            door.player.tell(event)  # and checks the invariants


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ([], "end at 1, checkpoint at 2"),
        (["report at 3"], "end at 2"),
        (["commit at 3"], "end at 2"),
        (["commit at 3"], "end at 4, checkpoint at 2"),
        (["end at 2"], "commit at 3"),
        (["end at 2"], "failure at 3"),
    ],
)
def test_an_end_before_what_is_done_is_refused_as_is_a_checkpoint_after(before: list[str], message: str) -> None:
    door = Door(make_state(FIFO(max_resource=9)))
    attempt = next(iter(door.player.state.attempts.values()))

    def told(text: str) -> Any:
        lease, (kind, _, at, *rest) = attempt.lease, text.replace(",", "").split()
        here = CheckpointRef(attempt.node_at(1), int(at))
        saved = int(rest[-1]) if rest else None
        kinds: dict[str, Any] = {
            "report": Reported(lease, int(at), {"loss": 1.0}),
            "commit": CheckpointCommitted(lease, here),
            "failure": CheckpointFailed(lease, here, "no"),
            "end": TrainingEnded(lease, Outcome.REACHED, int(at), 2 if saved is None and at == "2" else saved),
        }
        return door.hear(lease.worker, kinds[kind])

    for text in before:
        event = told(text)
        assert event is not None
        door.player.tell(event)
    assert told(message) is None
    assert door.refused[-1] == ((attempt.lease.worker, 1), attempt.lease)


@pytest.mark.parametrize("seconds", [(2, 5e-324), (2, 1e300), (2, 0.0), (2, -1.0), (0, 1.0), (2**15, 1.0)])
def test_times_of_packs_that_no_clock_measures_are_left_out(seconds: tuple[int, float]) -> None:
    known = KnownPacks()
    known.note([(1, 1.0), seconds])
    assert known.seconds == {1: 1.0}
    assert known.alone_s(1.0, 3) > 0


@pytest.mark.parametrize("kind", ["error", "returned", "checkpoint", "traceback"])
def test_what_ends_tell_takes_little_memory_however_much_it_is(kind: str) -> None:
    door = Door(make_state(FIFO(max_resource=9)), trials=40)
    state = door.player.state
    for number in range(30):
        lease, long = state.attempts[min(state.attempts)].lease, f"{'x' * 250_000}{number}"
        if kind in ("error", "traceback"):
            text = f'  File "{long}", line 1, in f\nValueError: x' if kind == "traceback" else long
            door.player.tell(TrainingEnded(lease, Outcome.FAILED, 1, error=text, error_kind="ValueError"))
        elif kind == "returned":
            door.player.tell(Reported(lease, 9, {"loss": 1.0}))
            values: Any = {f"{name}{'x' * 900}": 1.0 for name in range(1000)}
            door.player.tell(TrainingEnded(lease, Outcome.RETURNED, 9, unreported=values))
        else:
            here = CheckpointRef(state.attempts[min(state.attempts)].node_at(9), 9)
            door.player.tell(TrainingEnded(lease, Outcome.REACHED, 9, 9))
            door.player.tell(CheckpointFailed(lease, here, long))
    assert len(snapshot.encode(state, 0)) < 500_000
