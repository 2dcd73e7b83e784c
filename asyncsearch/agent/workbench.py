"""A worker's bench: what the driver requests about work, one lease at a time, whatever runs the user's code.

``training_lanes`` has the life of the lanes, ``runner_messages`` what is learned of them, and ``worker_checkpoints``
what is fetched and stored.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from asyncsearch.actions import AddLane, Assign, CutWork, ExtendWork, SaveAt, StopTraining, extended
from asyncsearch.agent.config import WorkerConfig
from asyncsearch.agent.lane_run import RunnerHandle, all_stopped
from asyncsearch.agent.runner_messages import RunnerMessages
from asyncsearch.agent.training_lanes import TrainingLanes
from asyncsearch.agent.transfers import TaskQueue, Transferred
from asyncsearch.agent.trial_folders import TrialFolders
from asyncsearch.agent.worker_checkpoints import WorkerCheckpoints
from asyncsearch.events import Outcome
from asyncsearch.ids import Lease
from asyncsearch.rpc.messages import DriverMessage, GangNote, Judged, Refused, TrialAnswer, WorkerMessage
from asyncsearch.runner.protocol import Amendment, Answered, LaneAnswer, Note


class Workbench:
    """Trains the driver's assignments one after the other; the lanes of one are given to the runner together."""

    def __init__(
        self,
        config: WorkerConfig,
        runner: RunnerHandle,
        send: Callable[[WorkerMessage], None],
        post: Callable[[Transferred], None],
        tasks: TaskQueue | None = None,
    ) -> None:
        """Prepare.

        Args:
            config: of the worker.
            runner: executes the user's code.
            send: sends a message to the driver.
            post: passes its argument to ``lanes.on_transfer``; called from the thread of each transfer.
            tasks: runs the transfers. None for threads of their own.
        """
        self._runner = runner
        folders = TrialFolders(config.dirs, config.dir_bytes)
        self.checkpoints = WorkerCheckpoints(
            config.store, send, post, runner.tell, folders, tasks, is_alone=not config.is_shared
        )
        self.lanes = TrainingLanes(config, runner, self.checkpoints, send)
        self._queue = self.lanes.queue
        self.messages = RunnerMessages(self.lanes, runner, self.checkpoints, send)
        self._is_dismissed = False

    def close(self) -> None:
        """End the transfers' threads; the runner is dead."""
        self._is_dismissed = True
        self.checkpoints.wait_no_longer(self._queue.living)
        self.checkpoints.close()

    @property
    def is_done(self) -> bool:
        """Whether nothing is being trained or committed."""
        return not (self._queue.living or self.checkpoints.committing)

    def obey(self, message: DriverMessage) -> None:
        """Carry out a request about work; all others are the worker's own."""
        match message:
            case Assign(work=work):
                if not self._is_dismissed:
                    self._queue.take(work)
                    self.lanes.go_on()
            case AddLane():
                if not self._is_dismissed:
                    self._add(message)
            case StopTraining():
                self.stop(message)
            case SaveAt() | CutWork() | ExtendWork():
                self._amend(message)
            case Judged():
                self._pass_answer(message)
            case TrialAnswer():
                self._pass_on(message)
            case GangNote():
                self._pass_note(message)
            case Refused(lease=lease):
                self.refuse(lease)
            case _:
                pass

    def _add(self, action: AddLane) -> None:
        """Train one more lane of work, with its other lanes if they still train."""
        run = self._queue.add(action)
        if run in self._queue.current:
            self.checkpoints.fetch(run)
        self.lanes.go_on()

    def stop(self, stop: StopTraining) -> None:
        """Stop a lane, and wait for the store no longer on its behalf, even if it has ended."""
        key = (stop.lease, stop.lane)
        self.checkpoints.wait_no_longer(r for r in self.checkpoints.committing if (r.lease, r.number) == key)
        self.checkpoints.wait_no_longer(self.checkpoints.publishing)  # what is to be committed would wait behind it
        for run in self._queue.under(*key):
            self.lanes.stop(run, stop.reason)
        self.lanes.go_on()

    def interrupt(self, reason: str) -> None:
        """Stop the present work."""
        for run in list(self._queue.current):
            self.lanes.stop(run, reason)

    @property
    def is_interrupted(self) -> bool:
        """Whether there is present work, and all of it is to stop."""
        return bool(self._queue.current) and all_stopped(self._queue.current)

    def abandon(self) -> None:
        """End the present work as stopped: its runner was interrupted, and has dropped it."""
        for run in list(self._queue.current):
            self.lanes.finish(run, Outcome.STOPPED)
        self.lanes.go_on()

    def _amend(self, amendment: Amendment) -> None:
        """Change the work of a lane that has not ended."""
        for run in self._queue.under(amendment.lease, amendment.lane):
            if run.stop_reason is not None:
                continue
            if isinstance(amendment, ExtendWork):
                run.lane = msgspec.structs.replace(run.lane, stages=extended(run.lane.stages, amendment))
            if run.is_sent:
                self._runner.tell(amendment)
            else:
                run.amendments.append(amendment)

    def _pass_answer(self, answer: Judged) -> None:
        """Let a lane that awaits what is decided of it go on."""
        for run in self._queue.under(answer.lease, answer.lane):
            if run.is_sent and run.stop_reason is None:
                self._runner.tell(Answered(answer.resource, answer.lane, answer.next))

    def _pass_on(self, answer: TrialAnswer) -> None:
        """Give a lane the answer to its question, or what the driver tells it unasked."""
        for run in self._queue.under(answer.lease, answer.lane):
            passed = LaneAnswer(answer.number, answer.content, answer.has_more, answer.lane)
            if run.is_sent:
                self._runner.tell(passed)
            else:
                run.unasked.append(passed)

    def _pass_note(self, note: GangNote) -> None:
        """Pass on a value that another rank of a gang tells this one."""
        for run in [run for run in self._queue.living if run.lease == note.lease]:
            passed = Note(note.rank, note.key, note.value)
            if run.is_sent:
                self._runner.tell(passed)
            else:
                run.notes.append(passed)

    def refuse(self, lease: Lease | None) -> None:
        """Drop all work under a lease, or under any if it is None, and send no more events of it."""
        for run in {*self._queue.remembered, *self.checkpoints.committing}:
            run.is_refused |= lease in (None, run.lease)
            if run.is_refused:
                run.gives_up.set()
        for run in self._queue.living:
            if not run.is_refused:
                continue
            if run.is_sent:
                self._runner.kill()
            else:
                self.lanes.finish(run, Outcome.STOPPED)
        self.lanes.go_on()

    def dismiss(self, reason: str) -> None:
        """Stop all work, and accept no more."""
        self._is_dismissed = True
        self.checkpoints.wait_no_longer(self.checkpoints.committing)
        for run in self._queue.living:
            self.lanes.stop(run, reason)
