"""Several studies side by side in one process, each with a driver and workers of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from asyncsearch.arguments import answering, positive, seconds_of
from asyncsearch.driver.interrupts import Interrupts, interruption, interrupts_to
from asyncsearch.driver.wakeup import Wakeup
from asyncsearch.errors import NotEnoughSlotsError, UsageError
from asyncsearch.launch import chosen
from asyncsearch.launch.base_launcher import Launcher, Preflight
from asyncsearch.report.live.display import Display, say
from asyncsearch.report.live.status import StudyStatus
from asyncsearch.report.live.table import continue_command, continue_line, short_line
from asyncsearch.rpc.messages import LogLine
from asyncsearch.study.first_calls import IN_RUN
from asyncsearch.study.script_runs import note_run
from asyncsearch.study.study import Study, backend_of, require_end, run_shown

DISPLAYS = ("auto", "plain", "none")
_EVERY_S = 5.0


@answering("run_together", "run_together([study, another], num_trials=64, parallelism=8)", instead=IN_RUN)
def run_together(
    studies: Sequence[Study],
    *,
    num_trials: int | Sequence[int | None] | None = None,
    parallelism: int | None = None,
    timeout: float | timedelta | None = None,
    display: str = "auto",
) -> list[Study]:
    """Run several studies side by side until each has ended; one that fails does not stop the others.

    Studies of one ``version`` train once what they have in common, as docs/sharing.md says.

    Args:
        studies: at least one, each with a store of its own.
        num_trials: of each study, as in ``Study.run``: one number, or a list with one for each.
        parallelism: workers of all studies together, shared out evenly, at least one each; None: as many as the
            cluster has slots. A cluster of fewer slots than studies is refused; on this machine they share its cores.
        timeout: seconds after which the runs end, with what they have by then.
        display: ``"auto"`` or ``"plain"``: lines, which name their study; or ``"none"``.

    Returns:
        The studies.

    Raises:
        UsageError: they cannot run side by side.
        AsyncSearchError: one of them failed; the others came to their end before this is raised.
        KeyboardInterrupt: it was interrupted; all results are kept, and each study goes on where it stopped.
    """
    _require_runnable(studies, display)
    totals = _totals(num_trials, studies)
    timeout_s = None if timeout is None else seconds_of("timeout", timeout)
    total = parallelism if parallelism is None else positive("parallelism", parallelism)
    note_run(studies[0], totals[0], total)
    with chosen(backend_of(studies[0]), study=studies[0].name) as first:
        preflight = _look(first, total, len(studies))
        workers, more = divmod(preflight.parallelism, len(studies))
        wakeup = Wakeup()
        sides = [
            _Side(study, totals[number], workers + (number < more), wakeup, shown=preflight.warnings)
            for number, study in enumerate(studies)
        ]
        if display != "none":
            say("\n".join(f"note: {sentence}" for sentence in preflight.warnings))
        options = {"timeout_s": timeout_s, "cpu_threads": preflight.cpu_threads}
        _run_sides(first, sides, wakeup, options, is_shown=display != "none")
        wakeup.close()
    if any(side.interrupts.count for side in sides):
        raise interruption()
    failed = [(side, side.error) for side in sides if side.error is not None]
    for side, error in failed:
        error.add_note(f"This happened in the study {side.study.name!r}, one of {len(studies)} run together.")
    if failed:
        raise failed[0][1]
    return list(studies)


def _look(launcher: Launcher, parallelism: int | None, studies: int) -> Preflight:
    """Return what the cluster has for all studies, of which each needs a worker.

    Raises:
        ClusterError: the workers cannot run, or there are fewer slots than studies.
    """
    preflight = launcher.check(parallelism)
    if preflight.parallelism >= studies:
        return preflight
    try:
        return launcher.check(studies)
    except NotEnoughSlotsError as error:
        raise NotEnoughSlotsError(
            f"{studies} studies side by side need a worker each, and the cluster has not as many slots: run at most "
            f"{preflight.parallelism} of them at a time, or give it more."
        ) from error


def _run_sides(
    launcher: Launcher, sides: Sequence[_Side], wakeup: Wakeup, options: Mapping[str, Any], *, is_shown: bool
) -> None:
    """Return when all have ended; Ctrl-C, and an exception, are handed to each."""

    def interrupt() -> None:
        for side in sides:
            side.interrupts.add()

    with interrupts_to(interrupt):
        try:
            for side in sides:
                side.start(launcher, options)
            _watch(sides, wakeup, is_shown=is_shown)
        except BaseException:
            interrupt()
            _watch(sides, wakeup, is_shown=False)
            raise


class _Side(Display):
    """One of the studies: its thread, and what there is to show of it."""

    def __init__(
        self, study: Study, num_trials: int | None, workers: int, wakeup: Wakeup, *, shown: Sequence[str]
    ) -> None:
        """Begin nothing yet; ``shown`` are the notes that hold for all studies, and are not shown for each again."""
        self.study = study
        self.interrupts = Interrupts()
        self.error: BaseException | None = None
        self.is_running = False
        self._num_trials = num_trials
        self._workers, self._wakeup, self._shown = workers, wakeup, shown
        self._notes: deque[str] = deque()
        self._statuses: deque[StudyStatus] = deque(maxlen=1)

    def start(self, launcher: Launcher, options: Mapping[str, Any]) -> None:
        """Run the study in a thread of its own, which the launcher makes; ``options`` are those of ``run_shown``."""

        def run() -> None:
            try:
                given = {"num_trials": self._num_trials, "parallelism": self._workers, **options}
                run_shown(self.study, display=self, interrupts=self.interrupts, **given)
            except BaseException as error:
                self.error = error
            finally:
                self.is_running = False
                self._wakeup.set()

        self.is_running = True
        try:
            launcher.thread(run, f"asyncsearch-{self.study.name}").start()
        except Exception as error:  # the machine has no thread to spare, or Spark is gone
            self.is_running, self.error = False, error

    def lines(self) -> list[str]:
        """Return what to print of it now; called in the main thread."""
        found = [self._notes.popleft() for _ in range(len(self._notes))]
        if self._statuses:
            found.append(f"{self.study.name}: {short_line(self._statuses.pop())}")
        return found

    def begin(self, sentence: str) -> None:
        self._notes.append(sentence)

    def warn(self, sentences: Sequence[str]) -> None:
        self._notes.extend(
            f"{self.study.name}: note: {sentence}" for sentence in sentences if sentence not in self._shown
        )

    def update(self, status: StudyStatus) -> None:
        if status.trials:
            self._statuses.append(status)
        if status.is_unfinished:
            self._notes.append(f"{self.study.name}: {continue_line(status)}\n    {continue_command(status)}")

    def log_lines(self, lines: Sequence[tuple[str, LogLine]]) -> None:
        """Lines of several studies at once are for their logs."""

    def close(self) -> None:
        """The last line stays."""


def _watch(sides: Sequence[_Side], wakeup: Wakeup, *, is_shown: bool) -> None:
    """Show the studies until all have ended."""
    while any(side.is_running for side in sides):
        wakeup.wait(_EVERY_S)
        wakeup.clear()
        _show(sides, is_shown)
    _show(sides, is_shown)


def _show(sides: Sequence[_Side], is_shown: bool) -> None:
    for side in sides:
        for line in side.lines():
            if is_shown:
                say(line)


def _totals(num_trials: object, studies: Sequence[Study]) -> list[int | None]:
    """Return how many trials each study is to have; None: as many as its searcher proposes.

    Raises:
        UsageError: a number is invalid, their count is another one than that of the studies, or a search has no end.
    """
    many = isinstance(num_trials, Sequence) and not isinstance(num_trials, str)
    totals = list(num_trials) if many else [num_trials] * len(studies)  # type: ignore[call-overload]
    if len(totals) != len(studies):
        some = ", ".join(["64"] * len(studies))
        raise UsageError(
            f"num_trials={num_trials!r} has {len(totals)} numbers for {len(studies)} studies: write one for each, "
            f"num_trials=[{some}], or one number for all, num_trials=64."
        )
    found = [None if total is None else positive("num_trials", total) for total in totals]
    for study, total in zip(studies, found, strict=True):
        require_end(study, total)
    return found


def _require_runnable(studies: Sequence[Study], display: str) -> None:
    if isinstance(studies, Study):
        raise UsageError(f"run_together({studies.name!r}) got one study: write run_together([study, another]).")
    if not studies or not all(isinstance(study, Study) for study in studies):
        raise UsageError(f"run_together({studies!r}): name the studies, run_together([study, another]).")
    if display not in DISPLAYS:
        raise UsageError(f"display={display!r} is unknown here. Use one of {', '.join(map(repr, DISPLAYS))}.")
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
    for study, backend in zip(studies, backends, strict=True):
        if (backend if isinstance(backend, str) else backend.name) == "inline":
            raise UsageError(
                f"{study.name!r} has backend='inline', which trains in the calling thread, where only one study can: "
                "use backend='processes'."
            )
