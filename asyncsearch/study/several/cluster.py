"""A cluster whose workers several studies share fairly, each submitted when it is ready."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from datetime import timedelta
from types import TracebackType

from asyncsearch.arguments import positive, seconds_of, workers_of
from asyncsearch.checked_calls import answering
from asyncsearch.driver.interrupts import interruption, interrupts_to
from asyncsearch.driver.shared_workers import SharedWorkers, WorkerShare
from asyncsearch.driver.threads import Wakeup
from asyncsearch.errors import NotEnoughSlotsError, UsageError
from asyncsearch.fair.broker import SPARE_S
from asyncsearch.fair.demands import Demand, StudyJoined
from asyncsearch.launch import chosen, require_backend
from asyncsearch.launch.base_launcher import Launcher, Preflight
from asyncsearch.report.live.cluster_display import cluster_display
from asyncsearch.shared.pack_times import TimesInProcess
from asyncsearch.study.asked.gang_option import least_workers, require_limit, require_workers, sizes_of, workers_for
from asyncsearch.study.found_workers import SharedPlace
from asyncsearch.study.script_runs import note_run
from asyncsearch.study.several.submission import Submission
from asyncsearch.study.study import Study, backend_of, require_end
from asyncsearch.study.threads_option import is_in_threads

_EVERY_S = 5.0
_EXAMPLE = "cluster.submit(study, num_trials=64)"


class Cluster:
    """Workers that several studies share at once.

    Each study has its fair part, by weight and priority; what one cannot use, others have. A worker changes its study
    at the boundary of a stage, and is started anew with the other study's code.

    Example::

        with asyncsearch.Cluster() as cluster:
            wide = cluster.submit(study, num_trials=256)
            urgent = cluster.submit(another, num_trials=16, weight=2)
            urgent.wait().best_trial
    """

    @answering("Cluster", "Cluster(parallelism=8)")
    def __init__(
        self,
        parallelism: int | None = None,
        *,
        backend: str | Launcher = "auto",
        display: str = "auto",
        turn: float | timedelta = 30.0,
        patience: float | timedelta = 60.0,
    ) -> None:
        """Describe a cluster; nothing is started before the first study.

        Args:
            parallelism: workers of all studies together; None means one for each slot of the cluster.
            backend: as in ``Study``: where the workers are. Those of the studies are not asked, unless they are
                ``Launcher`` objects of their own.
            display: ``"auto"``, ``"notebook"``, ``"plain"`` or ``"none"``.
            turn: seconds, or a ``timedelta``, for which a study keeps a worker at least, where the workers cannot be
                parted evenly and studies take turns.
            patience: seconds, or a ``timedelta``, within which a worker is to come back at the boundary of a stage;
                after that it comes back at the end of a unit, if the trainable can save there.

        Raises:
            UsageError: an argument is invalid.
        """
        self.parallelism = None if parallelism is None else workers_of("parallelism", parallelism)
        self._backend = require_backend(backend)
        self._display = cluster_display(display)
        self._turn_s, self._patience_s = seconds_of("turn", turn), seconds_of("patience", patience)
        self._submissions: list[Submission] = []
        self._pack_times = TimesInProcess()
        self._wakeup = Wakeup()
        self._ending = ExitStack()
        self._ending.callback(self._wakeup.close)
        self._is_closed = self._is_guarded = False
        self._launcher: Launcher | None = None
        self._found: Preflight
        self._workers: SharedWorkers

    @answering("submit", _EXAMPLE)
    def submit(
        self,
        study: Study,
        num_trials: int | None = None,
        *,
        weight: float = 1.0,
        max_workers: int | None = None,
        priority: int = 0,
        timeout: float | timedelta | None = None,
    ) -> Submission:
        """Begin a study on the cluster, beside those that run there, and return at once.

        Args:
            study: with a store of its own.
            num_trials: as in ``Study.run``.
            weight: studies that could use more workers than there are get them in this proportion; above 0.
            max_workers: the most workers that it may have, from 1, or from as many as train one of its trials; None
                means no limit.
            priority: studies of a higher one get all workers that they can use before those of a lower one.
            timeout: seconds, or a ``timedelta``, after which its run ends with what it has by then, whether it had
                workers or not.

        Returns:
            A handle: ``wait()``, ``result``, ``interrupt()``.

        Raises:
            UsageError: an argument is invalid, or the study cannot run here; no worker has been started for it.
            NotEnoughSlotsError: the cluster has fewer workers than one of its trials needs.
            ClusterError: the workers cannot run.
        """
        backend = self._require_submittable(study)
        total = None if num_trials is None else positive("num_trials", num_trials)
        require_end(study, total)
        Demand(study.name, 0, weight, max_workers, priority)
        require_workers(study.gang, self.parallelism)
        require_limit(study.gang, max_workers)
        timeout_s = None if timeout is None else seconds_of("timeout", timeout)
        note_run(study, total, self.parallelism)
        launcher = self._open(study)
        workers_for(study.gang, self._found.parallelism)
        self._say_notes()
        sizes = sizes_of(study.gang)
        share = WorkerShare(self._workers, StudyJoined(self._key(study), float(weight), max_workers, priority, sizes))
        place = SharedPlace(share, self._found, backend, self._pack_times)
        mine = Submission(study, place, self._wakeup, watch=self.watch, shown=self._found.warnings)
        self._submissions.append(mine)
        pressed: list[bool] = []
        with (
            nullcontext() if self._is_guarded else interrupts_to(lambda: pressed.append(True))
        ):  # else nobody would know whether its thread has begun
            mine.start(launcher.thread, {"num_trials": total, "parallelism": share.most, "timeout_s": timeout_s})
        if pressed:
            mine.interrupt()
            raise interruption()
        return mine

    def submit_all(
        self, studies: Sequence[Study], totals: Sequence[int | None], timeout_s: float | None
    ) -> list[Submission]:
        """Submit studies of equal weight together; Ctrl-C meanwhile interrupts each once all have begun."""
        pressed: list[bool] = []
        with interrupts_to(lambda: pressed.append(True)):
            self._is_guarded = True
            found = [self.submit(study, total, timeout=timeout_s) for study, total in zip(studies, totals, strict=True)]
            self._is_guarded = False
        if pressed:
            self._interrupt()
        return found

    def wait(self) -> None:
        """Wait until all studies that were submitted have ended.

        Raises:
            AsyncSearchError: one of them failed; the others came to their end before this is raised.
            KeyboardInterrupt: it was interrupted; all results are kept, and each study goes on where it stopped.
        """
        self.watch(self._submissions)
        for submission in self._submissions:
            submission.raise_error()

    def watch(self, until: Sequence[Submission]) -> None:
        """Show all studies until some have ended; Ctrl-C, and an exception, are passed on to each."""
        interrupted = False

        def interrupt() -> None:
            nonlocal interrupted
            interrupted = True
            self._interrupt()

        with interrupts_to(interrupt):
            try:
                self._watch(until)
            except BaseException:
                self._interrupt()
                self._watch(self._submissions)
                raise
            if interrupted:
                self._watch(self._submissions)
        if interrupted:
            for submission in self._submissions:
                submission.is_raised |= submission.was_interrupted
            raise interruption()

    def close(self) -> None:
        """Interrupt the studies that still run, wait for their ends, and release the cluster."""
        if not self._is_closed:
            self._is_closed = True
            self._interrupt()
            with interrupts_to(self._interrupt):
                self._watch(self._submissions)
            self._ending.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait for all studies, or, after an exception, interrupt them; then release the cluster."""
        try:
            if kind is None:
                self.wait()
        finally:
            self.close()

    def require_slots(self, studies: Sequence[Study]) -> None:
        """Refuse a cluster that has no worker for each of some studies, or too few for a trial of one.

        Raises:
            NotEnoughSlotsError: there are fewer slots.
        """
        launcher = self._open(studies[0])
        largest = max((study.gang for study in studies), key=least_workers)
        needed = max(len(studies), least_workers(largest))
        if self._found.parallelism >= needed:
            return
        try:
            found = launcher.check(needed)
        except NotEnoughSlotsError as error:
            workers_for(largest, self._found.parallelism)
            raise NotEnoughSlotsError(
                f"{len(studies)} studies side by side need a worker each, and the cluster has not as many slots: run "
                f"at most {self._found.parallelism} of them at a time, or give it more."
            ) from error
        self._use(found)

    def _open(self, study: Study) -> Launcher:
        """Find out what the cluster has, when the first study comes; return the launcher that makes threads."""
        if self._launcher is None:
            launcher = self._ending.enter_context(chosen(self._backend, study=study.name))
            self._use(launcher.check(self.parallelism))
            self._launcher = launcher
        return self._launcher

    def _use(self, found: Preflight) -> None:
        self._found = found
        self._workers = SharedWorkers(
            found.parallelism,
            turn_s=self._turn_s,
            patience_s=self._patience_s,
            spare_s=SPARE_S if found.is_elastic else math.inf,
        )
        self._ending.callback(self._workers.close)

    def _say_notes(self) -> None:
        for sentence in self._found.warnings if not self._submissions else ():
            self._display.say(f"note: {sentence}")

    def _key(self, study: Study) -> str:
        return f"{len(self._submissions)}:{study.name}"

    def _require_submittable(self, study: object) -> str | Launcher:
        """Return the backend of a study, or the cluster's own."""
        if not isinstance(study, Study):
            raise UsageError(f"submit({study!r}): name a study, {_EXAMPLE}.")
        if self._is_closed:
            raise UsageError(f"This cluster is closed: submit {study.name!r} inside its `with` block.")
        backend = backend_of(study)
        running = [one.study for one in self._submissions if one.is_running]
        require_apart([*running, study])
        require_no_inline(study)
        return self._backend if isinstance(backend, str) else backend

    def _interrupt(self) -> None:
        for submission in self._submissions:
            if submission.is_running:
                submission.interrupt()

    def _watch(self, until: Sequence[Submission]) -> None:
        while any(submission.is_running for submission in until):
            self._wakeup.wait(_EVERY_S)
            self._wakeup.clear()
            self._show()
        self._show()

    def _show(self) -> None:
        if self._submissions:
            self._display.show(self._submissions, self._found.parallelism)


def require_apart(studies: Sequence[Study]) -> None:
    """Refuse studies that would write one store, or that have one launcher.

    Raises:
        UsageError: two of them cannot run at once.
    """
    if any(study is other for number, study in enumerate(studies) for other in studies[:number]):
        raise UsageError(f"{studies[-1].name!r} is running already: wait for its end, or make another Study.")
    stores = [study.store.shown for study in studies]
    twice = next((store for store in stores if stores.count(store) > 1), None)
    if twice is not None:
        raise UsageError(f"Two of the studies have the store {twice!r}: give each one of its own, store=...")
    backends = [backend_of(study) for study in studies]
    launchers = [backend for backend in backends if not isinstance(backend, str)]
    shared = next((one for one in launchers if sum(one is other for other in launchers) > 1), None)
    if shared is not None:
        raise UsageError(
            f"Two of the studies have the same {type(shared).__name__} as backend, which serves one run at a time: "
            f"give each one of its own, or backend={shared.name!r}."
        )


def require_no_inline(study: Study) -> None:
    """Refuse a study that trains in the calling thread.

    Raises:
        UsageError: it does.
    """
    backend = backend_of(study)
    if is_in_threads(backend):
        raise UsageError(
            f"{study.name!r} has backend='threads', whose trials train in this process and not on workers that studies "
            "share: run it by itself, by study.run(), or use backend='processes'."
        )
    if (backend if isinstance(backend, str) else backend.name) == "inline":
        raise UsageError(
            f"{study.name!r} has backend='inline', which trains in the calling thread, where only one study can: "
            "use backend='processes'."
        )
