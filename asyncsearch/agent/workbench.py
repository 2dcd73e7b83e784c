"""The execution of a worker's work: one lease at a time, and the stop of a training, whatever runs the user's code.

Pseudocode of a run's life::

    waiting -> current -> its checkpoint is here -> sent -> reports, saves ... -> ended, or its runner died -> told
                                                        stop requested: flag, SIGTERM, SIGKILL ---^

The driver gets its reports, output and saves before its end; commits may follow the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from asyncsearch import events
from asyncsearch.actions import AddLane, Assign, CutWork, ExtendWork, SaveAt, StopTraining, extended
from asyncsearch.agent.config import WorkerConfig
from asyncsearch.agent.lane_run import LaneRun, RunnerHandle, all_stopped
from asyncsearch.agent.runner_deaths import Death, charge
from asyncsearch.agent.tasks import TaskQueue
from asyncsearch.agent.transfers import Fetched, Transferred
from asyncsearch.agent.trial_folders import TrialFolders
from asyncsearch.agent.work_queue import WorkQueue
from asyncsearch.agent.work_start import WorkStart
from asyncsearch.agent.worker_checkpoints import WorkerCheckpoints
from asyncsearch.errors import ProtocolError
from asyncsearch.events import Outcome, Spent
from asyncsearch.ids import Lease
from asyncsearch.nonfinite import spell_all
from asyncsearch.rpc.messages import DriverMessage, GangNote, Judged, Refused, WorkerMessage
from asyncsearch.runner.protocol import (
    Amendment,
    Answered,
    CopyWaits,
    CopyWritten,
    Ended,
    FolderWanted,
    FromRunner,
    Join,
    LaneReported,
    Note,
    PackFindings,
    RunnerReady,
    Saved,
    Saving,
    ShardPlaceWanted,
    ShardWritten,
    Train,
    TrainPack,
    UnitVolume,
)


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
            post: passes its argument to ``on_transfer``; called from the thread of each transfer.
            tasks: runs the transfers. None for threads of their own.
        """
        self._config = config
        self._send = send
        self._runner = runner
        folders = TrialFolders(config.dirs, config.dir_bytes)
        self.checkpoints = WorkerCheckpoints(config.store, send, post, runner.tell, folders, tasks)
        self._queue = WorkQueue(config)
        self._work_start = WorkStart()
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

    def lane(self, number: int) -> LaneRun | None:
        """Return a lane that the runner trains. None if it has ended or was dropped."""
        return next((run for run in self._queue.sent if run.number == number), None)

    # Requests of the driver

    def obey(self, message: DriverMessage) -> None:
        """Carry out a request about work; all others are the worker's own."""
        match message:
            case Assign(work=work):
                if not self._is_dismissed:
                    self._queue.take(work)
                    self._go_on()
            case AddLane():
                if not self._is_dismissed:
                    self._add(message)
            case StopTraining():
                self.stop(message)
            case SaveAt() | CutWork() | ExtendWork():
                self._amend(message)
            case Judged():
                self._pass_answer(message)
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
        self._go_on()

    def stop(self, stop: StopTraining) -> None:
        """Stop a lane, and wait for the store no longer on its behalf, even if it has ended."""
        key = (stop.lease, stop.lane)
        self.checkpoints.wait_no_longer(r for r in self.checkpoints.committing if (r.lease, r.number) == key)
        self.checkpoints.wait_no_longer(self.checkpoints.publishing)  # what is to be committed would wait behind it
        for run in self._queue.under(*key):
            self._stop(run, stop.reason)
        self._go_on()

    def interrupt(self, reason: str) -> None:
        """Stop the present work."""
        for run in list(self._queue.current):
            self._stop(run, reason)

    @property
    def is_interrupted(self) -> bool:
        """Whether there is present work, and all of it is to stop."""
        return bool(self._queue.current) and all_stopped(self._queue.current)

    def abandon(self) -> None:
        """End the present work as stopped: its runner was interrupted, and has dropped it."""
        for run in list(self._queue.current):
            self._finish(run, Outcome.STOPPED)
        self._go_on()

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
                self._finish(run, Outcome.STOPPED)
        self._go_on()

    def dismiss(self, reason: str) -> None:
        """Stop all work, and accept no more."""
        self._is_dismissed = True
        self.checkpoints.wait_no_longer(self.checkpoints.committing)
        for run in self._queue.living:
            self._stop(run, reason)

    # Events of this machine

    def on_transfer(self, done: Transferred) -> None:
        """Handle the result of a transfer; a fetched checkpoint starts the run that waited, if it was not stopped."""
        if not isinstance(done, Fetched):
            self.checkpoints.transferred(done)
            return
        if done.run not in self._queue.current:
            return
        if done.path is None:
            self._finish(done.run, Outcome.FAILED, done.error, "checkpoint")
        done.run.load = done.path
        self._go_on()

    def on_death(self, death: Death) -> None:
        """End the lanes that a dead runner has trained."""
        self.checkpoints.copies.lose()
        for run in self._queue.sent:
            self._finish(run, *charge(run, death, self._config))
        self._go_on()

    # The life of a run

    def _go_on(self) -> None:
        """Start the lanes that can start. Those of new work wait for the checkpoints of all, but for no joiner."""
        if begun := self._queue.begin_next():
            self._work_start.begin(has_load=any(run.lane.load is not None for run in begun))
        for run in begun:
            self.checkpoints.fetch(run)
        ready = [run for run in self._queue.current if run.can_start]
        if sent := self._queue.sent:
            for run in ready if self._runner.can_take_more and not all_stopped(sent) else ():
                sent.append(run)
                _mark_sent(sent)
                self._runner.join(run, Join(_train(run, copies=self._runner.may_copy)))
        elif ready and all(run.can_start for run in self._queue.current if not run.has_joined):
            self._begin(ready)

    def _begin(self, runs: list[LaneRun]) -> None:
        trains = tuple([_train(run, copies=self._runner.may_copy) for run in runs])
        self._work_start.could_begin()
        is_pack = len(trains) > 1 or runs[0].is_open
        if self._runner.begin(runs, TrainPack(trains, runs[0].measured) if is_pack else trains[0]):
            _mark_sent(runs)

    def _stop(self, run: LaneRun, reason: str) -> None:
        if run.stop_reason is not None:
            return
        run.stop_reason = reason
        run.gives_up.set()
        if not run.is_sent:
            self._finish(run, Outcome.STOPPED)
            return
        self.checkpoints.give_up(run)
        self._runner.stop(run, reason)

    def _finish(
        self,
        run: LaneRun,
        outcome: Outcome,
        error: str = "",
        error_kind: str = "",
        unreported: Mapping[str, float] = {},
        spent: Spent | None = None,
    ) -> None:
        """Send all remaining events of a run, its end last."""
        if not run.is_sent:
            run.gives_up.set()  # a fetch is of no use any more
        if run in self._queue.current:
            self.checkpoints.give_up(run)
            self._runner.lane_ended(run)
        self._queue.drop(run)
        self.checkpoints.forget(run)
        for event in run.end(outcome, error, error_kind, unreported, self._spent(run, spent)):
            self._send(event)

    def _spent(self, run: LaneRun, spent: Spent | None) -> Spent | UnsetType:
        """Return what was done for a lane. UNSET: a process has trained it, and has not told at its end."""
        if spent is None and run.is_sent:
            return UNSET
        return self._work_start.added_to(spent or Spent())

    # Messages of the runner

    def on_message(self, message: FromRunner) -> None:
        """Handle a message of the runner: on itself, on all that it trains, or on one lane."""
        match message:
            case RunnerReady():
                self._work_start.process_ready()
                return
            case PackFindings():
                self._on_pack_measured(message)
                return
            case Note():
                self._on_note(message)
                return
            case CopyWaits() | CopyWritten():
                self.checkpoints.copies.on_message(message)
                return
            case _:
                pass
        run = self.lane(message.lane)
        if run is None:
            return  # it was dropped
        match message:
            case LaneReported():
                self._on_reported(run, message)
            case UnitVolume():
                volume = message.steps, message.gradient_bytes, message.device
                self._send(events.VolumeMeasured(run.lease, *volume))
            case Ended():
                self._on_ended(run, message)
            case _:
                self._on_saving(run, message)

    def _on_saving(self, run: LaneRun, message: Saving) -> None:
        match message:
            case FolderWanted():
                if run.stop_reason is None:
                    self.checkpoints.want(run, message)
            case ShardPlaceWanted():
                self.checkpoints.want_shard_place(run, message)
            case ShardWritten():
                self.checkpoints.add_shard(run, message)
            case Saved():
                self.checkpoints.saved(run, message)
            case _:
                self.checkpoints.save_failed(run, message)

    def _on_reported(self, run: LaneRun, reported: LaneReported) -> None:
        if run.is_refused:
            return
        metrics = spell_all(reported.metrics)
        try:
            spent = self._work_start.added_to(reported.spent)
            self._send(events.Reported(run.lease, reported.resource, metrics, run.number, reported.is_awaited, spent))
        except ProtocolError as error:
            self._runner.kill()
            self._finish(run, Outcome.FAILED, f"A report cannot be sent: {error}", "bad_report")
        else:
            run.resource = max(run.resource, reported.resource)

    def _on_pack_measured(self, found: PackFindings) -> None:
        run = next((run for run in self._queue.sent if not run.is_refused), None)
        if run is not None:
            self._send(found.under(run.lease))

    def _on_note(self, note: Note) -> None:
        for run in [run for run in self._queue.sent if not run.is_refused]:
            self._send(GangNote(run.lease, note.rank, note.key, note.value))

    def _on_ended(self, run: LaneRun, ended: Ended) -> None:
        run.resource = max(run.resource, ended.resource)
        if ended.unwritten is not None:
            self.checkpoints.copies.begin(run, ended.unwritten)
        self._finish(run, ended.outcome, ended.error, ended.error_kind, ended.unreported, ended.spent)
        self._go_on()


def _mark_sent(runs: Sequence[LaneRun]) -> None:
    """Note that the runner trains these lanes together."""
    for run in runs:
        run.is_sent, run.lanes = True, len(runs)


def _train(run: LaneRun, *, copies: bool) -> Train:
    load = None if run.load is None else str(run.load)
    return Train(
        run.lane.stages,
        load,
        tuple(run.amendments),
        run.number,
        run.seat,
        tuple(run.notes),
        run.place,
        run.lane.judged,
        copies,
    )
