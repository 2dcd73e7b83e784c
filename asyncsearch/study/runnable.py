"""A study as it is run: workers are found for it, it is searched, and the quota of its checkpoints is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from asyncsearch import errors
from asyncsearch.actions import EndRun
from asyncsearch.driver.callbacks import TrialCallable
from asyncsearch.driver.interrupts import Interrupts
from asyncsearch.driver.questions import Answerer
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import AsyncSearchError, ClusterError, StoreLostError, UsageError
from asyncsearch.journal.opening import read_records, read_study_file, replay
from asyncsearch.journal.projection import last_failure
from asyncsearch.launch import chosen
from asyncsearch.launch.base_launcher import Launcher, Preflight
from asyncsearch.launch.bundle import pack
from asyncsearch.launch.threads.held import held, hold, require_sendable
from asyncsearch.report.formatting import many, printable
from asyncsearch.report.live.display import Display
from asyncsearch.report.what_if.preview import warnings_of
from asyncsearch.rpc import auth
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.sequences.custom_sequences import register_versions
from asyncsearch.shared.files import SharedFiles
from asyncsearch.shared.folder import SharedFolder
from asyncsearch.shared.holds import root_of
from asyncsearch.shared.membership import FolderMembership
from asyncsearch.shared.options import compare_names, default_names, keep_within
from asyncsearch.shared.pack_times import PackTimes, TimesInFolder, code_key
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store
from asyncsearch.study.asked.gang_option import require_workers
from asyncsearch.study.asked.options import direction_notes
from asyncsearch.study.found_workers import SharedPlace, find_workers
from asyncsearch.study.kept.default_store import DefaultFolder
from asyncsearch.study.kept.kept_study import KeptStudy, read_earlier
from asyncsearch.study.left_tasks import ended_by_the_next
from asyncsearch.study.read_study import ReadState
from asyncsearch.study.run import begun, run_search
from asyncsearch.study.run_parts import Search
from asyncsearch.study.threads_option import is_in_threads, require_threads
from asyncsearch.study.trial_dirs import swept
from asyncsearch.study.worker_config import worker_config
from asyncsearch.trainable import Pickled, WithFunctions
from asyncsearch.trial import TrialState

CORRECT = "Correct it and run the script again, with resume=True and a larger num_trials, or in another store="
"""Advice for errors of the user's code: ``asyncsearch resume`` would run the stored code, and failed trials count."""


_ALONE = (
    "That is for one study, by study.run: studies that run together, callbacks=, and programs of other libraries need "
    "a driver that executors reach. Leave out backend='spark-cluster'; where they do not reach this process, set "
    "spark.asyncsearch.driver.host and spark.asyncsearch.driver.port, or run the program inside the cluster."
)


class Remotely(NamedTuple):
    """The part of a run whose driver may be in the cluster."""

    follow: Callable[[RunnableStudy, Launcher, int | None, Display], None]
    """Follows a driver that is there already: (study, launcher, parallelism, display)."""
    run: Callable[[RunnableStudy, Launcher, Preflight, int | None, float | None, Display], None]
    """Searches by one: (study, launcher, findings, number of trials, timeout in seconds, display)."""


class RunnableStudy(KeptStudy, kw_only=True):
    """All that a run of a study needs, except what differs from run to run."""

    backend: str | Launcher
    could_pack: bool = False
    """Whether it might have asked for ``pack=``, and did not."""
    default: DefaultFolder | None = None
    """Gives the store for good, when it is taken; None if it was named, or is taken already."""
    advice: str = CORRECT
    """What follows from an error of the user's code; programs of other libraries have no ``resume=``."""

    def run(
        self,
        num_trials: int | None,
        parallelism: int | None,
        timeout_s: float | None,
        display: Display,
        *,
        interrupts: Interrupts | None = None,
        place: SharedPlace | None = None,
        answerer: Answerer | None = None,
        remotely: Remotely | None = None,
        callbacks: Sequence[TrialCallable] = (),
        study: object = None,
    ) -> ReadState:
        """Search, and return the state in the end; see ``Study.run``.

        Args:
            place: its place on a cluster that it shares with other studies, in place of ``parallelism``.
            answerer: answers the questions of its trials, where another library's program asks them.
            remotely: what to do where the driver must run in the cluster; None if this run's cannot.
            callbacks: called on the driver with ``study``, as its user has it, and each trial that has ended.
        """
        what = self.definition
        if answerer is None and not what.space.names:
            raise UsageError(
                f"{self.store.shown} is a run of another library's program, whose sampler answers its trials: run that "
                "program again, which goes on with it."
            )
        advice, is_begun = self._check(num_trials, parallelism)
        if not is_begun:
            display.warn(advice)
        backend = self.backend if place is None else place.backend
        require_threads(backend, what)
        bundle = self._bundle(display)
        require_sendable(bundle, self.store.shown, in_threads=is_in_threads(backend))
        may_be_remote = place is None and answerer is None and not callbacks
        with chosen(backend, study=what.config.study) as launcher, ExitStack() as ending:
            if may_be_remote and remotely is not None:
                remotely.follow(self, launcher, parallelism, display)
            found = find_workers(launcher, what, num_trials, parallelism, place, is_shown=display.is_shown)
            if found.preflight.is_remote:
                if remotely is None or not may_be_remote:
                    raise ClusterError(f"{' '.join(found.preflight.warnings[:1])} {_ALONE}")
                remotely.run(self, launcher, found.preflight, num_trials, timeout_s, display)
                state = self.fresh_state()
                replay(self.store, state)
                return ReadState(state, self.store.journal_size())
            # Beside the store's writes, which come before workers need it; no process is forked from here on.
            making = begun(auth.make_identity, "asyncsearch-identity")
            identity = ending.enter_context(making) if launcher.transport is None else None
            store = self.take_store(display)
            store.prepare()
            with store.lock(), ended_by_the_next(launcher, store):
                state, last = self.open(display)
                # Not before: a study that may not go on has not begun to search.
                begins = f"searching on {found.describe()}, with everything stored in {store.shown}"
                display.begin(f"{what.config.study}: {begins}")
                display.warn(found.preflight.warnings)
                # A search that has all its trials can no longer follow it.
                if is_begun and (num_trials is None or len(state.trials) < num_trials):
                    display.warn([*advice, *trained_again(state)])
                elif num_trials is not None and num_trials < len(state.trials):
                    display.warn([too_few(f"num_trials={num_trials}", num_trials, len(state.trials), "num_trials=")])
                search = Search(
                    state=state,
                    store=store,
                    last_record=last,
                    launcher=launcher,
                    preflight=found.preflight,
                    worker_config=partial(worker_config, found, bundle, store),
                    identity=identity,
                    worker_store=(what.shared or store).url,
                    definition=what,
                    num_trials=num_trials,
                    timeout_s=timeout_s,
                    shared=self._join(state, display),
                    pack_times=self._pack_times(place),
                    could_pack=self.could_pack,
                    answerer=answerer,
                    callbacks=callbacks,
                    study=study,
                    share=None if place is None else place.share,
                )
                result, end = self._search(search, display, interrupts)
        if end.error_kind:
            raise getattr(errors, end.error_kind, AsyncSearchError)(_with_traceback(store, end, launcher, self.advice))
        return result

    def take_store(self, display: Display) -> Store:
        """Return the store; one that was not named gets its folder now, once."""
        if self.default is not None:
            chosen, self.default = self.default, None
            earlier = chosen.last()
            self.store = open_store(chosen.claim(Path(self.store.shown)))
            if earlier:
                go_on = f"To go on with {earlier}, write Study(..., resume=True)."
                display.warn([f"This is a new study, in {self.store.shown}. {go_on}"])
        return self.store

    def _check(self, num_trials: int | None, parallelism: int | None) -> tuple[list[str], bool]:
        """Refuse a search that cannot end or begin; return advice on it, and whether the study has begun before."""
        what = self.definition
        proposals = self.begin_searcher().length()
        require_bounded(what.searcher, num_trials, proposals, "run")
        require_workers(what.gang, parallelism)
        is_begun = read_study_file(self.store) is not None
        advice = warnings_of(what.scheduler, num_trials, proposals, is_begun=is_begun)
        self.require_places()
        return [*advice, *direction_notes(what.config.metric, what.config.mode)], is_begun

    def _bundle(self, display: Display) -> bytes:
        """Return the pickled trainable, with the functions of time that trials began with before they were edited."""
        file = read_study_file(self.store) if self.resume else None
        earlier = read_earlier(self.store, file, self.definition.space.function_versions)
        display.warn(earlier.notes)
        register_versions(earlier.versions)
        bundle = self.definition.trainable
        if earlier.versions and (trainable := held(bundle)) is not None:
            return hold(WithFunctions(trainable, {}, earlier.versions))
        return pack(WithFunctions(Pickled(bundle), {}, earlier.versions)).data if earlier.versions else bundle

    def _search(self, search: Search, display: Display, interrupts: Interrupts | None) -> tuple[ReadState, EndRun]:
        try:
            with swept(search.store, search.state, self.definition.keep_dirs, search.writers):
                end = run_search(search, display, interrupts)
            if search.shared is not None:
                self.keep_quota(display)
        finally:
            display.close()
        _require_journal(search.store)
        return ReadState(search.state, search.store.journal_size()), end

    def keep_quota(self, display: Display) -> None:
        """Remove from the shared folder what exceeds the quota."""
        what = self.definition
        if what.shared is not None and what.quota_bytes is not None:
            display.warn(
                keep_within(SharedFolder(what.shared, roots=[root_of(self.store.shown)]), what.quota_bytes, self.store)
            )

    def _join(self, state: StudyState, display: Display) -> FolderMembership | None:
        """Become a member of the folder that studies share, while the lock of the study's own store is held."""
        what = self.definition
        if what.shared is None:
            return None
        folder = SharedFolder(what.shared, takes_packed=what.takes_packed, roots=[root_of(self.store.shown)])
        folder.prepare()
        folder.take_over(self.store.shown)
        names = what.space.names | default_names(what.config.defaults)
        display.warn(compare_names(folder.files, self.store.shown, state.root, names))
        return FolderMembership(folder, self.store.shown)

    def _pack_times(self, place: SharedPlace | None) -> list[PackTimes]:
        """Return the places of the times of packs of this code: the cluster, and the folder that studies share."""
        what = self.definition
        code = code_key(self.code.name, self.code.parts, what.config.defaults)
        if not code or what.packing is None or not what.packing.is_measured:
            return []
        found = [] if place is None else [place.times.of_code(code)]
        return found if what.shared is None else [*found, TimesInFolder(SharedFiles(what.shared), code)]


def _require_journal(store: Store) -> None:
    """Check that the journal of a run that is over is still there.

    Raises:
        StoreLostError: it was removed after the driver had closed it.
    """
    if not store.journal_segments():
        raise StoreLostError(
            f"The journal of the study in {store.shown!r} was removed while its run ended, and no process has its files"
            " open any more. Restore the folder 'journal' from a backup, or start the study again in a new store=."
        )


def trained_again(state: StudyState) -> list[str]:
    """Return a note before a run with more trials, if paused trials have no checkpoint any more."""
    paused = [trial for trial in state.trials if trial.state is TrialState.PAUSED]
    without = sum(trial.checkpoint is None for trial in paused)
    if not without:
        return []
    words = (
        f"{without} of {many(len(paused), 'paused trial')} have no checkpoint, since none of them was to go on: one "
        "that is promoted now trains again from the nearest one that is left, and `asyncsearch explain` says so."
    )
    return [words]


def too_few(given: str, total: int, there: int, argument: str) -> str:
    """Return a sentence on a total below the number of trials that a study has, with the total for more."""
    return (
        f"{given} is fewer than the {there} trials that the study has: it is the total, so no new trial begins. "
        f"For {total} more write {argument}{there + total}."
    )


def _with_traceback(store: Store, end: EndRun, launcher: Launcher, advice: str) -> str:
    """Return the reason of a run's end, with the traceback of the last trial if it is that trials failed."""
    if end.error_kind == "StoreError":
        return printable(
            f"The run has ended: {end.reason} Its reports and checkpoints so far are kept, and no trial has failed for "
            f"it: mend the store, then continue by Study.resume({store.shown!r})."
        )
    if end.error_kind != "TrialsFailedError":
        return printable(end.reason.removeprefix(f"{errors.__name__}.{end.error_kind}: "))
    detail = last_failure(read_records(store)).strip()
    if launcher.has_shown(detail):
        return printable(f"{end.reason}. {advice}; the traceback is above: {detail.splitlines()[-1]}")
    return printable(f"{end.reason}. {advice}. The traceback of the last one:\n\n{detail}")


def require_bounded(searcher: Searcher, num_trials: int | None, proposals: int | None, method: str) -> None:
    """Refuse a search that has no last trial."""
    if num_trials is None and proposals is None:
        raise UsageError(
            f"{method}(num_trials=None) of {searcher.describe()}, whose number of proposals is not known: "
            f"say how many trials, e.g. {method}(num_trials=64)."
        )
