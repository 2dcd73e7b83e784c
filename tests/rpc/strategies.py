"""Any message that driver and worker can send each other."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec import UNSET

from asyncsearch.actions import AddLane, Assign, CutWork, DismissWorker, SaveAt, StopTraining
from asyncsearch.events import (
    CheckpointCommitted,
    CheckpointFailed,
    Outcome,
    PackMeasured,
    PackMemory,
    PackSeconds,
    Reported,
    Spent,
    TrainingEnded,
    VolumeMeasured,
)
from asyncsearch.ids import CheckpointRef, Lease
from asyncsearch.rpc.fields import LATEST_S
from asyncsearch.rpc.messages import Heartbeat, Hello, LogLine, LogLines, Refused, StoreOutage, StoreTokens
from asyncsearch.values import spell
from asyncsearch.work import Lane, Stage, Work

COUNTS = st.integers(0, 2**53 - 1)
SPENT = st.just(UNSET) | st.builds(Spent, *len(Spent._fields) * [COUNTS])
EPOCHS = st.integers(1, 2**31 - 1)
WORKERS = st.integers(0, 2**31 - 1)
LANES = st.integers(0, 2**31 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
LINES = TEXTS.map(lambda text: text.replace("\n", " ").replace("\r", " "))
WORDS = TEXTS.filter(str.isprintable)
LEASES = st.builds(Lease, number=COUNTS, worker=WORKERS, epoch=EPOCHS)
NODES = st.text("0123456789abcdef", min_size=32, max_size=32)
CHECKPOINTS = st.builds(CheckpointRef, node=NODES, resource=COUNTS)
METRICS = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.floats().map(spell), max_size=4
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
PARAMS = st.dictionaries(
    TEXTS, st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))
)
STAGES = st.builds(
    Stage,
    node=NODES,
    params=PARAMS,
    trials=st.lists(COUNTS, min_size=1, max_size=3).map(tuple),
    seed=st.integers(0, 2**63 - 1),
    start=COUNTS,
    stop=st.none() | COUNTS,
    max_resource=st.none() | COUNTS,
    save=st.booleans(),
    save_every=st.none() | COUNTS,
)
WORK_LANES = st.builds(Lane, stages=st.lists(STAGES, min_size=1, max_size=2).map(tuple), load=st.none() | CHECKPOINTS)
LOG_LINES = st.builds(LogLine, time_s=st.floats(0, LATEST_S, exclude_max=True), text=LINES, is_stderr=st.booleans())

WORKER_MESSAGES = st.one_of(
    st.builds(
        Hello,
        worker=WORKERS,
        epoch=EPOCHS,
        agent=st.text("abcdef0123456789", min_size=1),
        host=WORDS,
        pid=st.integers(0, 2**32 - 1),
        protocol=st.integers(0, 2**32 - 1),
        device=WORDS,
    ),
    st.just(Heartbeat()),
    st.builds(
        PackMeasured,
        lease=LEASES,
        seconds=st.lists(
            st.builds(
                PackSeconds, st.integers(1, 2**16 - 1), st.floats(0, LATEST_S, exclude_min=True, exclude_max=True)
            ),
            max_size=3,
        ).map(tuple),
        device=WORDS,
        refusal=TEXTS,
        memory=st.none() | st.builds(PackMemory, *3 * [st.integers(0, 2**53 - 1)], WORDS),
    ),
    st.builds(
        VolumeMeasured,
        lease=LEASES,
        steps=st.integers(0, 2**53 - 1),
        gradient_bytes=st.integers(0, 2**53 - 1),
        device=WORDS,
    ),
    st.builds(Reported, lease=LEASES, resource=st.integers(1, 2**53 - 1), metrics=METRICS, lane=LANES, spent=SPENT),
    st.builds(
        TrainingEnded,
        lease=LEASES,
        outcome=st.sampled_from(Outcome),
        resource=COUNTS,
        checkpoint_resource=st.none() | COUNTS,
        error=TEXTS,
        error_kind=WORDS,
        lane=LANES,
        spent=SPENT,
    ),
    st.builds(CheckpointCommitted, lease=LEASES, checkpoint=CHECKPOINTS, size_bytes=COUNTS, lane=LANES),
    st.builds(
        CheckpointFailed, lease=LEASES, checkpoint=CHECKPOINTS, error=TEXTS, lane=LANES, error_kind=WORDS | st.just("")
    ),
    st.builds(StoreOutage, error=TEXTS),
    st.builds(LogLines, lease=LEASES, lines=st.lists(LOG_LINES, max_size=3).map(tuple), left_out=COUNTS, lane=LANES),
)
DRIVER_MESSAGES = st.one_of(
    st.builds(
        Assign, work=st.builds(Work, lease=LEASES, lanes=st.lists(WORK_LANES, min_size=1, max_size=2).map(tuple))
    ),
    st.builds(AddLane, lease=LEASES, lane=LANES, added=WORK_LANES),
    st.builds(StopTraining, lease=LEASES, reason=TEXTS, lane=LANES),
    st.builds(SaveAt, lease=LEASES, node=NODES, resource=COUNTS, lane=LANES),
    st.builds(CutWork, lease=LEASES, stop=COUNTS, lane=LANES),
    st.builds(DismissWorker, worker=WORKERS, epoch=EPOCHS, reason=TEXTS, is_unheard=st.booleans()),
    st.builds(Refused, lease=LEASES, reason=TEXTS),
    st.builds(StoreTokens, tokens=st.binary(min_size=1, max_size=99)),
)
