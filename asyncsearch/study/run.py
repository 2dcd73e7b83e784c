"""One run of a search: shown while it goes on, and ended in order whatever happens.

The calling thread only shows things and waits, so that Ctrl-C is heeded at once. Nothing is raised in it meanwhile
(``driver/interrupts.py``), and its parts are put together and taken apart in another thread, so that nothing can break
that.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

from asyncsearch.actions import EndRun
from asyncsearch.driver.interrupts import GRACE_S, Interrupts, interruption, interrupts_to
from asyncsearch.driver.threads import Wakeup
from asyncsearch.errors import InternalError
from asyncsearch.events import StopRequested
from asyncsearch.journal.opening import read_records
from asyncsearch.journal.projection import last_metrics
from asyncsearch.launch.base_launcher import Launcher
from asyncsearch.report.live.display import Display
from asyncsearch.report.live.status import StudyStatus
from asyncsearch.study.run_parts import RunParts, Search

T = TypeVar("T")


@contextlib.contextmanager
def begun(function: Callable[[], T], name: str) -> Iterator[Future[T]]:
    """Call a function in a thread of this name, which has ended at the end of the ``with``.

    Yields:
        The future of its result: ``result()`` waits, and raises what it raised.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield future
    finally:
        thread.join()


def in_another_thread(
    function: Callable[[], T], meanwhile: Callable[[], object] = lambda: None, every_s: float | None = None
) -> T:
    """Call a function in another thread and return what it returns; wait for it whatever is raised in this one.

    Args:
        meanwhile: called in this thread every ``every_s`` seconds while it waits; None means never.
    """
    done = Wakeup()
    results: list[T] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    try:
        threading.Thread(target=call, name="asyncsearch-run", daemon=True).start()
    except RuntimeError:  # the machine has no thread to spare
        call()
    raised: BaseException | None = None
    while not done.is_set():
        try:
            if not done.wait(every_s):
                meanwhile()
        except BaseException as error:  # of a signal's handler that is the user's own
            raised = error
    done.close()
    if raised is not None or errors:
        raise raised or errors[0]
    return results[0]


_REFRESH_S = 0.5


def run_search(search: Search, display: Display, interrupts: Interrupts | None = None) -> EndRun:
    """Run a search to its end, and return how it ended.

    Args:
        search: what it needs.
        display: shows it; called from the calling thread only.
        interrupts: by which another thread may interrupt it, as Ctrl-C does in the main thread.

    Raises:
        KeyboardInterrupt: the calling thread was interrupted; the results are kept and nothing runs any more.
        Exception: what broke the driver, such as a ``StoreError``.
    """
    interrupts = interrupts or Interrupts()
    with interrupts_to(interrupts.add):
        end = _conduct(search, display, interrupts)
    if interrupts.count:
        raise interruption()
    if end is None:
        raise InternalError("The run ended without an outcome. Please report this with the study's journal.")
    return end


def _know_metrics(search: Search, display: Display) -> None:
    """Take the metrics besides the study's from the journal, as far as the state has not seen them reported."""
    state = search.state
    if display.is_shown and state.trials and state.metric_names - {state.config.metric}:
        state.latest.fill(last_metrics(read_records(search.store)))


def _conduct(search: Search, display: Display, interrupts: Interrupts) -> EndRun | None:
    _know_metrics(search, display)
    run = in_another_thread(lambda: RunParts(search))
    interrupts.wakeups = (run.news, run.over)
    try:
        if search.launcher.transport is None:
            _watch(run, display, interrupts)
        else:
            _train_here(run, search.launcher, display, interrupts)
    except BaseException:
        run.driver.post(StopRequested("what waited for it was broken off"))
        run.driver.give_up_after(0.0)
        raise
    finally:
        interrupts.wakeups = ()
        in_another_thread(run.finish, lambda: _show_end(run, display), _REFRESH_S)
    if run.unshown is None:
        if search.state.latest.unsure:
            _know_metrics(search, display)
        _show_lines(run, display)
        _show_status(run, display, run.status(search.state))
    if run.driver.failure is not None:
        raise run.driver.failure
    if run.driver.answers_failure is not None:
        raise run.driver.answers_failure
    if run.unshown is not None:
        raise run.unshown
    return run.driver.outcome


def _watch(run: RunParts, display: Display, interrupts: Interrupts) -> None:
    """Show the run until it ends."""
    while not run.driver.ended.is_set():
        if interrupts.notify(run.driver):
            run.over.clear()
        run.news.wait()
        run.news.clear()
        _show(run, display)
        run.over.wait(_REFRESH_S)


def _train_here(run: RunParts, launcher: Launcher, display: Display, interrupts: Interrupts) -> None:
    """Train in this thread until the run ends, and show it between reports."""
    shown_s = 0.0

    def tick() -> None:
        nonlocal shown_s
        if run.driver.notices or time.monotonic() - shown_s >= _REFRESH_S:
            shown_s = time.monotonic()
            _show(run, display)

    while not run.driver.ended.is_set():
        interrupts.notify(run.driver)
        interrupts.interruptible(lambda: launcher.train_here(run.driver.receive, run.driver.ended.is_set, tick))


def _show(run: RunParts, display: Display) -> None:
    """Show the status that came, and ask for the next one; what cannot be shown is to end in order."""
    if run.unshown is not None:
        return
    try:
        _show_lines(run, display)
        if run.statuses:
            _show_status(run, display, run.statuses.pop())
        elif time.monotonic() >= run.status_due_s:
            run.request_status()
    except Exception as error:
        run.unshown = error
        run.driver.post(StopRequested(f"it could not be shown: {type(error).__name__}: {error}"))
        run.driver.give_up_after(GRACE_S)


def _show_end(run: RunParts, display: Display) -> None:
    """Show the sentences of the end of a run: its logs may take a while. An error is raised behind the end."""
    if run.unshown is None:
        _show_lines(run, display)


def _show_status(run: RunParts, display: Display, status: StudyStatus) -> None:
    display.update(status)
    if status.beyond_quota and not run.is_quota_shown:
        run.is_quota_shown = True
        display.warn([status.beyond_quota])


def _show_lines(run: RunParts, display: Display) -> None:
    lines = []
    while run.driver.logs.shown:
        lines.append(run.driver.logs.shown.popleft())
    if lines:
        display.log_lines(lines)
    while run.driver.notices:
        display.warn([run.driver.notices.popleft()])
