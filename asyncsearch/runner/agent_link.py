"""The transport of a trial's context over the channel between its runner and the agent."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from asyncsearch.actions import CutWork, ExtendWork, SaveAt, StopTraining
from asyncsearch.errors import StoreError, UsageError
from asyncsearch.runner.failures import UnreadableCheckpointError
from asyncsearch.runner.link import shown_failure
from asyncsearch.runner.process.kernel_files import device_name
from asyncsearch.runner.process.signals import SigtermGuard
from asyncsearch.runner.protocol import (
    UNASKED,
    Amendment,
    Answered,
    Folder,
    FolderWanted,
    FromRunner,
    Join,
    LaneAnswer,
    LaneQuestion,
    LaneReported,
    Loadable,
    Note,
    Saved,
    ShardAnswer,
    ShardPlaceWanted,
    ShardWritten,
    ToRunner,
    Train,
    UnitVolume,
    WrittenShards,
    parts_of,
)
from asyncsearch.runner.seal import Seal
from asyncsearch.runner.stopwatch import Stopwatch
from asyncsearch.trainable import TrialStopped

T = TypeVar("T")


_ANSWER_S = 60.0
"""Time after which a trial that awaits an answer looks whether it is to stop; a message wakes it at once."""


class RunnerChannel(Protocol):
    """Carries messages between a runner and the agent."""

    def send(self, message: FromRunner, /) -> None:
        """Send a message, waiting until it can be sent."""

    def receive_now(self) -> list[ToRunner]:
        """Return the messages that are there, without waiting."""

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until a message may be there, or the time is over."""


class PackLinks(dict[int, "AgentLink"]):
    """The links of the lanes that train together, by number, and the lanes that are to join them."""

    def __init__(self, seal: Seal | None = None) -> None:
        super().__init__()
        self.seal = seal or Seal(b"")
        """Seals the questions of all lanes."""
        self.lock = threading.Lock()
        """Held while the channel is used: a trial's threads may report, and outlive it."""
        self.joining: list[Train] = []
        """In the order of their coming; their links are known already."""
        self.stopwatch = Stopwatch()

    def taken(self) -> list[Train]:
        """Return the lanes that are to join, each once."""
        taken, self.joining = self.joining, []
        return taken

    def await_joiner(self, timeout_s: float) -> None:
        """Wait until a lane is to join, or the time is over."""
        link = next((link for link in self.values() if link.is_open), None)
        if link is not None:
            link.await_until(lambda: bool(self.joining), timeout_s)


class AgentLink:
    """Carries one training's reports and checkpoints to the agent, and stop requests back.

    The main thread itself checks for a stop at each report: that costs a microsecond and needs no thread.
    """

    def __init__(
        self,
        channel: RunnerChannel,
        interrupts: SigtermGuard,
        amendments: Sequence[Amendment] = (),
        lane: int = 0,
        lanes: PackLinks | None = None,
    ) -> None:
        """Begin.

        Args:
            channel: to the agent; the links of all lanes that train together share it.
            interrupts: those of this process.
            amendments: those that are known already.
            lane: number of the lane.
            lanes: the links of all lanes by number, to which this one adds itself.
        """
        self._channel = channel
        self._interrupts = interrupts
        self._reason: str | None = None
        self._refusal = ""
        """Why nothing may be sent and received any more. Empty while the training goes on."""
        self._amendments = list(amendments)
        self._lane = lane
        self._lanes = PackLinks() if lanes is None else lanes
        self._lanes[lane] = self
        self.notes: dict[tuple[int, str], str] = {}
        """Values that other ranks of its gang have told, by rank and key."""
        self._answered: tuple[int, int | None] = 0, None
        """Resource of the last report of which all was told that follows from it, and where the next one waits."""
        self._loadable: Loadable | None = None
        self._folder: Folder | None = None
        self._answer: ShardAnswer | None = None
        self._asking = threading.Lock()
        """Held while an answer is awaited: a trial's threads may ask, and each would read the others' answers."""
        self._questions = UNASKED
        self._answers: dict[int, list[LaneAnswer]] = {}
        """What has come of answers that are or may be awaited, by the numbers of their questions."""

    @property
    def stopwatch(self) -> Stopwatch:
        return self._lanes.stopwatch

    @property
    def launch(self) -> object:
        """See ``SearchContext``: a process gets the key of its launch once."""
        return self._lanes.seal

    def report(self, resource: int, metrics: dict[str, float], *, is_awaited: bool = False) -> None:
        self._send(LaneReported(resource, metrics, self._lane, is_awaited, self.stopwatch.news(is_urgent=is_awaited)))

    def await_verdict(self, resource: int, timeout_s: float) -> int | None:
        self.await_until(lambda: self._answered[0] >= resource or self._reason is not None, timeout_s)
        return self._answered[1] if self._answered[0] >= resource else resource + 1

    def await_until(self, has_come: Callable[[], bool], timeout_s: float) -> None:
        """Read messages until something was told, or the time is over."""
        until = time.monotonic() + timeout_s
        self._receive()
        while not has_come() and (left_s := until - time.monotonic()) > 0:
            self._channel.wait(left_s)
            self._receive()

    @property
    def is_open(self) -> bool:
        """Whether its training goes on."""
        return not self._refusal

    def stop_reason(self) -> str | None:
        if self._reason is None:
            self._receive()
        return self._reason

    def ask(self, content: bytes, *, is_awaited: bool = True) -> bytes:
        """Ask the one who answers in the driver, and return the answer; empty if it is not awaited.

        Raises:
            TrialStopped: the trial is to stop, and nobody answers it any more.
            UnauthenticatedError: the answer is not the driver's.
        """
        with self._asking:
            self._questions += 1
            number = self._questions
            for part, has_more in parts_of(self._lanes.seal.closed(number, content)):
                self._send(LaneQuestion(number, part, is_awaited, has_more, self._lane))
            if not is_awaited:
                return b""
            return self._awaited_answer(number)

    def unasked_answer(self) -> bytes:
        """Wait for the driver's first word to the trial, and return it.

        Raises:
            TrialStopped: the trial is to stop.
            UnauthenticatedError: it is not the driver who says it.
        """
        with self._asking:
            return self._awaited_answer(UNASKED)

    def _awaited_answer(self, number: int) -> bytes:
        while not self._is_answered(number) and self._reason is None:
            self.await_until(lambda: self._is_answered(number) or self._reason is not None, _ANSWER_S)
        if not self._is_answered(number):
            raise TrialStopped(self._reason)
        return self._lanes.seal.opened(number, b"".join([part.content for part in self._answers.pop(number)]))

    def _is_answered(self, number: int) -> bool:
        return number in self._answers and not self._answers[number][-1].has_more

    def tell_gang(self, rank: int, key: str, value: str) -> None:
        """Tell the other ranks of the gang a value."""
        self._send(Note(rank, key, value))

    def note_volume(self, steps: int, gradient_bytes: int) -> None:
        """Tell the driver how much the workers of the trial send each other in a unit."""
        # Not which one it sees: gangs of several devices of a kind are compared.
        kind = device_name("" if os.environ.get("CUDA_VISIBLE_DEVICES") == "" else None)
        self._send(UnitVolume(steps, gradient_bytes, kind, self._lane))

    def wait(self) -> str | None:
        """Wait for a message, and return the reason of a stop request. None if there is none."""
        with self._interrupts.shield():
            if not self._receive():
                self._channel.wait()  # without the lock: a thread that outlives its training must hold up nobody
                self._receive()
        return self._reason

    def amendments(self) -> list[Amendment]:
        amendments, self._amendments = self._amendments, []
        return amendments

    def awaited_checkpoint(self) -> Path:
        """Wait for the checkpoint to start from, which the agent fetches and compares while the trial is set up.

        Raises:
            UnreadableCheckpointError: it cannot be had; nothing of it was loaded.
            TrialStopped: the training was stopped before.
        """
        found = self._await(lambda: self._loadable)
        if found.error:
            raise UnreadableCheckpointError(found.error)
        return Path(found.path)

    def folder(self, stage: int, resource: int, *, is_needed: bool = False, failed: str = "") -> Path:
        self._send(FolderWanted(stage, resource, is_needed, failed, self._lane))
        return self._await_folder().checkpoint

    def shard_place(self, stage: int, resource: int) -> str:
        """Return the place where other ranks add their shards of the checkpoint that was written last.

        Raises:
            StoreError: the store has none.
        """
        return self._asked(ShardPlaceWanted(stage, resource, self._lane))

    def add_shard(self, stage: int, resource: int, place: str) -> str:
        """Add the shard written last to the checkpoint of another rank, and return its files once they are durable.

        Raises:
            StoreError: the store could not take it.
            UsageError: it cannot be a part of a checkpoint.
        """
        return self._asked(ShardWritten(stage, resource, place, self._lane))

    def saved(self, stage: int, resource: int, *, is_last: bool, shards: WrittenShards | None = None) -> None:
        self._send(Saved(stage, resource, is_last, self._lane, shards))

    def save_failed(self, stage: int, resource: int, error: Exception) -> None:
        self._send(shown_failure(stage, resource, error, self._lane))

    def close(self, refusal: str) -> None:
        with self._interrupts.shield(), self._lanes.lock:
            self._refusal = refusal

    def _await_folder(self) -> Folder:
        self._folder = None
        return self._await(lambda: self._folder)

    def _asked(self, question: ShardPlaceWanted | ShardWritten) -> str:
        self._answer = None
        self._send(question)
        answer = self._await(lambda: self._answer)
        if answer.error:
            raise (StoreError if answer.is_store else UsageError)(answer.error)
        return answer.value

    def _await(self, received: Callable[[], T | None]) -> T:
        while (found := received()) is None:
            if (reason := self.wait()) is not None:  # after a stop request the checkpoint is useless
                raise TrialStopped(reason)
        return found

    def _send(self, message: FromRunner) -> None:
        with self._interrupts.shield(), self._lanes.lock:
            self._require_open()
            self._channel.send(message)

    def _receive(self) -> bool:
        """Read the messages that are there, and return whether there were any."""
        with self._interrupts.shield(), self._lanes.lock:
            self._require_open()
            messages = self._channel.receive_now()
            self._take(messages)
        return bool(messages)

    def _require_open(self) -> None:
        if self._refusal:
            raise UsageError(self._refusal)

    def _receive_own(self, message: StopTraining | Amendment | Answered | Loadable | LaneAnswer) -> None:
        """Take a message about this lane."""
        match message:
            case StopTraining(reason=reason):
                self._reason = reason
            case Loadable():
                self._loadable = message
            case LaneAnswer():
                self._answers.setdefault(message.number, []).append(message)
            case Answered():
                self._answered = message.resource, message.next
            case _:
                self._amendments.append(message)

    def _take(self, messages: list[ToRunner]) -> None:
        for message in messages:
            match message:
                case StopTraining() | SaveAt() | CutWork() | ExtendWork() | Answered() | Loadable() | LaneAnswer():
                    if message.lane in self._lanes:
                        self._lanes[message.lane]._receive_own(message)
                case Join(lane=train):
                    AgentLink(self._channel, self._interrupts, train.amendments, train.lane, self._lanes)
                    self._lanes.joining.append(train)
                case Note():
                    self.notes[message.rank, message.key] = message.value
                case Folder(lane=lane) if lane == self._lane:
                    self._folder = message
                case ShardAnswer(lane=lane) if lane == self._lane:
                    self._answer = message
                case Folder() | ShardAnswer():
                    pass  # for a lane that was stopped meanwhile
                case _:
                    raise AssertionError(f"{type(message).__name__} in the middle of a training")
