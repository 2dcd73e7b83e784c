"""The configurations, values, failures and times in the journal of a study, as a workload to simulate."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from asyncsearch.actions import AddLane, Assign, Compare, CreateTrial, LaunchWorker, MoveTrial, lanes_given
from asyncsearch.events import CheckpointCommitted, Reported, Spent, TrainingEnded, WorkerAttached
from asyncsearch.ids import TrialId
from asyncsearch.journal.format import Record
from asyncsearch.journal.projection import LeaseProgress, Projection, branched, reports
from asyncsearch.report.what_if.recorded_units import Speedups, recorded_units
from asyncsearch.simulate.options import Delays
from asyncsearch.simulate.recorded_workload import RecordedWorkload
from asyncsearch.sizing.packing import Grouping, group_of
from asyncsearch.trial import TrialState
from asyncsearch.values import finite

_LEAST_S = 1e-9
"""Seconds from a trial's last report to its failure, at least; 0 means that it failed at its target."""


def recorded(
    records: Sequence[Record], metric: str, pack_speedup: Speedups | None = None, group: Grouping = group_of
) -> RecordedWorkload:
    """Return the workload of a journal: for each trial, the reports that its first params led to.

    Its times are those of trials that train alone. ``pack_speedup``: how much packs gain, as of ``TrainingModel``;
    None: as was measured in the study, and nothing where that was not. ``group``: tells which trials are alike.

    Raises:
        UsageError: nothing was reported.
    """
    values: dict[TrialId, list[tuple[int, float]]] = defaultdict(list)
    ends = {trial: resource for trial, (_, resource) in branched(records).items()}
    for report in reports(records):
        if metric in report.metrics and report.resource <= ends.get(report.trial, math.inf):
            value = finite(report.metrics[metric])
            values[report.trial].append((report.resource, math.nan if value is None else value))
    params = [action.params for record in records for action in record.actions if isinstance(action, CreateTrial)]
    units = recorded_units(records, pack_speedup, group)
    unit_s = units.unit_s
    delays = _measured(
        records, Delays(start_s=_launch_time(records), setup_s=units.setup_s, commit_s=_commit_time(records))
    )
    setup_s = delays.setup_s
    moves = [action for record in records for action in record.actions if isinstance(action, MoveTrial)]
    ended = [move.trial for move in moves if move.to is TrialState.COMPLETED]
    reached = {trial: curve[-1][0] for trial, curve in values.items()}
    # A failure after a trial has taken over another one's weights says nothing about its first params.
    failed = {trial: at for trial, at in _failures(records, reached, unit_s, setup_s).items() if trial not in ends}
    packs, most, gangs = units.pack_speedup, units.most_lanes, units.gang_speedup
    return RecordedWorkload(params, values, unit_s, delays, ended, failed, packs, most, gangs)


def _measured(records: Iterable[Record], others: Delays) -> Delays:
    """Return delays with what workers have measured themselves: starting, entering a function, loading, saving."""
    spent: dict[int, Spent] = {}
    loads: Counter[int] = Counter()
    saves: Counter[int] = Counter()
    launches = 0
    for record in records:
        match record.event:
            case Reported(lease=lease, spent=Spent() as told) | TrainingEnded(lease=lease, spent=Spent() as told):
                spent[lease.number] = told
            case CheckpointCommitted(lease=lease):
                saves[lease.number] += 1
            case WorkerAttached():
                launches += 1
            case _:
                pass
        for given in [given for action in record.actions for given in lanes_given(action)]:
            loads[given.lease.number] += given.lane.load is not None

    def mean_s(kind: str, times: int) -> float:
        return sum(getattr(one, kind) for one in spent.values()) / times / 1000 if times else 0.0

    if not spent:
        return others
    return msgspec.structs.replace(
        others,
        start_s=others.start_s + mean_s("starting", launches),
        setup_s=mean_s("entering", len(spent)),
        load_s=mean_s("loading", sum(loads[number] for number in spent)),
        save_s=mean_s("saving", sum(saves[number] for number in spent)),
    )


def _failures(
    records: Iterable[Record], reached: Mapping[TrialId, int], unit_s: Mapping[TrialId, float], setup_s: float
) -> dict[TrialId, tuple[int, float]]:
    """Return, for each trial in state FAILED, its units of training and the seconds from the last one to its end.

    0 seconds: it failed at its target, so it was neither paused nor completed there.

    Args:
        records: the whole journal, in order.
        reached: the resource of each trial's last report; trials without reports may be missing.
        unit_s: measured seconds of a unit of each trial; trials without one take the average.
        setup_s: from an assignment to the beginning of its first unit.
    """
    mean_s = statistics.fmean(unit_s.values()) if unit_s else 0.0
    projection = Projection()
    latest: dict[TrialId, LeaseProgress] = {}
    lanes: Counter[int] = Counter()
    found: dict[TrialId, tuple[int, float]] = {}
    compared: dict[TrialId, int] = {}
    for record in records:
        projection.add(record)
        for action in record.actions:
            match action:
                case Assign() | AddLane():
                    for given in lanes_given(action):
                        progress = projection.leases[given.attempt]
                        lanes[given.lease.number] += 1
                        latest |= dict.fromkeys(
                            (trial for stage in progress.stages for trial in stage.trials), progress
                        )
                case Compare(trial=trial) if isinstance(record.event, Reported):
                    compared[trial] = record.event.resource
                case MoveTrial(to=TrialState.FAILED, trial=trial):
                    units, last = reached.get(trial, 0), latest.get(trial)
                    if last is None or units == projection.targets[trial]:
                        found[trial] = (units, 0.0 if units == projection.targets[trial] else _LEAST_S)
                    else:  # its last attempt may have failed before it came as far as an earlier one
                        since_s = last.assigned_s + setup_s if last.reported_s is None else last.reported_s
                        again_s = (units - last.reported) * unit_s.get(trial, mean_s)
                        spent_s = record.t - since_s - again_s
                        if lanes[last.lease.number] > 1:  # of the time of its pack it had a part only
                            spent_s = min(spent_s, unit_s.get(trial, mean_s))
                        is_at_place = units == compared.get(trial) and spent_s <= 0
                        found[trial] = (units, 0.0 if is_at_place else max(spent_s, _LEAST_S))
                case _:
                    pass
    return found


def _launch_time(records: Iterable[Record]) -> float:
    """Return the median seconds from a launch to the first message of the worker."""
    launched: dict[tuple[int, int], float] = {}
    taken = []
    for record in records:
        event = record.event
        if isinstance(event, WorkerAttached) and (event.worker, event.epoch) in launched:
            taken.append(record.t - launched[event.worker, event.epoch])
        for action in record.actions:
            if isinstance(action, LaunchWorker):
                launched[action.worker, action.epoch] = record.t
    return statistics.median(taken) if taken else 0.0


def _commit_time(records: Iterable[Record]) -> float:
    """Return the median seconds from the end of training to the commit of its last checkpoint."""
    ended: dict[int, tuple[int, float]] = {}
    taken = []
    for record in records:
        event = record.event
        if isinstance(event, TrainingEnded) and event.checkpoint_resource is not None:
            ended[event.lease.number + event.lane] = (event.checkpoint_resource, record.t)
        elif isinstance(event, CheckpointCommitted):
            resource, then = ended.get(event.lease.number + event.lane, (-1, 0.0))
            if event.checkpoint.resource == resource:
                taken.append(record.t - then)
    return statistics.median(taken) if taken else 0.0
