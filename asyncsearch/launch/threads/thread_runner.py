"""The runner of an agent whose trials train in threads of this process: one thread a training.

Pseudocode of a stop::

    told, and its Spark jobs are cancelled, again and again
    after stop_grace_s    TrialStopped is raised in its thread
    after kill_grace_s    its thread is left to itself, since no thread can be killed: it can say and report nothing
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Sequence

from asyncsearch.actions import StopTraining
from asyncsearch.agent.agent import Mailbox
from asyncsearch.agent.config import DriverStream, WorkerConfig
from asyncsearch.agent.lane_run import LaneRun
from asyncsearch.agent.log_lines import LineReader
from asyncsearch.agent.outputs import MAX_BACKLOG
from asyncsearch.agent.runner_deaths import Death, OomKills
from asyncsearch.agent.runner_process import READ, DescriptorSelector
from asyncsearch.errors import UsageError, in_a_line
from asyncsearch.events import Outcome
from asyncsearch.ids import worker_name
from asyncsearch.launch.threads.held import held
from asyncsearch.launch.threads.jobs import find_jobs
from asyncsearch.launch.threads.trial_thread import FromThread, Over, Printed, TrialThread
from asyncsearch.launch.trial_jobs import JobNames
from asyncsearch.old_pickles import loads
from asyncsearch.rpc.messages import LogLines
from asyncsearch.runner.failures import exception_text, kind_of
from asyncsearch.runner.protocol import Ended, FromRunner, Join, RunnerReady, ToRunner, Train, TrainPack
from asyncsearch.trainable import TrainFunction, as_function

_log = logging.getLogger(__name__)

_CHOKED_S = 0.02
"""Time that reports wait in the thread before the next check of the driver's backlog."""


class ThreadRunner:
    """The present thread, if there is one, and its lines: an ``AgentRunner``."""

    can_take_more = False  # one thread trains one trial
    may_copy = False  # the state of a training may be anywhere, even on a cluster
    loads_beside = False

    def __init__(
        self, config: WorkerConfig, watch: DescriptorSelector, stream: DriverStream, *, exited: object = None
    ) -> None:
        """Prepare; the arguments are those of ``RunnerSupervisor``, and no process is there to exit."""
        self.restarts = True
        self._config, self._watch, self._stream = config, watch, stream
        self._received: Callable[[FromRunner], None] = lambda message: None
        self._died: Callable[[Death], None] = lambda death: None
        self._mail: Mailbox[tuple[TrialThread, FromThread]] = Mailbox()
        self._trainable: TrainFunction | Ended | None = None
        self._thread: TrialThread | None = None
        self._run: LaneRun | None = None
        self._lines = _Lines(stream, config)
        self._leave_at: float | None = None
        """When to leave a thread whose lease was refused, monotonic seconds."""
        self._is_choked = False
        watch.set(self._mail, READ, self._on_mail)

    def connect(self, received: Callable[[FromRunner], None], died: Callable[[Death], None]) -> None:
        self._received, self._died = received, died

    def start(self) -> None:
        if self._trainable is None:
            self._trainable = _load(self._config.bundle)
            self._received(RunnerReady())

    def begin(self, runs: Sequence[LaneRun], message: Train | TrainPack) -> bool:
        if not isinstance(message, Train):
            raise UsageError("backend='threads' trains each trial alone, and this study packs them: leave out pack=.")
        self.start()
        assert self._trainable is not None
        (self._run,) = runs
        jobs = find_jobs()
        self._thread = TrialThread(self._config, self._trainable, jobs, self._names(self._run), self._put)
        self._thread.channel.hold(is_held=self._is_choked)
        self._thread.start(message)
        return True

    def _names(self, run: LaneRun) -> JobNames:
        study = "".join([one if one.isalnum() or one in "-_." else "-" for one in self._config.study])
        worker = worker_name(self._config.worker)
        tag = f"asyncsearch-{study}-{run.trial}-{run.attempt}-{secrets.token_hex(4)}".replace(" ", "-")
        return JobNames(tag, f"asyncsearch-{worker}".replace(" ", "-"), f"{self._config.study}: {run.trial}")

    def _put(self, thread: TrialThread, item: FromThread) -> None:
        self._mail.put((thread, item))

    def join(self, run: LaneRun, message: Join) -> None:
        raise UsageError("backend='threads' trains each trial alone: leave out pack=.")

    def tell(self, message: ToRunner) -> None:
        if self._thread is not None:
            self._thread.channel.tell(message)

    def stop(self, run: LaneRun, reason: str) -> None:
        run.escalate_at = time.monotonic() + self._config.stop_grace_s
        self.tell(StopTraining(run.lease, reason, run.number))
        if self._thread is not None:
            self._thread.cancel_jobs()

    def is_inside(self, package: str) -> bool:
        """Return whether the training is in code of a package now; any thread may call this."""
        thread = self._thread
        return thread is not None and thread.is_inside(package)

    def kill(self) -> None:
        """Interrupt the training at once, and leave its thread if that does not end it."""
        if self._thread is not None and self._run is not None:
            self.tell(StopTraining(self._run.lease, "it is to end at once", self._run.number))
            self._thread.cancel_jobs()
            self._thread.interrupt()
            self._leave_at = time.monotonic() + self._config.kill_grace_s

    def lane_ended(self, run: LaneRun) -> None:
        if run is self._run:
            self._lines.send(run, time.monotonic(), is_last=True)
            self._run, self._leave_at = None, None
            if self._thread is not None:
                self._thread.ended()
                self._thread = None

    def on_exit(self, runner: object) -> None:
        """Do nothing: there is no process."""

    def look_at_memory(self) -> None:
        """Do nothing: what the kernel kills for want of memory is this process, with all its trials."""

    @property
    def due(self) -> float | None:
        escalate_at = None if self._run is None else self._run.escalate_at
        choked = time.monotonic() + _CHOKED_S if self._is_choked and self._thread is not None else None
        return min(
            (due for due in (self._lines.due, escalate_at, self._leave_at, choked) if due is not None), default=None
        )

    def tick(self, now: float) -> None:
        run, thread = self._run, self._thread
        if run is None or thread is None:
            return
        if self._lines.due is not None and now >= self._lines.due:
            self._lines.send(run, now)
        if self._is_choked != (self._stream.backlog > MAX_BACKLOG):
            self._is_choked = not self._is_choked
            thread.channel.hold(is_held=self._is_choked)
        if run.escalate_at is not None and now >= run.escalate_at:
            if run.is_terminated:
                self._leave(thread, run)
            else:
                run.is_terminated, run.escalate_at = True, now + self._config.kill_grace_s
                thread.interrupt()
        elif self._leave_at is not None and now >= self._leave_at:
            self._leave(thread, run)

    def _leave(self, thread: TrialThread, run: LaneRun) -> None:
        """Go on without a thread that does not end."""
        run.escalate_at = None
        position = thread.leave(0.0) or "its end"
        reason = run.stop_reason or "its lease was refused"
        words = f"It did not heed its stop ({reason}). {_left_at(position)}"
        _log.warning("%s: %s", run.trial, words)
        self._died(Death(0, 0, OomKills(), False, left=words))

    def close(self) -> None:
        """End the thread, and say where it stands if it does not end."""
        thread, run, self._thread, self._run = self._thread, self._run, None, None
        if thread is not None:
            position = thread.leave(self._config.kill_grace_s)
            if position and run is not None:
                _log.warning("%s: It does not end. %s", run.trial, _left_at(position))
        self._watch.forget(self._mail)
        self._mail.close()

    def _on_mail(self, _mask: int) -> None:
        for thread, item in self._mail.take():
            if isinstance(item, Printed):
                thread.unread.read(item.text)
            if thread is not self._thread or self._run is None:
                continue  # it was left
            match item:
                case Printed():
                    self._lines.add(self._run, item)
                case Over():
                    self._died(Death(0, 0, OomKills(), False, left="Its thread has ended without a word."))
                case _:
                    if isinstance(item, Ended):
                        self._lines.end(self._run)
                    self._received(item)


class _Lines:
    """The lines that a training prints, on their way to the driver."""

    def __init__(self, stream: DriverStream, config: WorkerConfig) -> None:
        self._stream, self._config = stream, config
        self._readers = self._new()
        self.due: float | None = None
        """When to send lines, monotonic seconds. None if no lines wait."""

    def add(self, run: LaneRun, printed: Printed) -> None:
        """Add a text."""
        lines, _ = self._readers[printed.is_stderr].feed(printed.text.encode("utf-8", "backslashreplace"))
        self._keep(run, lines, printed.is_stderr, printed.time_s)

    def end(self, run: LaneRun) -> None:
        """Add the last lines, which may have no newline."""
        for is_stderr, reader in enumerate(self._readers):
            self._keep(run, reader.end(), bool(is_stderr), time.time())
        self._readers = self._new()

    def send(self, run: LaneRun, now: float, *, is_last: bool = False) -> None:
        """Send the lines that may be sent at ``now``."""
        self.due = None
        if run.is_refused or run.log.is_empty:
            return
        if self._stream.backlog > MAX_BACKLOG and not is_last:
            self.due = now + self._config.log.flush_s
            return
        lines, left_out = run.log.take(now)
        self._stream.send(LogLines(run.lease, lines, left_out, run.number))

    def _new(self) -> tuple[LineReader, LineReader]:
        # Their marker is never written: the end of a training is a message in the same mailbox.
        marker = secrets.token_bytes(16).replace(b"\n", b"-") + b"\n"
        most = 8 * self._config.log.line_chars
        return LineReader(marker, most), LineReader(marker, most)

    def _keep(self, run: LaneRun, lines: list[bytes], is_stderr: bool, time_s: float) -> None:
        if lines:
            run.log.add(lines, is_stderr, time_s)
            if self.due is None:
                self.due = time.monotonic() + self._config.log.flush_s


def _left_at(position: str) -> str:
    return (
        f"Its thread stands at {position}, and no thread can be killed: it goes on in this process until it comes back "
        "from there, and can report nothing."
    )


def _load(bundle: bytes) -> TrainFunction | Ended:
    """Return the trainable that this process holds, or the one of the bytes."""
    try:
        trainable = held(bundle)
        return as_function(loads(bundle) if trainable is None else trainable)
    except BaseException as error:
        text = f"{exception_text(error)}\nThe trainable could not be loaded: {in_a_line(error)}"
        return Ended(Outcome.FAILED, 0, text, kind_of(error))
