"""The messages of the runner: reports and findings become events for the driver; saves go to the checkpoints."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET

from asyncsearch import events
from asyncsearch.agent.lane_run import LaneRun, RunnerHandle
from asyncsearch.agent.training_lanes import TrainingLanes
from asyncsearch.agent.worker_checkpoints import WorkerCheckpoints
from asyncsearch.errors import ProtocolError
from asyncsearch.events import Outcome
from asyncsearch.rpc.messages import GangNote, TrialQuestion, WorkerMessage
from asyncsearch.runner.protocol import (
    CopyWaits,
    CopyWritten,
    Ended,
    FolderWanted,
    FromRunner,
    ImportedModules,
    LaneQuestion,
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
from asyncsearch.values import spell_all


class RunnerMessages:
    """Takes them, whatever runs the user's code."""

    def __init__(
        self,
        lanes: TrainingLanes,
        runner: RunnerHandle,
        checkpoints: WorkerCheckpoints,
        send: Callable[[WorkerMessage], None],
    ) -> None:
        """Begin; ``lanes``: those that the runner trains; the rest is as in ``Workbench``."""
        self._lanes, self._runner, self._checkpoints, self._send = lanes, runner, checkpoints, send

    def on_message(self, message: FromRunner) -> None:
        """Handle a message of the runner: on itself, on all that it trains, or on one lane."""
        match message:
            case RunnerReady():
                self._lanes.work_start.process_ready()
                return
            case PackFindings():
                self._on_pack_measured(message)
                return
            case Note():
                self._on_note(message)
                return
            case CopyWaits() | CopyWritten():
                self._checkpoints.copies.on_message(message)
                return
            case ImportedModules():
                return  # of interest to who starts processes
            case _:
                pass
        run = self._lanes.sent(message.lane)
        if run is None:
            return  # it was dropped
        match message:
            case LaneReported():
                self._on_reported(run, message)
            case LaneQuestion():
                self._on_question(run, message)
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
                    self._checkpoints.want(run, message)
            case ShardPlaceWanted():
                self._checkpoints.want_shard_place(run, message)
            case ShardWritten():
                self._checkpoints.add_shard(run, message)
            case Saved():
                self._checkpoints.saved(run, message)
            case _:
                self._checkpoints.save_failed(run, message)

    def _on_reported(self, run: LaneRun, reported: LaneReported) -> None:
        if run.is_refused or run.load_error:  # it has nothing to go on from
            return
        metrics = spell_all(reported.metrics)
        try:
            spent = self._lanes.work_start.added_to(reported.spent) if reported.spent else UNSET
            self._send(events.Reported(run.lease, reported.resource, metrics, run.number, reported.is_awaited, spent))
        except ProtocolError as error:
            self._runner.kill()
            self._lanes.finish(run, Outcome.FAILED, f"A report cannot be sent: {error}", "bad_report")
        else:
            run.resource = max(run.resource, reported.resource)

    def _on_question(self, run: LaneRun, asked: LaneQuestion) -> None:
        if not run.is_refused:
            kind = asked.is_awaited, asked.has_more
            self._send(TrialQuestion(run.lease, asked.number, asked.content, *kind, run.number))

    def _on_pack_measured(self, found: PackFindings) -> None:
        run = next((run for run in self._lanes.queue.sent if not run.is_refused), None)
        if run is not None:
            self._send(found.under(run.lease))

    def _on_note(self, note: Note) -> None:
        for run in [run for run in self._lanes.queue.sent if not run.is_refused]:
            self._send(GangNote(run.lease, note.rank, note.key, note.value))

    def _on_ended(self, run: LaneRun, ended: Ended) -> None:
        run.resource = max(run.resource, ended.resource)
        if ended.unwritten is not None:
            self._checkpoints.copies.begin(run, ended.unwritten)
        outcome, error, kind = ended.outcome, ended.error, ended.error_kind
        if run.load_error and outcome is not Outcome.STOPPED:  # whatever its function made of that
            outcome, error, kind = Outcome.FAILED, run.load_error, "checkpoint"
        self._lanes.finish(run, outcome, error, kind, ended.unreported, ended.spent)
        self._lanes.go_on()
