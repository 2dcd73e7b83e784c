"""A study as it is run: created in its store or opened from it, searched, and the quota of its checkpoints kept."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress

import msgspec

from asyncsearch import errors
from asyncsearch._version import __version__
from asyncsearch.actions import EndRun
from asyncsearch.agent.config import WorkerConfig
from asyncsearch.arguments import enough
from asyncsearch.driver.interrupts import Interrupts
from asyncsearch.driver.shared_workers import WorkerShare
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import AsyncSearchError, StoreError, StoreLostError, StudyExistsError, UsageError
from asyncsearch.ids import WorkerId
from asyncsearch.journal.opening import (
    BUNDLE_FILE,
    STUDY_FILE,
    KeptFunction,
    StudyFile,
    read_records,
    read_study_file,
    replay,
    write_study_file,
)
from asyncsearch.journal.projection import last_failure
from asyncsearch.launch import chosen
from asyncsearch.launch.base_launcher import Launcher, Preflight
from asyncsearch.plan.pack_strategies import strategy_name
from asyncsearch.report.formatting import many
from asyncsearch.report.live.display import Display
from asyncsearch.report.live.progress import announced
from asyncsearch.report.plain_text import printable
from asyncsearch.report.what_if.preview import warnings_of
from asyncsearch.rpc import auth
from asyncsearch.rpc.messages import Endpoint
from asyncsearch.schedulers.scheduler_options import options_of
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.shared.files import SharedFiles
from asyncsearch.shared.folder import SharedFolder, require_shareable
from asyncsearch.shared.membership import FolderMembership
from asyncsearch.shared.names import compare_names
from asyncsearch.shared.options import default_names
from asyncsearch.shared.pack_times import PackTimes, TimesInFolder, TimesInProcess, code_key
from asyncsearch.shared.quota import keep_within
from asyncsearch.store.base_store import Store
from asyncsearch.store.own_folder import require_own_folder
from asyncsearch.store.scratch import sweep_machine
from asyncsearch.study import kept_functions, trial_dirs
from asyncsearch.study.background import begun
from asyncsearch.study.definition import StudyDefinition, pickled, require_same
from asyncsearch.study.devices_option import (
    devices_of,
    many_devices,
    require_equal_kinds,
    require_own_devices,
    with_devices,
)
from asyncsearch.study.gang_option import require_workers, useful_workers, workers_for
from asyncsearch.study.results import ReadState
from asyncsearch.study.run import Search, run_search
from asyncsearch.study.warm_start import WarmStart, begin_searcher, keep
from asyncsearch.trial import TrialState

CORRECT = "Correct it and run the script again, with resume=True and a larger num_trials, or in another store="
"""Advice for errors of the user's code: ``asyncsearch resume`` would run the stored code, and failed trials count."""


class SharedPlace(msgspec.Struct, frozen=True):
    """A study's place on a cluster that it shares with other studies."""

    share: WorkerShare
    found: Preflight
    """What the cluster has, for all studies."""
    backend: str | Launcher
    """Of the cluster, or the launcher that the study brought along."""
    times: TimesInProcess
    """How fast packs of its studies train."""

    def check(self, launcher: Launcher) -> Preflight:
        """Return what a launcher of this study finds."""
        mine = msgspec.structs.replace(self.found, parallelism=self.share.most)
        return msgspec.structs.replace(launcher.check_again(mine), cpu_threads=self.found.cpu_threads)


class RunnableStudy(msgspec.Struct, kw_only=True):
    """All that a run of a study needs, except what differs from run to run."""

    store: Store
    definition: StudyDefinition
    trainable: str
    """Name of the trainable, for people."""
    fingerprint: str
    """Hash of the trainable's source."""
    script: tuple[str, str] = ("", "")
    """The file with the trainable's source and its hash; empty: unknown."""
    parts: dict[str, str]
    """Name -> digest of the code that the trainable consists of."""
    backend: str | Launcher
    warm: WarmStart
    resume: bool
    """Whether a study that is in the store already goes on; so does one that was opened once."""
    could_pack: bool = False
    """Whether it might have asked for ``pack=``, and did not."""
    claim: Callable[[], tuple[Store, list[str]]] | None = None
    """Gives the store for good, with notes on the choice; None: it is ``store``."""

    def fresh_state(self) -> StudyState:
        """Return the state before the first record of the journal."""
        what = self.definition
        searcher = begin_searcher(what.searcher, what.space, what.config, self.warm)
        scheduler = what.scheduler.begin(what.space, what.config.seed)
        return StudyState(what.config, searcher, scheduler, what.scheduler.max_resource, what.packing, what.gang)

    def run(
        self,
        num_trials: int | None,
        parallelism: int | None,
        timeout_s: float | None,
        display: Display,
        *,
        interrupts: Interrupts | None = None,
        place: SharedPlace | None = None,
    ) -> ReadState:
        """Search, and return the state in the end; see ``Study.run``.

        Args:
            place: its place on a cluster that it shares with other studies, in place of ``parallelism``.
        """
        what, store = self.definition, self.store
        proposals = begin_searcher(what.searcher, what.space, what.config, self.warm).length()
        require_bounded(what.searcher, num_trials, proposals, "run")
        require_workers(what.gang, parallelism)
        is_begun = read_study_file(store) is not None
        advice = warnings_of(what.scheduler, num_trials, proposals, is_begun=is_begun)
        self.require_places()
        if not is_begun:
            display.warn(advice)
        backend = self.backend if place is None else place.backend
        with chosen(backend, study=what.config.study) as launcher, ExitStack() as ending:
            devices: tuple[str, ...] | None = None
            if place is not None:
                preflight = place.check(launcher)
                require_own_devices(launcher, what.devices)
            else:
                with announced(launcher.preparation()) if display.is_shown else nullcontext():
                    found = launcher.check(enough(parallelism, useful_workers(what.gang, num_trials)))
                room, devices = with_devices(launcher, what.devices, found.parallelism, parallelism)
                if room < found.parallelism:  # each of fewer workers has more cores
                    found = launcher.check(room)
                preflight = msgspec.structs.replace(found, parallelism=workers_for(what.gang, room))
                require_equal_kinds(devices, what.devices, what.gang, preflight.parallelism)
                launcher.warm_up(preflight.parallelism)
            # Beside the store's writes, which come before workers need it; no process is forked from here on.
            is_remote = launcher.transport is None
            making = begun(auth.make_identity, "asyncsearch-identity")
            identity = ending.enter_context(making) if is_remote else None
            workers = many(preflight.parallelism, "worker") + (f" ({preflight.place})" if preflight.place else "")
            workers += "" if what.gang is None else f", {what.gang.size} to a trial"
            workers += "" if what.devices is None else f", {many_devices(what.devices)} to a worker"

            def worker_config(worker: WorkerId, epoch: int, endpoint: Endpoint | None) -> WorkerConfig:
                return WorkerConfig(
                    study=what.config.study,
                    metric=what.config.metric,
                    bundle=what.trainable,
                    store=what.shared or store,
                    dirs=trial_dirs.place_in(store),
                    untrusted="" if what.shared is None or what.is_trusted else what.shared.shown,
                    endpoint=endpoint,
                    worker=worker,
                    epoch=epoch,
                    cpu_threads=preflight.cpu_threads,
                    gpus=None if devices is None else devices_of(worker, devices, what.devices or 1),
                    gpu_share=min(1.0, what.devices or 1.0),
                    **what.worker,
                )

            if self.claim is not None:
                self.store, notes = self.claim()
                store = self.store
                display.warn(notes)
            store.prepare()
            with store.lock():
                state, last = self.open(display)
                # Not before: a study that may not go on has not begun to search.
                share = "" if place is None else "a share of "
                display.begin(
                    f"{what.config.study}: searching on {share}{workers}, with everything stored in {store.shown}"
                )
                display.warn(preflight.warnings)
                # A search that has all its trials can no longer follow it.
                if is_begun and (num_trials is None or len(state.trials) < num_trials):
                    display.warn(advice)
                membership = self._join(state, display)
                search = Search(
                    state=state,
                    store=store,
                    last_record=last,
                    launcher=launcher,
                    preflight=preflight,
                    worker_config=worker_config,
                    identity=identity,
                    worker_store=(what.shared or store).url,
                    definition=what,
                    num_trials=num_trials,
                    timeout_s=timeout_s,
                    shared=membership,
                    pack_times=self._pack_times(place),
                    could_pack=self.could_pack,
                    share=None if place is None else place.share,
                )
                try:
                    with self._swept(state):
                        end = run_search(search, display, interrupts)
                    if membership is not None:
                        self.keep_quota(display)
                finally:
                    display.close()
                _require_journal(store)
                result = ReadState(state, store.journal_size())
        if end.error_kind:
            raise getattr(errors, end.error_kind, AsyncSearchError)(_with_traceback(store, end, launcher))
        return result

    def require_places(self) -> None:
        """Check, before anything is written, that the places of the study and of what it shares are not another's.

        Raises:
            StoreError: other programs have files there.
        """
        if read_study_file(self.store) is None:
            require_own_folder(self.store, self.trainable)
        if self.definition.shared is not None:
            require_shareable(self.definition.shared)

    def open(self, display: Display) -> tuple[StudyState, int]:
        """Create the study, or open it if it may go on; return its state and the number of its last record.

        The store is locked meanwhile.

        Raises:
            StudyExistsError: it exists and was not to be resumed.
            UsageError: another study is in the store.
        """
        existing = read_study_file(self.store)
        changes: list[str] = []
        if existing is None:
            _require_nothing_rescued(self.store)
            if self.store.journal_segments():
                display.warn([self._without_description()])
            bundle = pickled(self.definition)
            self.store.write(BUNDLE_FILE, bundle)
            keep(self.store, self.warm)
            functions = kept_functions.keep(self.store, (), self.definition.space.function_versions)
            write_study_file(self.store, self._file(hashlib.sha256(bundle).hexdigest(), time.time(), functions))
        elif not self.resume:
            raise StudyExistsError(
                f"{self.store.shown} already holds the study {existing.name!r}. "
                f"Go on with it by Study.resume({self.store.shown!r}) or Study(..., resume=True), "
                "or choose another store=."
            )
        else:
            changes = require_same(existing, self._file(existing.bundle_sha256, existing.created_s, []))
            display.warn(changes)
            self._keep_description(existing, display)
        state = self.fresh_state()
        found = replay(self.store, state)
        display.warn((*found.notes, *found.doubts, *(_failed_before(state) if changes else ())))
        self._sweep(state)
        self.resume = True
        return state, found.last

    @contextmanager
    def _swept(self, state: StudyState) -> Iterator[None]:
        """Remove at the end of a run what was left by workers that were lost in it, or could not write the store.

        After any error but Ctrl-C nothing is removed: by then the store may belong to another driver.
        """
        losses = _losses(state)
        try:
            yield
        except KeyboardInterrupt:
            self._sweep_after(state, losses)
            raise
        self._sweep_after(state, losses)

    def _sweep_after(self, state: StudyState, losses: int) -> None:
        if _losses(state) > losses:
            sweep_machine()
        with suppress(StoreError):  # the search is over, and the next run sweeps again
            trial_dirs.tidy(self.store, state, self.definition.keep_dirs)
            if _losses(state) > losses or self.store.list("tmp"):  # a store that could not be written keeps its rest
                self._sweep(state)

    def _sweep(self, state: StudyState) -> None:
        """Remove what writers that were killed have left. No worker may run: it would lose what it writes."""
        self.store.sweep()
        trial_dirs.tidy(self.store, state, self.definition.keep_dirs)
        for checkpoint in self.store.checkpoints():
            if checkpoint not in state.references:  # its attempt ended between the commit and the record of it
                self.store.delete(checkpoint)

    def _without_description(self) -> str:
        """Return a note that study.json is written anew, if the study may go on."""
        place = f"{self.store.shown}/{STUDY_FILE}"
        if not self.resume:
            raise StudyExistsError(
                f"{self.store.shown} holds the journal of a study, and {place} is missing. Restore it, or write it anew"
                " from the script that made the study: Study(..., resume=True); or choose another store=."
            )
        return f"{place} was missing and is written as this script describes the study; its journal goes on."

    def keep_quota(self, display: Display) -> None:
        """Remove from the shared folder what exceeds the quota."""
        what = self.definition
        if what.shared is not None and what.quota_bytes is not None:
            display.warn(keep_within(SharedFolder(what.shared), what.quota_bytes, self.store))

    def _join(self, state: StudyState, display: Display) -> FolderMembership | None:
        """Become a member of the folder that studies share, while the lock of the study's own store is held."""
        what = self.definition
        if what.shared is None:
            return None
        folder = SharedFolder(what.shared, takes_packed=what.takes_packed)
        folder.prepare()
        folder.take_over(self.store.shown)
        names = what.space.names | default_names(what.config.defaults)
        display.warn(compare_names(folder.files, self.store.shown, state.root, names))
        return FolderMembership(folder, self.store.shown)

    def _pack_times(self, place: SharedPlace | None) -> list[PackTimes]:
        """Return where studies of this code keep how fast packs train: the cluster, and the folder that they share."""
        what = self.definition
        code = code_key(self.trainable, self.parts, what.config.defaults)
        if not code or what.packing is None or not what.packing.is_measured:
            return []
        found = [] if place is None else [place.times.of_code(code)]
        return found if what.shared is None else [*found, TimesInFolder(SharedFiles(what.shared), code)]

    def _keep_description(self, existing: StudyFile, display: Display) -> None:
        """Keep the functions of time as they are now beside those that earlier runs had, and how trials are packed."""
        present = self.definition.space.function_versions
        display.warn(kept_functions.edit_notes(existing.functions, present))
        functions = kept_functions.keep(self.store, existing.functions, present)
        now = self._file(existing.bundle_sha256, existing.created_s, functions)
        kept = msgspec.structs.replace(existing, functions=functions, pack_by=now.pack_by, pack_opt=now.pack_opt)
        if kept != existing:
            write_study_file(self.store, kept)

    def _file(self, bundle_sha256: str, created_s: float, functions: list[KeptFunction]) -> StudyFile:
        what, config = self.definition, self.definition.config
        return StudyFile(
            name=config.study,
            metric=config.metric,
            mode=config.mode,
            seed=config.seed,
            version=config.version,
            space=what.space.describe(),
            searcher=what.searcher.describe(),
            scheduler=what.scheduler.describe(),
            scheduler_options=options_of(what.scheduler),
            max_resource=what.scheduler.max_resource,
            trainable=self.trainable,
            can_evaluate=config.can_evaluate,
            pack_by=config.pack_by,
            pack_opt="" if what.packing is None else strategy_name(what.packing.strategy),
            fingerprint=self.fingerprint,
            script=self.script[0],
            script_sha256=self.script[1],
            parts=self.parts,
            python=kept_functions.THIS_PYTHON,
            functions=functions,
            shared="" if what.shared is None else what.shared.shown,
            defaults=config.defaults,
            keep_checkpoints=config.keep_checkpoints,
            share=config.share,
            bundle_sha256=bundle_sha256,
            asyncsearch=__version__,
            created_s=created_s,
        )


def _require_nothing_rescued(store: Store) -> None:
    """Refuse to begin a new study where an earlier one was removed and lies beside it, to be gone on with."""
    rescued = store.rescued()
    if rescued:
        file = rescued[-1]
        raise StoreError(
            f"The study that was in {store.shown} was removed while it ran, and is kept in {file!r}. Go on with it:"
            f" Study.resume({file!r}), or Study(..., store={file!r}, resume=True); or move that file away to begin a"
            " new study."
        )


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


def _failed_before(state: StudyState) -> list[str]:
    """Return what becomes of the trials that failed before the code was changed: people expect that they run again."""
    failed = sum(trial.state is TrialState.FAILED for trial in state.trials)
    if not failed:
        return []
    stays = "it stays failed and counts" if failed == 1 else "they stay failed and count"
    words = f"{many(failed, 'trial')} failed before the code was changed; {stays} in num_trials. To try as many"
    return [
        f"{words} configurations as you meant to, raise num_trials by {failed}, or begin a new study in another store."
    ]


def _losses(state: StudyState) -> int:
    return sum(trial.losses for trial in state.trials)


def _with_traceback(store: Store, end: EndRun, launcher: Launcher) -> str:
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
        return printable(f"{end.reason}. {CORRECT}; the traceback is above: {detail.splitlines()[-1]}")
    return printable(f"{end.reason}. {CORRECT}. The traceback of the last one:\n\n{detail}")


def require_bounded(searcher: Searcher, num_trials: int | None, proposals: int | None, method: str) -> None:
    """Refuse a search that has no last trial."""
    if num_trials is None and proposals is None:
        raise UsageError(
            f"{method}(num_trials=None) of {searcher.describe()}, whose number of proposals is not known: "
            f"say how many trials, e.g. {method}(num_trials=64)."
        )
