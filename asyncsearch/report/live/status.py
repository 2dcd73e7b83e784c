"""The status of a study at one moment, in a size that does not grow with it. All displays show it."""

from __future__ import annotations

import math
from bisect import insort
from collections import deque

import msgspec

from asyncsearch.ablation.left_out import PARAMETER
from asyncsearch.engine.attempts import RETURNED_BESIDE
from asyncsearch.engine.latest_metrics import LatestMetrics
from asyncsearch.engine.pool import SlotState
from asyncsearch.engine.repeated_failures import failed_as_a_whole
from asyncsearch.engine.state import StudyState
from asyncsearch.ids import TrialId
from asyncsearch.report.formatting import many
from asyncsearch.report.live.together_words import beyond_quota, enlarged, gangs, packed
from asyncsearch.trial import TO_BE_CONTINUED, Params, Trial, TrialState

_RUNNING_ROWS = 5
_BEST_ROWS = 5
_FAILED_ROWS = 2
MOST_COLUMNS = 3
"""Metrics besides the study's for which a table has columns."""


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
    metrics: dict[str, float] = {}
    """The metrics besides the study's, as last reported; as many as are kept for tables."""
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
    rank_by: str = "last"
    """Whether trials are ranked by their ``"last"`` or their ``"best"`` value."""
    is_best_early: bool = False
    """Whether the best trial ended at a rung below ``max_resource``, and ``finish_best=True`` would train it on."""
    scheduler: str = ""
    """One line; empty if unknown."""
    counts: dict[TrialState, int]
    """The number of trials in each state; states without trials are left out."""
    rows: tuple[TrialRow, ...] = ()
    """Running trials, then the best ones, then the last failed ones; each trial once."""
    others: tuple[str, ...] = ()
    """Names of the metrics besides the study's for which tables have columns."""
    unshown: int = 0
    """How many more there are."""
    best: TrialRow | None = None
    """The trial with the best last value."""
    is_ablation: bool = False
    """Whether its trials are variants to compare: the best of them is no result."""
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
    who_failed: str = ""
    """Which trials failed, if the search has failed as a whole: "every promoted trial"; empty: it has not."""
    unrecorded: int = 0
    """Trials whose function returned a value beside its reports, which is not recorded."""
    last_unrecorded: str = ""
    """What the last of them returned, and what to change."""
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
    def marked(self) -> str:
        """The name of the trial that tables mark; empty: none."""
        return "" if self.best is None or self.is_ablation else self.best.name

    @property
    def is_failed(self) -> bool:
        """Whether no run is in progress, and the search has failed as a whole."""
        return not self.workers_wanted and (bool(self.who_failed) or set(self.counts) == {TrialState.FAILED})

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

    @property
    def value_heading(self) -> str:
        """What the values that rank trials are: "loss", or "best loss" where each is the trial's best one."""
        return f"best {self.metric}" if self.rank_by == "best" else self.metric

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
    latest: LatestMetrics | None = None,
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
        latest: the metrics besides the study's; None: those that the state has seen.
        ended_by: why the run has just ended before its end; empty: for no reason that is worth words.
        driver_died_s: when the last record was written by a driver that no longer lives and has not closed the
            study, seconds since 1970: no run is in progress, whatever the journal says; None: there is none.
    """
    run = state.run if driver_died_s is None else None
    counts: dict[TrialState, int] = {}
    trained = failures = failing = nonfinite = 0
    rank_by = state.config.rank_by
    sign, worst = 1 if state.config.mode == "min" else -1, math.inf
    ranked: list[tuple[float, TrialId]] = []
    running: list[Trial] = []
    failed: deque[Trial] = deque(maxlen=_FAILED_ROWS)
    last_failed: Trial | None = None
    unrecorded, last_unrecorded = 0, ""
    incumbent: Trial | None = None
    seen = 0.0
    for trial in state.trials:
        counts[trial.state] = counts.get(trial.state, 0) + 1
        trained += trial.trained
        failures += trial.failures
        failing += trial.failures > 0
        nonfinite += trial.value is None and trial.value_resource > 0
        if RETURNED_BESIDE in trial.reason:
            unrecorded += 1
            last_unrecorded = f"{trial.name}: {trial.reason.partition('; ')[2]}"
        if trial.best is not None and (incumbent is None or sign * trial.best < sign * seen):
            incumbent, seen = trial, trial.best
        if trial.state is TrialState.FAILED:
            failed.append(trial)
        elif (value := trial.ranked_value(rank_by)) is not None and sign * value <= worst:
            insort(ranked, (sign * value, trial.id))
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
    latest = latest or state.latest
    others = tuple(latest.names[:MOST_COLUMNS])
    is_idle = run is None and elapsed_s is not None and not is_unfinished and had_nothing
    if elapsed_s is not None and state.run is None and times.last_s is not None and not had_nothing:
        elapsed_s = times.last_s
    whole = failed_as_a_whole(state.trials, None if is_unfinished else state.promoted) if run is None else None
    return StudyStatus(
        name=state.config.study,
        metric=state.config.metric,
        mode=state.config.mode,
        rank_by=rank_by,
        is_best_early=bool(best) and _is_early(state, best[0]),
        scheduler=scheduler,
        counts=counts,
        rows=tuple({t.id: row_of(t, is_unfinished, latest, rank_by) for t in (*running, *best, *failed)}.values()),
        others=others,
        unshown=len(state.metric_names - {state.config.metric, *others}),
        best=_ranked_row(state, row_of(best[0], is_unfinished, latest, rank_by), best[0]) if best else None,
        is_ablation=any(PARAMETER in trial.params for trial in state.trials[:1]),
        repeated=max((trial.resource - _saved(trial) for trial in state.trials if _goes_on(trial)), default=0)
        if is_unfinished
        else 0,
        incumbent=None if incumbent is None else BestSeen(incumbent.name, seen, incumbent.best_resource),
        unread=unread,
        workers_alive=sum(slot.state is not SlotState.LAUNCHING for slot in state.pool.alive()) if run else 0,
        workers_wanted=run.parallelism if run is not None else 0,
        workers_had=workers if run is None else 0,
        workers_each=1 if state.gang is None else state.gang.size,
        enlarged=enlarged(state),
        gangs=gangs(state),
        place=place,
        is_unfinished=is_unfinished,
        num_trials=num_trials if run is not None or is_unfinished else None,
        driver_died_s=driver_died_s,
        trained=trained,
        full=None if state.max_resource is None else state.max_resource * len(state.trials),
        saving=sum(not state.attempts[number].is_training for number in state.open_attempts.values()),
        nonfinite=nonfinite,
        who_failed="" if whole is None else whole.who,
        unrecorded=unrecorded,
        last_unrecorded=last_unrecorded,
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
        packed=packed(state),
        could_pack=could_pack,
        beyond_quota=beyond_quota(state),
    )


def row_of(
    trial: Trial, is_unfinished: bool = False, latest: LatestMetrics | None = None, rank_by: str = "last"
) -> TrialRow:
    """Return a trial as a table shows it, with the value by which trials are ranked.

    ``is_unfinished``: as of a search that no run continues now.
    """
    saved = _saved(trial)
    repeats = is_unfinished and _goes_on(trial) and saved < trial.resource
    row = TrialRow(trial.name, trial.state, trial.resource, trial.target, None, trial.params, trial.reason)
    metrics = trial.metrics if latest is None else latest.of(trial.id)
    value = trial.ranked_value(rank_by)
    return msgspec.structs.replace(row, value=value, metrics=metrics, goes_on_from=saved if repeats else None)


def _ranked_row(state: StudyState, row: TrialRow, trial: Trial) -> TrialRow:
    """Return the row of the best trial with the resource at which the value that ranks it was reported."""
    return row if state.config.rank_by == "last" else msgspec.structs.replace(row, resource=trial.best_resource)


def _is_early(state: StudyState, trial: Trial) -> bool:
    return trial.state is TrialState.PAUSED and state.max_resource is not None and trial.resource < state.max_resource


def _goes_on(trial: Trial) -> bool:
    return trial.state in (TrialState.RUNNING, TrialState.WAITING)


def _saved(trial: Trial) -> int:
    return 0 if trial.checkpoint is None else trial.checkpoint.resource
