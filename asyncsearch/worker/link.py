"""The runner's link to its agent."""

from __future__ import annotations

import os
from pathlib import Path

from asyncsearch.errors import StoreError
from asyncsearch.trainable import TrialStopped
from asyncsearch.worker.interrupts import Interrupts
from asyncsearch.worker.protocol import Channel, Folder, FolderWanted, FromRunner, Reported, Saved, Stop, ToRunner


class AgentLink:
    """Carries one training's reports and checkpoints to the agent, and its stop back.

    The main thread itself looks for a stop at each report: that costs a microsecond and needs no thread.
    """

    def __init__(self, channel: Channel[ToRunner, FromRunner], interrupts: Interrupts) -> None:
        self._channel = channel
        self._interrupts = interrupts
        self._reason: str | None = None

    def report(self, resource: int, metrics: dict[str, float]) -> None:
        self._send(Reported(resource, metrics))

    def stop_reason(self) -> str | None:
        if self._reason is None:
            with self._interrupts.shield():
                self._take(self._channel.receive_now())
        return self._reason

    def folder(self, stage: int, resource: int) -> Path:
        self._send(FolderWanted(stage, resource))
        folder = self._await_folder()
        if folder.error:
            raise StoreError(folder.error)
        return Path(folder.path) / "checkpoint"

    def saved(self, stage: int, resource: int) -> None:
        self._send(Saved(stage, resource))

    def _await_folder(self) -> Folder:
        while True:
            with self._interrupts.shield():
                message = self._channel.receive()
                folder = self._take([] if message is None else [message])
            if self._reason is not None:  # whatever else came: nobody wants the checkpoint
                raise TrialStopped(self._reason)
            if folder is not None:
                return folder

    def _send(self, message: FromRunner) -> None:
        with self._interrupts.shield():
            try:
                self._channel.send(message)
            except OSError:
                os._exit(1)  # the agent is gone, so nobody wants the result

    def _take(self, messages: list[ToRunner]) -> Folder | None:
        folder = None
        for message in messages:
            match message:
                case Stop(reason=reason):
                    self._reason = reason
                case Folder():
                    folder = message
                case _:
                    raise AssertionError(f"{type(message).__name__} in the middle of a training")
        if self._channel.is_closed:
            os._exit(1)  # the agent is gone, so nobody wants the result
        return folder
