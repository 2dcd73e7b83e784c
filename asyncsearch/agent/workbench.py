"""The execution of a worker's work: one training at a time, and the stop of a training.

Pseudocode of a run's life::

    waiting -> current -> its checkpoint is here -> sent -> reports, saves ... -> ended, or its runner died -> told
                                                        stop requested: flag, SIGTERM, SIGKILL ---^

The driver gets its reports, output and saves before its end; commits may follow the end.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping

from asyncsearch import events
from asyncsearch.actions import AddLane, StopTraining
from asyncsearch.agent.config import WorkerConfig
from asyncsearch.agent.driver_stream import DriverStream
from asyncsearch.agent.gang_seats import seat_in
from asyncsearch.agent.io_selector import DescriptorSelector
from asyncsearch.agent.lane_run import LaneRun, signal_due
from asyncsearch.agent.runner_deaths import cause_of_death
from asyncsearch.agent.runner_process import RunnerProcess
from asyncsearch.agent.runner_supervisor import RunnerSupervisor
from asyncsearch.agent.transfers import Fetched, Transferred
from asyncsearch.agent.trial_folders import TrialFolders
from asyncsearch.agent.worker_checkpoints import WorkerCheckpoints
from asyncsearch.errors import ProtocolError
from asyncsearch.events import KILLED, MEMORY_KINDS, Outcome
from asyncsearch.ids import Lease
from asyncsearch.nonfinite import spell_all
from asyncsearch.rpc.messages import GangNote
from asyncsearch.runner.protocol import (
    Amendment,
    Ended,
    FolderWanted,
    FromRunner,
    LaneReported,
    Note,
    PackFindings,
    RunnerReady,
    Saved,
    Saving,
    ShardPlaceWanted,
    ShardWritten,
    UnitVolume,
)
from asyncsearch.work import Work

_REMEMBERED = 16
"""Number of ended runs kept to recognize a refusal or a repeated assignment."""


class Workbench:
    """Trains the driver's assignments one after the other; the lanes of one are given to the runner together."""

    def __init__(
        self,
        config: WorkerConfig,
        watch: DescriptorSelector,
        stream: DriverStream,
        post: Callable[[Transferred | RunnerProcess], None],
    ) -> None:
        """Prepare; any thread may call ``post``, which passes its argument to one of the ``on_`` methods."""
        self._config = config
        self._stream = stream
        self.runners = RunnerSupervisor(config, watch, stream, exited=post, received=self._on_message)
        folders = TrialFolders(config.dirs, config.dir_bytes)
        self.checkpoints = WorkerCheckpoints(
            config.store, stream.send, post, self.runners.tell, answer_shard=self.runners.tell, folders=folders
        )
        self._current: list[LaneRun] = []
        """The lanes of the present work that have not ended."""
        self._waiting: deque[list[LaneRun]] = deque()
        """Those of each later work."""
        self._known: deque[LaneRun] = deque(maxlen=_REMEMBERED)
        self._is_dismissed = False

    def close(self) -> None:
        """Kill the runner, and end the transfers' threads."""
        self._is_dismissed = True
        self.checkpoints.wait_no_longer(self._living())
        self.runners.close()
        self.checkpoints.close()

    @property
    def is_done(self) -> bool:
        """Whether nothing is being trained or committed."""
        return not self._living() and self.checkpoints.pending == 0

    # Requests of the driver

    def take(self, work: Work) -> None:
        """Train this work after the work before it. Work that is known already is ignored."""
        if self._is_dismissed or any(run.lease == work.lease for run in self._known):
            return
        runs = [LaneRun(work.lease, number, lane, self._config.log) for number, lane in enumerate(work.lanes)]
        for run in runs:
            run.measured = work.measured if isinstance(work.measured, tuple) else ()
            run.is_open = work.is_open is True
            run.seat = seat_in(work, self._config)
        self._known.extend(runs)
        self._waiting.append(runs)
        self._go_on()

    def add(self, action: AddLane) -> None:
        """Train one more lane of work, with its other lanes if they still train. One that is known is ignored."""
        if self._is_dismissed or any((run.lease, run.number) == (action.lease, action.lane) for run in self._known):
            return
        run = LaneRun(action.lease, action.lane, action.added, self._config.log)
        run.is_open = run.has_joined = True
        self._known.append(run)
        work = next((runs for runs in [self._current, *self._waiting] if runs and runs[0].lease == run.lease), None)
        if work is None:
            self._waiting.append([run])
        else:
            work.append(run)
        if work is self._current:
            self.checkpoints.fetch(run)
        self._go_on()

    def stop(self, stop: StopTraining) -> None:
        """Stop a lane, and wait for the store no longer on its behalf, even if it has ended."""
        key = (stop.lease, stop.lane)
        self.checkpoints.wait_no_longer(r for r in self.checkpoints.committing if (r.lease, r.number) == key)
        self.checkpoints.wait_no_longer(self.checkpoints.publishing)  # what is to be committed would wait behind it
        for run in self._living():
            if (run.lease, run.number) == key:
                self._stop(run, stop.reason)
        self._go_on()

    def amend(self, amendment: Amendment) -> None:
        """Change the work of a lane that has not ended."""
        for run in self._living():
            if (run.lease, run.number) != (amendment.lease, amendment.lane) or run.stop_reason is not None:
                continue
            if run.is_sent:
                self.runners.tell(amendment)
            else:
                run.amendments.append(amendment)

    def pass_note(self, note: GangNote) -> None:
        """Pass on what another rank of a gang tells this one."""
        for run in [run for run in self._living() if run.lease == note.lease]:
            passed = Note(note.rank, note.key, note.value)
            if run.is_sent:
                self.runners.tell(passed)
            else:
                run.notes.append(passed)

    def refuse(self, lease: Lease) -> None:
        """Drop all work under a lease, and send no more events of it."""
        for run in {*self._known, *self._living(), *self.checkpoints.committing}:
            run.is_refused |= run.lease == lease
            if run.is_refused:
                run.gives_up.set()
        for run in self._living():
            if not run.is_refused:
                continue
            if run.is_sent:
                self.runners.kill()
            else:
                self._finish(run, Outcome.STOPPED)
        self._go_on()

    def dismiss(self, reason: str) -> None:
        """Stop all work, and accept no more."""
        self._is_dismissed = True
        self.checkpoints.wait_no_longer(self.checkpoints.committing)
        for run in self._living():
            self._stop(run, reason)

    # Events of this machine

    def on_fetched(self, fetched: Fetched) -> None:
        """Start the run that waited for its checkpoint, unless it was stopped meanwhile."""
        if fetched.run not in self._current:
            return
        if fetched.path is None:
            self._finish(fetched.run, Outcome.FAILED, fetched.error, "checkpoint")
        fetched.run.load = fetched.path
        self._go_on()

    def on_exit(self, runner: RunnerProcess) -> None:
        """Clean up after a dead runner, and start the next one."""
        if runner is not self.runners.runner:
            return
        returncode = self.runners.drain(runner)
        for run in list(self._current):
            if run.is_sent:
                self._finish_by_death(run, runner, returncode)
        # A runner that dies while it loads the trainable would die repeatedly; only the next work retries.
        if runner.is_ready and not self._is_dismissed:
            self.runners.start()
        self._go_on()

    def look_at_memory(self) -> None:
        """Note what the kernel has killed so far, for the message if the training's process is killed."""
        if self.runners.runner is not None and self._current:
            self.runners.runner.oom.look()

    def next_due(self) -> float:
        """Return the time of the next due action of ``tick``, in monotonic seconds."""
        all_due = (self.runners.due, self._escalate_at(), self.checkpoints.due, math.inf)
        return min(due for due in all_due if due is not None)

    def tick(self, now: float) -> None:
        """Do all due actions."""
        self.checkpoints.tick(now)
        if (due := self._escalate_at()) is not None and now >= due:
            self._escalate(now)
        self.runners.tick(now)

    # The life of a run

    def _go_on(self) -> None:
        """Start what can start. The lanes of new work wait until the checkpoints of all are here, but for no joiner."""
        if not self._current and self._waiting:
            self._current = self._waiting.popleft()
            for run in list(self._current):
                self.checkpoints.fetch(run)
        ready = [run for run in self._current if run.can_start]
        if sent := self._sent():
            for run in ready if self.runners.can_take_more and not _all_stopped(sent) else ():
                self.runners.join(run, sent)
                sent.append(run)
        elif ready and all(run.can_start for run in self._current if not run.has_joined):
            self.runners.begin(ready)

    def _sent(self) -> list[LaneRun]:
        """Return the lanes that the runner trains."""
        return [run for run in self._current if run.is_sent]

    def _stop(self, run: LaneRun, reason: str) -> None:
        if run.stop_reason is not None:
            return
        run.stop_reason = reason
        run.gives_up.set()
        if not run.is_sent:
            self._finish(run, Outcome.STOPPED)
            return
        self.checkpoints.give_up(run)
        run.escalate_at = time.monotonic() + self._config.stop_grace_s
        self.runners.tell(StopTraining(run.lease, reason, run.number))

    def _escalate_at(self) -> float | None:
        """Return when the runner is to be signalled; None: never, as while it trains a lane that may go on."""
        sent = self._sent()
        return signal_due(sent) if _all_stopped(sent) else None

    def _escalate(self, now: float) -> None:
        """Signal a runner whose lanes were all told to stop and have not."""
        runner, sent = self.runners.runner, self._sent()
        if runner is None:
            return
        is_terminated = any(run.is_terminated for run in sent)
        for run in sent:
            run.escalate_at = None if is_terminated else now + self._config.kill_grace_s
            run.is_killed, run.is_terminated = is_terminated, True
        if is_terminated:
            runner.kill()
        else:
            runner.terminate()

    def _finish_by_death(self, run: LaneRun, runner: RunnerProcess, returncode: int) -> None:
        if run.is_killed:
            text = (
                f"It did not heed its stop ({run.stop_reason}) within {self._config.stop_grace_s:g} s, nor SIGTERM "
                f"within {self._config.kill_grace_s:g} s more, and was killed."
            )
            self._finish(run, Outcome.STOPPED, text, "unheeded_stop")
        elif run.stop_reason is not None:
            self._finish(run, Outcome.STOPPED)
        elif runner.is_overdue:
            text = "The trial's process cut itself off: does it close, or write to, descriptors that it did not open?"
            self._finish(run, Outcome.FAILED, text, KILLED if run.is_packed else "exit")
        else:
            kind, text = cause_of_death(returncode, runner.peak_bytes, runner.oom.kills())
            if run.is_packed and kind not in MEMORY_KINDS:
                kind, text = KILLED, f"{text}\nThe process that it shared with other trainings ended."  # whose doing?
            self._finish(run, Outcome.FAILED, text, kind)

    def _finish(
        self,
        run: LaneRun,
        outcome: Outcome,
        error: str = "",
        error_kind: str = "",
        unreported: Mapping[str, float] = {},
    ) -> None:
        """Send all remaining events of a run, its end last."""
        if not run.is_sent:
            run.gives_up.set()  # a fetch is of no use any more
        if run in self._current:
            self._current.remove(run)
            self.checkpoints.give_up(run)
            if self._current:
                self.runners.outputs.pass_on(run, (self._sent() or self._current)[0])
            else:
                self.runners.outputs.end()
        else:
            self._drop(run)
        self.checkpoints.forget(run)
        for event in run.end(outcome, error, error_kind, unreported):
            self._stream.send(event)

    def _drop(self, run: LaneRun) -> None:
        for runs in [runs for runs in self._waiting if run in runs]:
            runs.remove(run)
            if not runs:
                self._waiting.remove(runs)

    def _living(self) -> list[LaneRun]:
        return [*self._current, *(run for runs in self._waiting for run in runs)]

    # Messages of the runner

    def _on_message(self, runner: RunnerProcess, message: FromRunner) -> None:
        if isinstance(message, RunnerReady):
            runner.is_ready = True
            return
        if isinstance(message, PackFindings):
            self._on_pack_measured(message)
            return
        if isinstance(message, Note):
            self._on_note(message)
            return
        run = next((run for run in self._current if run.is_sent and run.number == message.lane), None)
        if run is None:
            return  # it was dropped
        if isinstance(message, LaneReported):
            self._on_reported(run, runner, message)
        elif isinstance(message, UnitVolume):
            volume = message.steps, message.gradient_bytes, message.device
            self._stream.send(events.VolumeMeasured(run.lease, *volume))
        elif isinstance(message, Ended):
            self._on_ended(run, runner, message)
        else:
            self._on_saving(run, message)

    def _on_saving(self, run: LaneRun, message: Saving) -> None:
        if isinstance(message, FolderWanted):
            if run.stop_reason is None:
                self.checkpoints.want(run, message)
        elif isinstance(message, ShardPlaceWanted):
            self.checkpoints.want_shard_place(run, message)
        elif isinstance(message, ShardWritten):
            self.checkpoints.add_shard(run, message)
        elif isinstance(message, Saved):
            self.checkpoints.saved(run, message)
        else:
            self.checkpoints.save_failed(run, message)

    def _on_reported(self, run: LaneRun, runner: RunnerProcess, reported: LaneReported) -> None:
        if run.is_refused:
            return
        metrics = spell_all(reported.metrics)
        try:
            self._stream.send(events.Reported(run.lease, reported.resource, metrics, run.number))
        except ProtocolError as error:
            runner.is_retired = True
            runner.kill()
            self._finish(run, Outcome.FAILED, f"A report cannot be sent: {error}", "bad_report")
        else:
            run.resource = max(run.resource, reported.resource)

    def _on_pack_measured(self, found: PackFindings) -> None:
        run = next((run for run in self._current if run.is_sent and not run.is_refused), None)
        if run is not None:
            self._stream.send(found.under(run.lease))

    def _on_note(self, note: Note) -> None:
        for run in [run for run in self._current if run.is_sent and not run.is_refused]:
            self._stream.send(GangNote(run.lease, note.rank, note.key, note.value))

    def _on_ended(self, run: LaneRun, runner: RunnerProcess, ended: Ended) -> None:
        if ended.is_last:
            self.runners.outputs.read_to_marker(runner)
        run.resource = max(run.resource, ended.resource)
        self._finish(run, ended.outcome, ended.error, ended.error_kind, ended.unreported)
        if ended.is_last and (sent := self._sent()):
            self.runners.outputs.begin(sent[0], runner)  # it was to join, and crossed the end of the others
        elif ended.is_last:
            self.runners.retire_if_worn(runner, run, ended)
        self._go_on()


def _all_stopped(runs: list[LaneRun]) -> bool:
    """Return whether all lanes of a process were told to stop: a signal would cost the others their training."""
    return all(run.stop_reason is not None for run in runs)
