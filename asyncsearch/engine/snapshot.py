"""Converts the whole state to JSON values and back. A snapshot only replaces the replay of older records. Pure.

Its file has a checksum beside these values, and that of the record it stands for: see ``journal.opening``.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from asyncsearch.arguments import json_bytes
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.best_saved import BestSaved
from asyncsearch.engine.pool import Slot
from asyncsearch.engine.repeated_failures import ConsecutiveLosses, Promoted, RepeatedFailures
from asyncsearch.engine.state import RunTimes, StudyState
from asyncsearch.engine.stop_facts import StopFacts
from asyncsearch.events import RunRequested
from asyncsearch.files import decoded
from asyncsearch.ids import CheckpointRef, NodeKey, PathStep, TrialId
from asyncsearch.plan.costs import KnownCosts
from asyncsearch.plan.known_reports import NodeReports, ReportRow
from asyncsearch.sizing.autoscale import KnownSpeeds, OwnUnits
from asyncsearch.sizing.packing import KnownPacks
from asyncsearch.trial import CompactParams, Trial, TrialState

FORMAT = 1
"""A snapshot of another format is ignored, and the journal is replayed from its beginning."""


class Snapshot(msgspec.Struct, frozen=True):
    """The whole content of a ``StudyState`` after a certain record."""

    format: int
    record: int
    """Number of the last record that it includes."""
    trials: list[Trial]
    waiting: list[TrialId]
    attempts: list[Attempt]
    slots: list[Slot]
    run: RunRequested | None
    stopping: tuple[str, str]
    next_lease: int
    proposals: int
    is_exhausted: bool
    metric_names: list[str]
    best_trials: list[tuple[float, TrialId]] = msgspec.field(name="podium")
    known: dict[NodeKey, NodeReports]
    scheduler: dict[str, Any]
    searcher: dict[str, Any]
    busy: list[NodeKey] = []
    costs: KnownCosts | None = None
    """Costs of units of training. None if no decision depends on them."""
    sizes: list[tuple[CheckpointRef, int]] | None = None
    """Bytes of each durable checkpoint. None if an earlier version wrote them under a quota only."""
    imported: list[CheckpointRef] = []
    repeated: RepeatedFailures = msgspec.field(default_factory=RepeatedFailures)
    damages: dict[TrialId, int] = {}
    consecutive_losses: dict[TrialId, ConsecutiveLosses] = {}
    times: RunTimes = msgspec.field(default_factory=lambda: RunTimes(total_s=None))
    packs: dict[str, KnownPacks] = {}
    speeds: dict[str, KnownSpeeds] = {}
    own_units: dict[TrialId, OwnUnits] = {}
    promoted: Promoted = msgspec.field(default_factory=Promoted)
    has_notes: bool = False
    best_saved: BestSaved = msgspec.field(default_factory=lambda: BestSaved(0))
    stop_facts: StopFacts | None = None
    """What stop rules read. None if the study had none."""
    metric_since: int | None = None
    """The lowest resource of the metric. None if an earlier version did not keep it."""


_AS_THEY_ARE = (
    "trials", "run", "next_lease", "proposals", "is_exhausted", "repeated", "damages", "consecutive_losses", "times",
    "packs", "speeds", "own_units", "promoted", "stop_facts", "has_notes", "best_saved",
)  # fmt: skip
"""The fields that the state has in the same form, under the same name."""


def to_json(value: Any) -> Any:
    """Return the JSON form of an object that the state stores in another form."""
    if isinstance(value, ReportRow):
        return value.reports()
    if isinstance(value, CompactParams):
        return value.unpacked()
    raise NotImplementedError(value)


_SNAPSHOT = msgspec.json.Decoder(Snapshot)


def encode(state: StudyState, record: int) -> bytes:
    """Return the state after record number ``record`` as bytes; equal states give equal bytes."""
    return json_bytes(
        Snapshot(
            format=FORMAT,
            record=record,
            **{name: getattr(state, name) for name in _AS_THEY_ARE},
            waiting=list(state.waiting),
            attempts=list(state.attempts.values()),
            slots=[slot for _, slot in sorted(state.pool.slots.items())],
            stopping=(state.stopping, state.stopping_kind),
            metric_names=sorted(state.metric_names),
            best_trials=state.best_trials.snapshot(),
            known=cast(dict[NodeKey, NodeReports], state.plan.reports.nodes),
            scheduler=state.scheduler.snapshot(),
            searcher=state.searcher.snapshot(),
            busy=list(state.busy),
            costs=state.plan.costs(),
            sizes=state.usage.snapshot(),
            imported=list(state.imported),
            metric_since=state.metric_since,
        ),
        enc_hook=to_json,
    )


def decode(data: bytes) -> Snapshot | None:
    """Return the snapshot, or None if it is damaged or of another format."""
    snapshot = decoded(_SNAPSHOT, data)
    return snapshot if snapshot is not None and snapshot.format == FORMAT else None


def restore(state: StudyState, snapshot: Snapshot) -> None:
    """Make a new state equal to the state of the snapshot."""
    most_saved = state.best_saved.size
    for name in _AS_THEY_ARE:
        setattr(state, name, getattr(snapshot, name))
    state.best_saved.size = most_saved
    state.plan.reports.restore(snapshot.known)
    _compact(state)
    state.waiting = dict.fromkeys(snapshot.waiting)
    state.attempts = {attempt.number: attempt for attempt in snapshot.attempts}
    state.open_attempts = {trial: a.number for a in snapshot.attempts for trial in a.trials}
    state.pool.restore(snapshot.slots)
    state.stopping, state.stopping_kind = snapshot.stopping
    state.metric_names = set(snapshot.metric_names)
    state.metric_since = snapshot.metric_since or int(state.config.metric in state.metric_names)
    state.best_trials.restore(snapshot.best_trials)
    state.usage.restore(dict(snapshot.sizes or ()))
    for trial in state.trials if state.config.quota_bytes is not None else ():
        if trial.state is TrialState.PAUSED:
            state.paused.add(trial.id, trial.horizon, state.score(trial.value))
    state.imported = dict.fromkeys(snapshot.imported)
    _restore_plan(state, snapshot)
    state.scheduler.restore(snapshot.scheduler)
    state.searcher.restore(snapshot.searcher)


def _compact(state: StudyState) -> None:
    """Pack the params of finished trials, and share equal steps and keys, as the original state did."""
    steps: dict[PathStep, PathStep] = {}
    keys: dict[NodeKey, NodeKey] = {}
    for trial in state.trials:
        if trial.state.is_finished:
            trial.pack()
        trial.path = tuple([steps.setdefault(step, step) for step in trial.path])
        trial.node = trial.path[-1].node if trial.path else trial.node
        keys.update((step.node, step.node) for step in trial.steps)
    state.plan.reports.nodes = {keys.get(node, node): found for node, found in state.plan.reports.nodes.items()}


def _restore_plan(state: StudyState, snapshot: Snapshot) -> None:
    """Repeat the requests; durable checkpoints and running batches follow from the references and the attempts."""
    trials, attempts = (trial.checkpoint for trial in state.trials), (a.batch.load for a in snapshot.attempts)
    for holder in (*trials, *attempts, *snapshot.imported, *snapshot.best_saved.checkpoints()):
        state.hold(holder)
    for trial in state.trials:
        if trial.state in (TrialState.WAITING, TrialState.RUNNING):
            state.plan.request(trial.id, trial.steps, trial.horizon, is_urgent=trial.is_begun)
    for attempt in snapshot.attempts:
        if attempt.is_planned:
            state.plan.resume(attempt.number, attempt.batch, _path_of(state, attempt))
            if attempt.cut is not None:
                state.plan.cut(attempt.number, attempt.cut)
            for point in attempt.save_points:
                state.plan.add_save_point(attempt.number, point.node, point.resource)
    for checkpoint in state.references:  # after the batches: their units below a checkpoint count as trained
        state.add_checkpoint(checkpoint)
    for attempt in snapshot.attempts:
        if attempt.is_planned and attempt.committed is not None:
            state.plan.advance(attempt.number, attempt.committed)
    for node in snapshot.busy:
        state.block(node)
    if snapshot.costs is not None:
        state.plan.restore_costs(snapshot.costs)


def _path_of(state: StudyState, attempt: Attempt) -> tuple[PathStep, ...]:
    """Return the path of a trial for which an attempt was begun; empty if each such trial has another path by now."""
    last = attempt.batch.stages[-1]
    paths = (state.trials[number].steps for number in last.trials)
    return next((steps for steps in paths if any(step.node == last.node for step in steps)), ())
