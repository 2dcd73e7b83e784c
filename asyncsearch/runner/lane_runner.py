"""The training of the lanes of a lease, in the thread of the user's code: one after another, or together."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from asyncsearch.runner.agent_link import AgentLink, PackLinks, RunnerChannel
from asyncsearch.runner.context import SearchContext
from asyncsearch.runner.packs.pack_timing import PackHistory
from asyncsearch.runner.packs.packed_training import PackRun
from asyncsearch.runner.process.signals import SigtermGuard
from asyncsearch.runner.protocol import Ended, Join, PackFindings, ToRunner, Train, TrainPack
from asyncsearch.runner.seal import Seal
from asyncsearch.runner.state_copies import StateWriter
from asyncsearch.runner.stopwatch import ENTERING
from asyncsearch.runner.training import context_of, run_training
from asyncsearch.trainable import TrainFunction, trainer_class_of


class LaneRunner:
    """Trains the lanes that come over a channel, and reports the end of each."""

    def __init__(
        self,
        channel: RunnerChannel,
        interrupts: SigtermGuard,
        trainable: TrainFunction | Ended,
        metric: str,
        untrusted: str,
        seal_key: bytes,
    ) -> None:
        """Begin.

        Args:
            channel: to the agent.
            interrupts: those of this process.
            trainable: the user's code; or how every training ends, since it cannot be loaded.
            metric: name of the study's metric.
            untrusted: folder of the checkpoints, if nothing may be unpickled from it; else empty.
            seal_key: seals questions to the driver.
        """
        self._channel, self._interrupts, self._trainable = channel, interrupts, trainable
        self._metric, self._untrusted = metric, untrusted
        self._pid = os.getpid()
        self._left = 0
        """How many lanes of the present work have not ended."""
        self._seal = Seal(seal_key)
        self._links = PackLinks(self._seal)
        self._packs = PackHistory()
        self._copies = StateWriter(channel.send)

    def handle(self, message: ToRunner) -> None:
        """Train the lanes of a message to their ends. Any other message has crossed the end of its training."""
        match message:
            case Train():
                self._train([message])
            case TrainPack(lanes=lanes, measured=measured):
                self._train_together(lanes, measured)
            case Join(lane=lane):
                self._train_together([lane])  # those that it was to join have ended
            case _:
                pass

    def _train(self, lanes: Sequence[Train]) -> None:
        self._begin(lanes)
        waiting = list(lanes)
        while waiting:
            self._tell_end(self._run(waiting.pop(0)))
            waiting += self._joined()

    def _train_together(self, lanes: Sequence[Train], measured: Sequence[int] = ()) -> None:
        """Train lanes, and others that join them; one after another if need be."""
        trainer_class = trainer_class_of(self._trainable)
        if trainer_class is None or not trainer_class.can_pack():
            self._train(lanes)
            return
        self._begin(lanes)
        pack, guard, joining = self._contexts(lanes), self._interrupts, self._joined_contexts
        await_joiner = self._links.await_joiner
        PackRun(
            trainer_class, pack, guard, self._metric, self._tell, measured, joining, self._packs, await_joiner
        ).run()

    def _begin(self, lanes: Sequence[Train]) -> None:
        self._left, self._links = len(lanes), PackLinks(self._seal)
        for lane in lanes:
            AgentLink(self._channel, self._interrupts, lane.amendments, lane.lane, self._links)

    def _run(self, lane: Train) -> Ended:
        if isinstance(self._trainable, Ended):
            return msgspec.structs.replace(self._trainable, lane=lane.lane)
        function, link = self._guarded(self._trainable), self._links[lane.lane]
        link.stopwatch.switch(ENTERING)
        return run_training(function, lane, link, self._interrupts, self._metric, self._untrusted, self._copies)

    def _guarded(self, function: TrainFunction) -> TrainFunction:
        """Return the user's function as it is called."""
        return function

    def _contexts(self, lanes: Sequence[Train]) -> dict[int, SearchContext]:
        options = self._metric, self._untrusted, self._copies
        return {lane.lane: context_of(lane, self._links[lane.lane], *options) for lane in lanes}

    def _joined_contexts(self) -> dict[int, SearchContext]:
        return self._contexts(self._joined())

    def _joined(self) -> list[Train]:
        joined = self._links.taken()
        self._left += len(joined)
        return joined

    def _tell(self, message: PackFindings | Ended) -> None:
        if isinstance(message, Ended):
            self._tell_end(message)
            return
        self._require_own_process()
        with self._interrupts.shield():
            self._channel.send(message)

    def _tell_end(self, ended: Ended) -> None:
        self._require_own_process()
        self._left -= 1
        is_last = not self._left and not self._links.joining
        with self._interrupts.shield():
            if is_last:
                self._end_output()
            spent = self._links.stopwatch.read()
            self._channel.send(msgspec.structs.replace(ended, is_last=is_last, spent=spent))
            if ended.unwritten is not None:
                self._copies.begin()

    def _end_output(self) -> None:
        """Mark the end of a training in the output; there is nothing to mark where it has no output of its own."""

    def _require_own_process(self) -> None:
        if os.getpid() != self._pid:
            os._exit(0)  # a child forked by the user's code returned here, and the channel belongs to its parent
