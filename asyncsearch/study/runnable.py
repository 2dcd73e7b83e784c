"""A study as it is run: workers are found for it, it is searched, and the quota of its checkpoints is kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext

import msgspec

from asyncsearch import errors
from asyncsearch.actions import EndRun
from asyncsearch.agent.config import WorkerConfig
from asyncsearch.arguments import enough
from asyncsearch.driver.interrupts import Interrupts
from asyncsearch.driver.shared_workers import WorkerShare
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import AsyncSearchError, StoreLostError, UsageError
from asyncsearch.ids import WorkerId
from asyncsearch.journal.opening import read_records, read_study_file
from asyncsearch.journal.projection import last_failure
from asyncsearch.launch import chosen
from asyncsearch.launch.base_launcher import Launcher, Preflight
from asyncsearch.launch.scarcity import require_descriptors
from asyncsearch.report.formatting import many
from asyncsearch.report.live.display import Display
from asyncsearch.report.live.progress import announced
from asyncsearch.report.plain_text import printable
from asyncsearch.report.what_if.preview import warnings_of
from asyncsearch.rpc import auth
from asyncsearch.rpc.forks import require_no_fork_with_grpc
from asyncsearch.rpc.messages import Endpoint
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.shared.files import SharedFiles
from asyncsearch.shared.folder import SharedFolder
from asyncsearch.shared.homes import root_of
from asyncsearch.shared.membership import FolderMembership
from asyncsearch.shared.names import compare_names
from asyncsearch.shared.options import default_names
from asyncsearch.shared.pack_times import PackTimes, TimesInFolder, TimesInProcess, code_key
from asyncsearch.shared.quota import keep_within
from asyncsearch.store.base_store import Store
from asyncsearch.study import trial_dirs
from asyncsearch.study.background import begun
from asyncsearch.study.devices_option import (
    devices_of,
    many_devices,
    require_equal_kinds,
    require_own_devices,
    with_devices,
)
from asyncsearch.study.gang_option import require_workers, useful_workers, workers_for
from asyncsearch.study.kept_study import KeptStudy
from asyncsearch.study.leftovers import swept
from asyncsearch.study.metric_names import direction_notes
from asyncsearch.study.results import ReadState
from asyncsearch.study.run import Search, run_search
from asyncsearch.study.warm_start import begin_searcher

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


class RunnableStudy(KeptStudy, kw_only=True):
    """All that a run of a study needs, except what differs from run to run."""

    backend: str | Launcher
    could_pack: bool = False
    """Whether it might have asked for ``pack=``, and did not."""
    claim: Callable[[], tuple[Store, list[str]]] | None = None
    """Gives the store for good, with notes on the choice; None: it is ``store``."""

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
        advice += direction_notes(what.config.metric, what.config.mode)
        self.require_places()
        if not is_begun:
            display.warn(advice)
        backend = self.backend if place is None else place.backend
        with chosen(backend, study=what.config.study) as launcher, ExitStack() as ending:
            if launcher.transport is None:
                require_no_fork_with_grpc()
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
            require_descriptors(preflight.parallelism, are_processes_here=launcher.name == "processes")
            if place is None:
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
                elif num_trials is not None and num_trials < len(state.trials):
                    display.warn([too_few(f"num_trials={num_trials}", num_trials, len(state.trials), "num_trials=")])
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
                    with swept(store, state, what.keep_dirs):
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
        """Return where studies of this code keep how fast packs train: the cluster, and the folder that they share."""
        what = self.definition
        code = code_key(self.trainable, self.parts, what.config.defaults)
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


def too_few(given: str, total: int, there: int, argument: str) -> str:
    """Return what a total below the number of trials that a study has leads to, and what to write for more."""
    return (
        f"{given} is fewer than the {there} trials that the study has: it is the total, so no new trial begins. "
        f"For {total} more write {argument}{there + total}."
    )


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
