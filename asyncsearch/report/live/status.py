"""The status of a study at one moment, in a size that does not grow with it. All displays show it."""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from collections.abc import Sequence

import msgspec

from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.pool import SlotState
from asyncsearch.engine.state import StudyState
from asyncsearch.ids import TrialId, worker_name
from asyncsearch.plan.packing import KnownPacks, Packing
from asyncsearch.report.formatting import many
from asyncsearch.trial import TO_BE_CONTINUED, Params, Trial, TrialState

_RUNNING_ROWS = 5
_BEST_ROWS = 5
_FAILED_ROWS = 2
_ENLARGED = 3
_GANGS, _MEMBERS = 4, 8
_UNMEASURED = (
    'what that saved was not measured, since none of these trained a unit alone: pack="auto" measures it, and '
    "what_if(study, pack_speedup={8: 5.0}) reckons with what you know"
)


class TrialRow(msgspec.Struct, frozen=True):
    """A trial as a table shows it."""

    name: str
    state: TrialState
    resource: int
    """Units of training done."""
    target: int | None
    """Resource up to which it trains now; None: until its function returns."""
    value: float | None
    """The metric as last reported."""
    params: Params
    reason: str = ""
    goes_on_from: int | None = None
    """Resource of the checkpoint from which the next run continues it, if that repeats units; None: none are."""


class BestSeen(msgspec.Struct, frozen=True):
    """The best value that any trial had at any resource, whatever the trial did afterwards."""

    name: str
    """Of the trial."""
    value: float
    resource: int
    """Units of training after which the trial reported it."""


class StudyStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a study. It holds a dozen trials at most."""

    name: str
    metric: str
    mode: str
    scheduler: str = ""
    """One line; empty if unknown."""
    counts: dict[TrialState, int]
    """The number of trials in each state; states without trials are left out."""
    rows: tuple[TrialRow, ...] = ()
    """Running trials, then the best ones, then the last failed ones; each trial once."""
    best: TrialRow | None = None
    """The trial with the best last value."""
    incumbent: BestSeen | None = None
    workers_alive: int = 0
    workers_wanted: int = 0
    """0 between runs."""
    workers_each: int = 1
    """How many of them train one trial together."""
    enlarged: tuple[str, ...] = ()
    """The first trials that train on more workers than others, each with how many: "trial-7 on 4"."""
    gangs: tuple[str, ...] = ()
    """The first trials that several workers train together, each with these: "trial-7 on worker-0, worker-2"."""
    workers_had: int = 0
    """How many the run was given that has just ended; 0: unknown, or a run is in progress."""
    place: str = ""
    """Where the workers are: ``processes on this machine``, ``Spark local[2]``; empty if unknown."""
    is_unfinished: bool = False
    """Whether no run is in progress and something that was requested is left to do."""
    num_trials: int | None = None
    """The total of trials that the run, or the one that ended unfinished, has requested; None: no limit, or no run."""
    repeated: int = 0
    """Units since its last checkpoint of the trial to be continued that has most of them; the next run repeats them."""
    driver_died_s: float | None = None
    """When the last record was written by a driver that ended without closing, seconds since 1970; None: none has."""
    trained: int = 0
    """Units of training done by all trials together, repeated ones included."""
    full: int | None = None
    """Units of training every trial to ``max_resource``; None: there is no such resource."""
    saving: int = 0
    """Running trials that have trained, and whose checkpoint is not stored yet: their workers may train others."""
    nonfinite: int = 0
    """Trials whose last value of the metric was NaN or infinite."""
    failures: int = 0
    """Attempts that ended by an error of the trial."""
    failing: int = 0
    """Trials that these attempts are of; some may have failed for good, and others be retried."""
    last_failure: str = ""
    """Name of the trial that failed last and the last line of its error."""
    stopping: str = ""
    """Why the run is being stopped; empty while it is not."""
    elapsed_s: float | None = None
    """Seconds that the run in progress, or the one that has just ended, has taken; None: there was none to follow."""
    ended_by: str = ""
    """What ended the run that has just ended, where that was a timeout; else empty."""
    is_idle: bool = False
    """Whether the run that has just ended had nothing to do."""
    ended_s: float | None = None
    """When the last run ended that had something to do, seconds since 1970; None: unknown, or none has."""
    total_s: float | None = None
    """Seconds that all runs have taken together; None: unknown."""
    runs: int = 0
    """How many these are."""
    store: str = ""
    unread: str = ""
    """What of the journal could not be read, in words; empty: nothing."""
    packed: str = ""
    """How many trained together and what that saved, or why none did, in words; empty: nothing was packed."""
    could_pack: bool = False
    """Whether the study might have asked for ``pack=``, and did not."""
    beyond_quota: str = ""
    """Why checkpoints take more than ``quota_bytes``; empty while they do not."""

    @property
    def trials(self) -> int:
        """The number of trials."""
        return sum(self.counts.values())

    @property
    def is_failed(self) -> bool:
        """Whether no run is in progress, and every trial has failed."""
        return not self.workers_wanted and set(self.counts) == {TrialState.FAILED}

    @property
    def is_finished(self) -> bool:
        """Whether no run is in progress, and nothing that was requested is left to do."""
        return not self.workers_wanted and not self.is_unfinished

    @property
    def saved(self) -> float | None:
        """The share of training that early stopping has saved, from 0 to 1; None: unknown yet, or none."""
        if not self.is_finished or not self.full or self.trained >= self.full:
            return None
        return 1 - self.trained / self.full

    def words(self, state: TrialState) -> str:
        """Return what people call a trial in this state."""
        return state.words if self.workers_wanted else state.words_after(is_unfinished=self.is_unfinished)

    def counts_line(self) -> str:
        """Return "64 configurations tried: 60 stopped early, 4 trained to the end", or how far the search has come."""
        amounts: dict[str, int] = {}
        for state in TrialState:
            if state in self.counts:
                amounts[self.words(state)] = amounts.get(self.words(state), 0) + self.counts[state]
        ordered = sorted(amounts.items(), key=_place_of)
        parts = ", ".join(f"{amount:,} {words}{self._of_them(words, amount)}" for words, amount in ordered)
        total = f"{self.num_trials:,}" if self.num_trials is not None and self.num_trials > self.trials else ""
        count = (
            f"{self.trials:{len(total)},} of {total} configurations" if total else many(self.trials, "configuration")
        )
        if parts and not self.workers_wanted:
            count += " begun" if self.is_unfinished else " tried"
        return f"{count}: {parts}" if parts else count

    def _of_them(self, words: str, amount: int) -> str:
        """Say why more trials run than there are workers."""
        if words != TrialState.RUNNING.words or not self.saving or amount <= self.workers_wanted:
            return ""
        return f" ({self.saving:,} being saved)"


STATE_WORDS = ("running", "waiting", TO_BE_CONTINUED, "paused", "stopped early", "trained to the end", "failed")
"""The words for states, in the order in which a line counts them."""


def _place_of(amount: tuple[str, int]) -> int:
    return STATE_WORDS.index(amount[0])


def status_of(
    state: StudyState,
    *,
    elapsed_s: float | None = None,
    store: str = "",
    scheduler: str = "",
    place: str = "",
    workers: int = 0,
    num_trials: int | None = None,
    is_complete: bool = True,
    unread: str = "",
    could_pack: bool = False,
    driver_died_s: float | None = None,
    ended_by: str = "",
) -> StudyStatus:
    """Return the status of a study, which holds no part of its state. Called in the thread that owns the state.

    Args:
        elapsed_s: seconds since the run began; None: as the journal of a run in progress says. A run that is over
            takes its duration from the journal, as it is shown later.
        store: as shown to people.
        scheduler: in one line.
        place: where its workers are, in words.
        workers: how many the run was given.
        num_trials: the total that the last run requested, if it is over.
        is_complete: whether the last run did everything that was requested.
        unread: what of the journal could not be read, in words.
        could_pack: whether the study might have asked for ``pack=``, and did not.
        ended_by: why the run has just ended before its end; empty: for no reason that is worth words.
        driver_died_s: when the last record was written by a driver that no longer lives and has not closed the
            study, seconds since 1970: no run is in progress, whatever the journal says; None: there is none.
    """
    run = state.run if driver_died_s is None else None
    counts: dict[TrialState, int] = {}
    trained = failures = failing = nonfinite = 0
    sign, worst = 1 if state.config.mode == "min" else -1, math.inf
    ranked: list[tuple[float, TrialId]] = []
    running: list[Trial] = []
    failed: deque[Trial] = deque(maxlen=_FAILED_ROWS)
    last_failed: Trial | None = None
    incumbent: Trial | None = None
    seen = 0.0
    for trial in state.trials:
        counts[trial.state] = counts.get(trial.state, 0) + 1
        trained += trial.trained
        failures += trial.failures
        failing += trial.failures > 0
        nonfinite += trial.value is None and trial.value_resource > 0
        if trial.best is not None and (incumbent is None or sign * trial.best < sign * seen):
            incumbent, seen = trial, trial.best
        if trial.state is TrialState.FAILED:
            failed.append(trial)
        elif trial.value is not None and sign * trial.value <= worst:
            insort(ranked, (sign * trial.value, trial.id))
            del ranked[_BEST_ROWS:]
            worst = ranked[-1][0] if len(ranked) == _BEST_ROWS else math.inf
        if trial.state is TrialState.RUNNING and len(running) < _RUNNING_ROWS:
            running.append(trial)
        if trial.failures and trial.state in (TrialState.FAILED, TrialState.WAITING):
            last_failed = trial
    best = [state.trials[number] for _, number in ranked]
    is_begun = not is_complete or TrialState.WAITING in counts or TrialState.RUNNING in counts
    is_unfinished = run is None and (is_begun or driver_died_s is not None)
    if state.run is not None:
        num_trials = state.run.num_trials
    times = state.times
    had_nothing = times.done_before == state.begun
    is_idle = run is None and elapsed_s is not None and not is_unfinished and had_nothing
    if elapsed_s is not None and state.run is None and times.last_s is not None and not had_nothing:
        elapsed_s = times.last_s
    return StudyStatus(
        name=state.config.study,
        metric=state.config.metric,
        mode=state.config.mode,
        scheduler=scheduler,
        counts=counts,
        rows=tuple({trial.id: row_of(trial, is_unfinished) for trial in (*running, *best, *failed)}.values()),
        best=row_of(best[0], is_unfinished) if best else None,
        repeated=max((trial.resource - _saved(trial) for trial in state.trials if _goes_on(trial)), default=0)
        if is_unfinished
        else 0,
        incumbent=None if incumbent is None else BestSeen(incumbent.name, seen, incumbent.best_resource),
        unread=unread,
        workers_alive=sum(slot.state is not SlotState.LAUNCHING for slot in state.pool.alive()) if run else 0,
        workers_wanted=run.parallelism if run is not None else 0,
        workers_had=workers if run is None else 0,
        workers_each=1 if state.gang is None else state.gang.size,
        enlarged=_enlarged(state),
        gangs=_gangs(state),
        place=place,
        is_unfinished=is_unfinished,
        num_trials=num_trials if run is not None or is_unfinished else None,
        driver_died_s=driver_died_s,
        trained=trained,
        full=None if state.max_resource is None else state.max_resource * len(state.trials),
        saving=sum(not state.attempts[number].is_training for number in state.open_attempts.values()),
        nonfinite=nonfinite,
        failures=failures,
        failing=failing,
        last_failure=f"{last_failed.name}: {last_failed.reason}" if last_failed is not None else "",
        stopping=state.stopping,
        elapsed_s=None if is_idle else times.elapsed_s if elapsed_s is None else elapsed_s,
        ended_by=ended_by if run is None and is_unfinished else "",
        is_idle=is_idle,
        ended_s=times.ended_s,
        total_s=times.total_s if times.runs else None,
        runs=times.runs,
        store=store,
        packed=_packed(state),
        could_pack=could_pack,
        beyond_quota=_beyond_quota(state),
    )


def _enlarged(state: StudyState) -> tuple[str, ...]:
    least = 1 if state.gang is None else state.gang.size
    larger = [attempt for attempt in state.attempts.values() if attempt.is_training and attempt.size > least]
    return tuple([f"{state.trials[attempt.trial].name} on {attempt.size}" for attempt in larger[:_ENLARGED]])


def _gangs(state: StudyState) -> tuple[str, ...]:
    together = [attempt for attempt in state.attempts.values() if attempt.is_training and attempt.size > 1]
    return tuple([f"{state.trials[one.trial].name} on {_workers_of(one, state)}" for one in together[:_GANGS]])


def _workers_of(attempt: Attempt, state: StudyState) -> str:
    leader = state.pool.slots[attempt.lease.worker]
    names = [worker_name(worker) for worker in (leader.worker, *leader.followers)]
    return ", ".join(names[:_MEMBERS]) + (f" and {len(names) - _MEMBERS} more" if len(names) > _MEMBERS else "")


def _packed(state: StudyState) -> str:
    """Return how many trained together, of all structures: what was measured, and what was in the way."""
    known = [packs for packs in state.packs.values() if not packs.refusal]
    units = sum(sum(packs.units.values()) for packs in known)
    saved = [seconds for packs in known if (seconds := packs.saved_s) is not None]
    most = max((lanes for packs in known for lanes in packs.units), default=0)
    parts = [f"{many(units, 'unit')} trained in packs of up to {most}"] if units else []
    if units:
        others = sorted({packs.timed_by for packs in known if packs.timed_by and packs.units})
        parts.append(_saving(sum(saved), others) if saved else _UNMEASURED)
    memory = min((most for packs in known for most in _in_memory(packs, state.packing)), default=None)
    if memory is not None:
        parts.append(f"memory is enough for {memory} together")
    refused = [packs.refusal for packs in state.packs.values() if packs.refusal]
    parts += [f"one after another, not together: {words}" for words in refused[:1]]
    in_turn = [packs.in_turn for packs in known if packs.in_turn]
    parts += [f"some of a pack step in turn, not as one computation: {words}" for words in in_turn[:1]]
    return "; ".join(parts)


def _saving(seconds: float, others: Sequence[str]) -> str:
    """Return what packs have saved, as was measured, by this study or others."""
    by = f" by {', '.join(map(repr, others))}" if others else ""
    if seconds < 0:
        return f"that took about {-seconds:.3g} s longer than training alone, as measured{by}"
    return f"that saved about {seconds:.3g} s of training, as measured{by}"


def _in_memory(packs: KnownPacks, packing: Packing | None) -> list[int]:
    """Return how many had memory enough, as shown, and as predicted where that is fewer than were asked for."""
    is_less = packs.fits is not None and packing is not None and not packing.is_measured and packs.fits < packing.limit
    return [most for most in (packs.memory, packs.fits if is_less else None) if most is not None]


def _beyond_quota(state: StudyState) -> str:
    if not state.usage.is_over:
        return ""
    return (
        f"{many(len(state.usage.sizes), 'checkpoint')} take {state.usage.total_bytes:,} bytes, more than "
        f"quota_bytes={state.usage.quota_bytes:,}: all are of trials that may go on, or of the best one, and stay. "
        "Raise Sharing(quota_bytes=...), or save less."
    )


def row_of(trial: Trial, is_unfinished: bool = False) -> TrialRow:
    """Return a trial as a table shows it; ``is_unfinished``: as of a search that no run continues now."""
    saved = _saved(trial)
    repeats = is_unfinished and _goes_on(trial) and saved < trial.resource
    row = TrialRow(trial.name, trial.state, trial.resource, trial.target, trial.value, trial.params, trial.reason)
    return msgspec.structs.replace(row, goes_on_from=saved) if repeats else row


def _goes_on(trial: Trial) -> bool:
    return trial.state in (TrialState.RUNNING, TrialState.WAITING)


def _saved(trial: Trial) -> int:
    return 0 if trial.checkpoint is None else trial.checkpoint.resource
