"""The story of one trial in sentences, read from the journal: what happened, when, and why."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from asyncsearch.actions import (
    AddLane,
    AnyAction,
    Assign,
    Branch,
    Compare,
    CreateTrial,
    DismissWorker,
    ExtendWork,
    GivenLane,
    Inherit,
    MoveTrial,
    Promote,
    StopTraining,
    lanes_given,
)
from asyncsearch.events import AnyEvent, CheckpointFailed, Consulted, LearnedPacked, PackMeasured, PacksTimed
from asyncsearch.ids import NodeKey, TrialId, WorkerId, trial_name, worker_name
from asyncsearch.journal.format import Record
from asyncsearch.journal.projection import Projection
from asyncsearch.report.formatting import cut, duration, many, number
from asyncsearch.report.together_words import of_others_packs, of_pack
from asyncsearch.sequences.params import params
from asyncsearch.sizing.packing import Grouping, group_of
from asyncsearch.trial import TrialState
from asyncsearch.values import finite, unspell

WIDTH = 100
_LAST_LINES = 12
_NAMED_METRICS = 6


def explain(
    records: Iterable[Record],
    trial: TrialId,
    *,
    metric: str,
    mode: str | None = None,
    position: str = "",
    head: str = "",
    group: Grouping = group_of,
    who: Callable[[WorkerId], str] = worker_name,
) -> str:
    """Return the story of a trial, with reasons; times count from the study's first record.

    Args:
        mode: ``"min"`` or ``"max"``: adds the rank of a trial that waits at a rung, except where trials branch, since
            these compete within populations, which the journal does not contain.
        position: of an unfinished trial in the words of its scheduler, which knows brackets and populations; empty:
            not available.
        head: how the trial stands, if more is known than the journal says; empty means as the journal says.
        group: returns the group of a trial that may be packed.
        who: returns the name of a worker.
    """
    story = _Story(trial, metric, group, who)
    for record in records:
        story.add(record)
    return story.text(mode, position, head)


def fact_words(event: Consulted) -> list[str]:
    """Return the answers of another library's program to a trial, without its reports and what changed nothing."""
    several = event.facts.get("several", [event.facts])
    facts = [one for fact in several for one in (_each_suggested(fact) if "params" in fact else [fact])]
    kept = [fact for fact in facts if "reported" not in fact and fact.get("judged") is not False]
    plain = [{key: value for key, value in fact.items() if isinstance(value, str | int | float)} for fact in kept]
    return [", ".join(f"{key} {value}" for key, value in fact.items()) for fact in plain if fact]


def _each_suggested(fact: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a fact for each value of one that tells of several, as the trial has got it."""
    if not {"suggested", "used"} & fact.keys():
        return [fact]
    return [{"suggested": name, "value": str(value)} for name, value in fact["params"].items()]


class _Story:
    """Reads records and keeps those that concern one trial."""

    def __init__(self, trial: TrialId, metric: str, group: Grouping, who: Callable[[WorkerId], str]) -> None:
        self._trial, self._metric, self._group, self._who = trial, metric, group, who
        self._began_s: float | None = None
        self._lines: list[str] = []
        self._projection = Projection()
        self._leases: set[int] = set()
        """Numbers of the leases under which workers trained for it."""
        self._packs: set[int] = set()
        """The first numbers of these leases."""
        self._timed: dict[str, PacksTimed] = {}
        """The times measured by other studies, by structure."""
        self._values: dict[TrialId, tuple[int, float | None]] = {}  # the last report of each trial
        self._others: dict[str, float] = {}
        """The last values that the trial itself reported besides the study's metric."""
        self._firsts: dict[TrialId, int | None] = {}  # the first target of each trial, which differs between brackets
        self._rungs: dict[tuple[int | None, int], dict[TrialId, float | None]] = {}
        """Values of the trials that paused or ended at a resource, by first target and resource."""
        self._packed: dict[NodeKey, set[int]] = {}
        """Resources of the reports and checkpoints that other studies have trained in packs."""
        self._released: set[WorkerId] = set()
        """The workers whose slots went back, and who have got no work since."""
        self._has_branches = False
        self._state: TrialState | None = None
        self._target: int | None = None

    def add(self, record: Record) -> None:
        if self._began_s is None:
            self._began_s = record.t
        when = duration(record.t - self._began_s)
        for report in self._projection.add(record):
            if report.trial == self._trial:
                its = {name: unspell(value) for name, value in report.metrics.items()}
                self._others |= {name: value for name, value in its.items() if name != self._metric}
            if self._metric in report.metrics:
                self._values[report.trial] = (report.resource, unspell(report.metrics[self._metric]))
        self._note_event(record.event, when)
        for action in record.actions:
            if isinstance(action, CreateTrial):
                self._firsts[action.trial] = action.target
            self._has_branches |= isinstance(action, Branch)
            self._note(action, when)
            self._follow(action)

    def _note_event(self, event: AnyEvent, when: str) -> None:
        if isinstance(event, LearnedPacked):
            self._packed.setdefault(event.node, set()).update(event.packed)
        if isinstance(event, PacksTimed):
            self._timed[event.group] = event
        if isinstance(event, PackMeasured) and event.lease.number in self._packs and (words := of_pack(event)):
            self._add_sentence(when, words)
        if isinstance(event, CheckpointFailed) and event.lease.number + event.lane in self._leases:
            at = event.checkpoint.resource
            self._add_sentence(when, f"its checkpoint at {at} could not be stored: {event.error}")
        if isinstance(event, Consulted) and event.lease.number + event.lane in self._leases:
            for words in fact_words(event):
                self._add_sentence(when, words)

    def _note(self, action: AnyAction, when: str) -> None:
        match action:
            case Assign() | AddLane():
                for one in lanes_given(action):
                    self._assign(one, self._company(action, one), when)
            case MoveTrial():
                self._move(action, when)
            case CreateTrial(trial=self._trial):
                target = "" if action.target is None else f", to be trained up to {action.target:,} first"
                self._state, self._target = TrialState.WAITING, action.target
                self._add_sentence(when, f"created{target}: {params(action.params) or 'no parameters'}")
                if (timed := self._timed.get(self._group(action.params))) is not None:
                    self._add_sentence(when, of_others_packs(timed))
            case Compare() | Promote() | Branch() | ExtendWork():
                self._promote(action, when)
            case StopTraining() if action.lease.number + action.lane in self._leases:
                self._add_sentence(when, f"{self._who(action.lease.worker)} was told to stop it: {action.reason}")
            case Inherit(trial=self._trial):
                known = f"its path up to {action.resource:,} had been trained before it was created"
                self._add_sentence(when, f"{known}{self._in_packs(action.resource)}")
            case _:
                pass

    def _follow(self, action: AnyAction) -> None:
        """Remember which workers gave their slots back, until they get work again."""
        if isinstance(action, DismissWorker) and action.is_released:
            self._released.add(action.worker)
        elif isinstance(action, Assign):
            self._released.discard(action.work.lease.worker)

    def _promote(self, action: Compare | Promote | Branch | ExtendWork, when: str) -> None:
        """Tell where a trial is compared with others, and how it goes on from there."""
        match action:
            case Compare():
                self._compare(action.trial)
            case ExtendWork(stages=(first, *_)) if self._trial in first.trials:
                worker, stop = self._who(action.lease.worker), action.stages[-1].stop
                self._add_sentence(when, f"{worker} goes on with it in place, to {stop:,}")
            case Promote(trial=self._trial):
                is_running = self._state is TrialState.RUNNING
                self._state, self._target = self._state if is_running else TrialState.WAITING, action.to_resource
                start, stop = action.from_resource, action.to_resource
                self._add_sentence(when, f"promoted from {start:,} to {stop:,}: {action.reason}")
            case Branch(trial=self._trial):
                self._state, self._target = TrialState.WAITING, action.to_resource
                self._add_sentence(when, f"{action.reason}; it continues to {action.to_resource:,}")
            case Branch(donor=self._trial):
                self._add_sentence(when, f"{trial_name(action.trial)} took over its weights at {action.resource:,}")
            case _:
                pass

    def _company(self, action: Assign | AddLane, given: GivenLane) -> str:
        """Return with how many others a lane begins to train; empty if alone."""
        if isinstance(action, Assign):
            others = len(action.work.lanes) - 1
            ranks = ", ".join(self._who(member.worker) for member in action.work.followers)
            why = "" if action.work.sized is msgspec.UNSET else f" ({action.work.sized})"
            return (f", together with {ranks}{why}" if ranks else "") + (
                f", packed with {many(others, 'other training')}{why}" if others else ""
            )
        others = sum(progress.lease == given.lease for progress in self._projection.leases.values()) - 1
        return f", where it joins {many(others, 'other training')}"

    def _assign(self, given: GivenLane, packed: str, when: str) -> None:
        lane, lease = given.lane, given.lease
        ours = [stage for stage in lane.stages if self._projection.reads(self._trial, stage)]
        if not ours:
            return
        self._leases.add(given.attempt)
        self._packs.add(lease.number)
        if ours[-1].stop is None or (self._target is not None and self._target <= ours[-1].stop):
            self._state = TrialState.RUNNING
        start = f"from its checkpoint at {lane.load.resource:,}" if lane.load is not None else "from the beginning"
        if lane.load is not None and lane.load.resource in self._packed.get(lane.load.node, ()):
            start += ", which another study trained in a pack,"
        stop = "until its function returns" if ours[-1].stop is None else f"to {ours[-1].stop:,}"
        others = len(ours[0].trials) + ours[0].more - 1
        shared = f", for {many(others, 'other trial')} too" if others else ""
        does = f"trains it {start} {stop}"
        if ours[-1].start == ours[-1].stop:
            does = f"evaluates its checkpoint at {ours[-1].start:,}, without training"
        again = ", started again since its slot had gone back," if lease.worker in self._released else ""
        self._add_sentence(when, f"{self._who(lease.worker)}{again} {does}{shared}{packed}")

    def _in_packs(self, upto: int) -> str:
        """Return how many results on its way up to a resource are of packs of other studies; empty if none are."""
        path = self._projection.paths[self._trial]
        ends = [*(step.start for step in path[1:]), upto]
        places = {
            at
            for step, end in zip(path, ends, strict=True)
            for at in self._packed.get(step.node, ())
            if step.start < at <= min(end, upto)
        }
        return f", {many(len(places), 'unit')} of it reported by packs of other studies" if places else ""

    def _move(self, action: MoveTrial, when: str) -> None:
        if action.to in (TrialState.PAUSED, TrialState.COMPLETED):
            self._compare(action.trial)
        if action.trial != self._trial:
            return
        self._state = action.to
        reason = action.reason or "no reason was recorded"
        if action.to in (TrialState.PAUSED, TrialState.COMPLETED, TrialState.STOPPED):
            value = self._values.get(action.trial, (0, None))[1]
            reason += f"; its {self._metric} there: {number(value)}{self._other_metrics()}"
        heading = _HEADINGS.get(action.to, "")
        self._add_sentence(when, reason if reason.startswith(heading.rstrip(": ") or " ") else f"{heading}{reason}")
        if action.detail.strip() not in ("", action.reason):
            for line in action.detail.rstrip().splitlines()[-_LAST_LINES:]:
                self._lines.append(f"{'':12}| {''.join(char if char.isprintable() else ' ' for char in line)}")

    def _compare(self, trial: TrialId) -> None:
        """Note the value of a trial that is compared with others where it is."""
        resource, value = self._values.get(trial, (0, None))
        self._rungs.setdefault((self._firsts.get(trial), resource), {})[trial] = finite(value)

    def _other_metrics(self) -> str:
        """Return ", accuracy 0.98, std 0.1 and 3 more": what the trial last reported besides the study's metric."""
        named = [f", {name} {number(value)}" for name, value in self._others.items()]
        more = len(named) - _NAMED_METRICS
        return "".join(named[:_NAMED_METRICS]) + (f" and {more:,} more" if more > 0 else "")

    def _add_sentence(self, when: str, sentence: str) -> None:
        line = f"{when:>10}  {cut(sentence, 1000)}"
        self._lines += textwrap.wrap(line, WIDTH, subsequent_indent=" " * 12, break_long_words=False)

    def text(self, mode: str | None, position: str, head: str) -> str:
        name = trial_name(self._trial)
        if not self._lines or self._state is None:
            return f"Nothing happened to {name}: the study has no such trial yet."
        first = f"{name} {head or _STATES[self._state]}. Times since the study began:"
        is_known = position and not self._state.is_finished
        verb = "waits" if not head else "stayed"
        last = [f"Its position: {position}."] if is_known else self._rank(mode, verb)
        return "\n".join([first, *self._lines, *(f"{'':12}{line}" for line in last)])

    def _rank(self, mode: str | None, verb: str) -> list[str]:
        """Return the rank of a paused trial among all trials that reached its rung and have its first target."""
        resource, value = self._values.get(self._trial, (0, None))
        rung = self._rungs.get((self._firsts.get(self._trial), resource), {})
        if mode is None or self._has_branches or self._state is not TrialState.PAUSED or self._trial not in rung:
            return []
        if (value := finite(value)) is None:
            return [f"It counts as the worst there: its {self._metric} is not a finite number."]
        sign = 1 if mode == "min" else -1
        here = (sign * value, self._trial)
        better = sum(1 for other, its in rung.items() if its is not None and (sign * its, other) < here)
        so_far = " so far" if verb == "waits" else ""
        return [f"It {verb} at {resource:,}, where it has rank {better + 1} of {len(rung)}{so_far}."]


_HEADINGS = {
    TrialState.WAITING: "returned to the queue for a worker: ",
    TrialState.STOPPED: "stopped: ",
    TrialState.FAILED: "failed: ",
}

_STATES = {
    TrialState.WAITING: "waits for a worker",
    TrialState.RUNNING: "is running",
    TrialState.PAUSED: "is paused",
    TrialState.COMPLETED: f"was {TrialState.COMPLETED.words}",
    TrialState.STOPPED: f"was {TrialState.STOPPED.words}",
    TrialState.FAILED: "has failed",
}
