"""The status of a study at one moment, in a size that does not grow with it. All displays show it."""

from __future__ import annotations

import msgspec

from asyncsearch.report.formatting import many
from asyncsearch.trial import TO_BE_CONTINUED, Params, TrialState


class TrialRow(msgspec.Struct, frozen=True):
    """A trial as a table shows it."""

    name: str
    state: TrialState
    resource: int
    """Units of training done."""
    target: int | None
    """Resource up to which it trains now; None means until its function returns."""
    value: float | None
    """The metric as last reported."""
    params: Params
    reason: str = ""
    metrics: dict[str, float] = {}
    """The metrics besides the study's, as last reported; as many as are kept for tables."""
    is_nonfinite: bool = False
    """Whether the metric was last reported as NaN or infinity, so that ``value`` is None."""
    goes_on_from: int | None = None
    """Resource of the checkpoint from which the next run continues it, if that repeats units; None if none are."""


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
    has_workers: bool = True
    """Whether workers train its trials, and nobody elsewhere evaluates them."""
    workers_alive: int = 0
    workers_wanted: int = 0
    """0 between runs."""
    workers_released: int = 0
    """How many of them have given their slots back until there is work for them."""
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
    """The total of trials that the run, or the one that ended unfinished, has requested; None without limit or run."""
    repeated: int = 0
    """Units since its last checkpoint of the trial to be continued that has most of them; the next run repeats them."""
    driver_died_s: float | None = None
    """When the last record was written by a driver that ended without closing, seconds since 1970; None if none has."""
    trained: int = 0
    """Units of training done by all trials together, repeated ones included."""
    full: int | None = None
    """Units of training every trial to ``max_resource``; None if there is no such resource."""
    saving: int = 0
    """Running trials that have trained, and whose checkpoint is not stored yet: their workers may train others."""
    nonfinite: int = 0
    """Trials whose last value of the metric was NaN or infinite."""
    who_failed: str = ""
    """Which trials failed, if the search has failed as a whole: "every promoted trial"; empty if it has not."""
    unrecorded: int = 0
    """Trials whose function returned a value beside its reports, which is not recorded."""
    last_unrecorded: str = ""
    """The value that the last of them returned, and what to change."""
    failures: int = 0
    """Attempts that ended by an error of the trial."""
    failing: int = 0
    """Trials that these attempts are of; some may have failed for good, and others be retried."""
    last_failure: str = ""
    """Name of the trial that failed last and the last line of its error."""
    stopping: str = ""
    """Why the run is being stopped; empty while it is not."""
    elapsed_s: float | None = None
    """Seconds that the run in progress, or the one that has just ended, has taken; None if there was none to follow."""
    ended_by: str = ""
    """The cause of the end of the run that has just ended, where that was a timeout; else empty."""
    is_idle: bool = False
    """Whether the run that has just ended had nothing to do."""
    ended_s: float | None = None
    """When the last run ended that had something to do, seconds since 1970; None if unknown, or none has."""
    total_s: float | None = None
    """Seconds that all runs have taken together; None if unknown."""
    runs: int = 0
    """How many these are."""
    store: str = ""
    unread: str = ""
    """The part of the journal that could not be read, in words; empty if all was read."""
    packed: str = ""
    """How many trained together and what that saved, or why none did, in words; empty if nothing was packed."""
    time_line: str = ""
    """What the workers' time was for, in words; empty while a run is in progress, or if it was not looked at."""
    could_pack: bool = False
    """Whether the study might have asked for ``pack=``, and did not."""
    beyond_quota: str = ""
    """Why checkpoints take more than ``quota_bytes``; empty while they do not."""
    kept_for_later: str = ""
    """What a search that is over keeps for a run with more trials, in words; empty if nothing, or it is not over."""

    @property
    def trials(self) -> int:
        """The number of trials."""
        return sum(self.counts.values())

    @property
    def marked(self) -> str:
        """The name of the trial that tables mark; empty if there is none."""
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
        """The share of training that early stopping has saved, from 0 to 1; None if unknown yet, or none."""
        if not self.is_finished or not self.full or self.trained >= self.full:
            return None
        return 1 - self.trained / self.full

    @property
    def value_heading(self) -> str:
        """The name of the values that rank trials: "loss", or "best loss" where each is the trial's best one."""
        return f"best {self.metric}" if self.rank_by == "best" else self.metric

    def words(self, state: TrialState) -> str:
        """Return the name of this state of trials, for people."""
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
