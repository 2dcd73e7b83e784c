"""The settings of a study that are seldom changed, in groups, and the direction of its metric; each is checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec

from asyncsearch.arguments import checked, count_of, positive, seconds_of, yes_or_no
from asyncsearch.checked_calls import CheckedCalls
from asyncsearch.driver.timeouts import DriverSettings
from asyncsearch.errors import UsageError
from asyncsearch.runner.trial_folder import MOST_BYTES
from asyncsearch.shared.options import read_defaults


@dataclass(frozen=True, kw_only=True)
class Sharing(metaclass=CheckedCalls):
    """Sharing with other studies of the same ``version``, and the space that checkpoints may take.

    Raises:
        UsageError: a value breaks its rule.
    """

    shared: str | Path | Literal[False] | None = None
    """Folder or URL in which studies of one version share what they train; None means ``plan`` beside the study's
    store; False: nothing is shared with other studies, whatever the version."""
    trusted: str | Path | None = None
    """The shared folder once more, if you trust all who may write there: an estimator of scikit-learn in
    ``trial.epochs(state={...})`` is restored by pickle, which runs code from the checkpoint. With None nothing is
    unpickled from a shared folder."""
    tolerant: bool = False
    """Take over what studies with ``pack=`` have trained, too, though it agrees with what this one would train within a
    tolerance only. A study that packs does so in any case."""
    defaults: Mapping[str, Any] | None = None
    """Name -> JSON value of parameters that this space lacks and that other studies of the version have: the value that
    the trainable takes when it is not given one."""
    quota_bytes: int | None = None
    """Bytes that all checkpoints together may take; None means no limit. As soon as it is exceeded, paused trials that
    will not be promoted in this run lose theirs, then the worst of the ``keep_checkpoints`` best finished trials; the
    best trial, and those that may go on, never do. In a shared folder, at the end of a run, checkpoints that no study
    needs are removed, and if that is not enough, those that ``evaluate`` keeps."""

    def __post_init__(self) -> None:
        if self.shared is not False and not isinstance(self.shared, str | Path | None):
            raise UsageError(
                f"shared={self.shared!r} must be a folder or a URL, None (beside the study's store), or False (share "
                "with nobody)."
            )
        yes_or_no("tolerant", self.tolerant)
        read_defaults(self.defaults)
        if self.quota_bytes is not None:
            positive("quota_bytes", self.quota_bytes, "10_000_000_000")


@dataclass(frozen=True, kw_only=True)
class WorkerOptions(metaclass=CheckedCalls):
    """How workers run trials, and how long they are waited for. Times are seconds or a ``timedelta``.

    Raises:
        UsageError: a value breaks its rule.
    """

    fresh_process: bool = False
    """Run each trial in a process of its own, instead of keeping one warm."""
    recycle_after: int | None = None
    """Attempts after which a warm process is replaced. None means when its memory has grown by 1 GiB, or by a quarter
    of what was free."""
    preload: bool = True
    """Import, once a worker's first trial has trained, what it has imported from installed packages in a process of its
    own, from which later processes of the worker begin at once. It holds that memory once more for each worker (some
    450 MB with torch), and is not made where less than ten times of it is free."""
    stop_grace: float | timedelta = 5.0
    """Time that a stopped trial has to unwind before its process gets SIGTERM, then SIGKILL."""
    lease_timeout: float | timedelta = 30.0
    """Silence after which a worker has lost its work."""
    trial_timeout: float | timedelta | None = None
    """Time that an attempt may take; None means no limit."""
    trial_memory: int | None = None
    """Bytes of resident memory that a trial's process may hold with those that it started, looked at five times a
    second; one that holds more is ended, and its trial fails. None means what the machine has."""
    release_idle: float | timedelta | None = 10.0
    """Time without a use after which a worker gives its slot of Spark back: nothing waits, no trial may be created and
    no promotion is due before another trial reports. It is started again as soon as there is work for it, which costs
    a start: the import of the packages, what ``trial.once`` keeps, and where others have taken the slot, the wait for
    it; see docs/clusters.md. None means it keeps its slot until the run ends. Processes on this machine always stay:
    they hold no slot."""

    _unnamed: ClassVar[str] = "the number of workers is an argument of run, write study.run(parallelism={value})"

    def __post_init__(self) -> None:
        self.for_driver()
        self.for_agents()

    def for_driver(self) -> DriverSettings:
        """Return the settings of the driver."""
        limit, grace_s = self.trial_timeout, seconds_of("stop_grace", self.stop_grace)
        return DriverSettings(
            stop_timeout_s=2 * grace_s + DriverSettings().stop_timeout_s,  # SIGTERM after the first, SIGKILL after both
            lease_timeout_s=seconds_of("lease_timeout", self.lease_timeout),
            trial_timeout_s=None if limit is None else seconds_of("trial_timeout", limit),
            release_idle_s=None if self.release_idle is None else _idle_s(self.release_idle),
        )

    def for_agents(self) -> dict[str, Any]:
        """Return the fields of ``WorkerConfig`` that these options set."""
        grace_s = seconds_of("stop_grace", self.stop_grace)
        return {
            "fresh_process": yes_or_no("fresh_process", self.fresh_process),
            "recycle_after": None if self.recycle_after is None else positive("recycle_after", self.recycle_after),
            "preloads": yes_or_no("preload", self.preload),
            "trial_bytes": None if self.trial_memory is None else positive("trial_memory", self.trial_memory, _GIB_4),
            "stop_grace_s": grace_s,
            "kill_grace_s": grace_s,
        }


_GIB_4 = "4 * 1024**3"


def _idle_s(given: object) -> float:
    try:
        return seconds_of("release_idle", given)
    except UsageError as error:
        raise UsageError(f"{error} For workers that keep their slots, write release_idle=None.") from None


@dataclass(frozen=True, kw_only=True)
class Checkpoints(metaclass=CheckedCalls):
    """Which checkpoints are kept, and how long a store is waited for. Times are seconds or a ``timedelta``.

    Raises:
        UsageError: a value breaks its rule.
    """

    keep_checkpoints: int = 1
    """Of how many of the best finished trials; those of unfinished trials are kept while a run lasts."""
    keep_paused: bool = True
    """Keep those of paused trials when a run is over, too, so that a run with more trials may promote them. False: only
    those of the ``keep_checkpoints`` best trials stay; a trial that a later run promotes trains again from the nearest
    checkpoint that is left."""
    at_rungs: bool = False
    """Save at each rung, also where a trial goes on at once; False: only where it pauses or another one needs it."""
    store_timeout: float | timedelta = 600.0
    """Time for which a run waits while its store cannot be used, for checkpoints or for its journal, before it ends."""
    keep_dirs: int | None = None
    """Of how many of the best finished trials ``trial.dir`` stays stored once a run is over; those of unfinished trials
    stay, too. None means all stay."""
    dir_bytes: int = MOST_BYTES
    """Bytes that the files in ``trial.dir`` may take, of each trial."""

    def __post_init__(self) -> None:
        count_of("keep_checkpoints", self.keep_checkpoints)
        yes_or_no("keep_paused", self.keep_paused)
        yes_or_no("at_rungs", self.at_rungs)
        seconds_of("store_timeout", self.store_timeout)
        if self.keep_dirs is not None:
            count_of("keep_dirs", self.keep_dirs)
        positive("dir_bytes", self.dir_bytes, "100_000_000")

    def with_timeout(self, settings: DriverSettings) -> DriverSettings:
        """Return settings of the driver with the time for which it waits for its store."""
        return msgspec.structs.replace(settings, store_timeout_s=seconds_of("store_timeout", self.store_timeout))

    def for_agents(self) -> dict[str, Any]:
        """Return the fields of ``WorkerConfig`` that these options set."""
        return {"dir_bytes": self.dir_bytes}

    def for_engine(self) -> dict[str, Any]:
        """Return the fields of ``EngineConfig`` that these options set."""
        return {
            "keep_checkpoints": self.keep_checkpoints,
            "keep_paused": self.keep_paused,
            "save_at_rungs": self.at_rungs,
        }


GROUPS: Mapping[str, type[Any]] = {"sharing": Sharing, "workers": WorkerOptions, "checkpoints": Checkpoints}
"""Argument of ``Study`` -> the group of options that it takes."""


def require_groups(sharing: object, workers: object, checkpoints: object) -> None:
    """Refuse a value where a group of options is taken.

    Raises:
        UsageError: the message holds the group with the value.
    """
    if isinstance(sharing, str | Path):
        raise UsageError(f"sharing={str(sharing)!r}: write sharing=Sharing(shared={str(sharing)!r}).")
    if isinstance(workers, int):
        raise UsageError(
            f"workers={workers}: their number is an argument of run, write study.run(parallelism={workers})."
        )
    if isinstance(checkpoints, int):
        raise UsageError(f"checkpoints={checkpoints}: write checkpoints=Checkpoints(keep_checkpoints={checkpoints}).")
    for (name, kind), given in zip(GROUPS.items(), (sharing, workers, checkpoints), strict=True):
        checked(given, kind, name)


_HIGHER = "accuracy acc auc auroc auprc f1 r2 precision recall reward score iou map bleu rouge dice ndcg mrr kappa mcc"
_LOWER = "loss error err rmse mse mae mape logloss nll perplexity ppl wer cer cost latency regret"
_BETTER = dict.fromkeys(_HIGHER.split(), "max") | dict.fromkeys(_LOWER.split(), "min")
"""Word in the name of a metric -> the usual direction."""


def direction_notes(metric: str, mode: str) -> list[str]:
    """Return a note if a search looks for the worst values of its metric, as far as its name tells."""
    words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", metric).lower())
    # The last word says what is measured in "accuracy_loss" or "score_error"; a sign turns it round.
    last = next((word for word in reversed(words) if word in _BETTER), None)
    if last is None or "neg" in words or "negative" in words or _BETTER[last] == mode:
        return []
    which = "lowest" if mode == "min" else "highest"
    better = _BETTER[last]
    return [f"mode={mode!r} searches the {which} {metric}: if the {_other(which)} is the best, write mode={better!r}."]


def _other(which: str) -> str:
    return "highest" if which == "lowest" else "lowest"


def missing_mode(given: Mapping[str, Any]) -> str:
    """Return the answer to a ``Study`` without ``mode``: both lines."""
    metric = given.get("metric", "loss")
    return (
        f"Study(metric={metric!r}) does not say which values of {metric!r} are better: write\n"
        f"    Study(..., metric={metric!r}, mode='min')  # the lowest\n"
        f"    Study(..., metric={metric!r}, mode='max')  # the highest"
    )
