"""The runner: the child process in which the user's code runs, one training after the other.

The agent starts it as ``python -m asyncsearch.runner CONTROL LIFELINE PARENT``: two inherited descriptors and the
agent's process id. It imports neither gRPC nor Spark, and ends with its agent, however that ends.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence

import msgspec

from asyncsearch.events import Outcome
from asyncsearch.old_pickles import loads
from asyncsearch.runner.context import SearchContext
from asyncsearch.runner.failures import exception_text, kind_of
from asyncsearch.runner.link import AgentLink, PackLinks
from asyncsearch.runner.packs.pack_timing import PackHistory
from asyncsearch.runner.packs.packed_training import run_pack
from asyncsearch.runner.process.lifeline import end_with_agent
from asyncsearch.runner.process.main_module import adopt
from asyncsearch.runner.process.memory_limits import limit_memory
from asyncsearch.runner.process.own_modules import take_modules_over
from asyncsearch.runner.process.process_state import ProcessState
from asyncsearch.runner.process.sigterm import SigtermGuard
from asyncsearch.runner.process.sources import show_received_sources
from asyncsearch.runner.process.spawned_children import send_by_value
from asyncsearch.runner.process.stdio import Stdio
from asyncsearch.runner.protocol import (
    Channel,
    Ended,
    FromRunner,
    Join,
    Load,
    PackFindings,
    RunnerReady,
    ToRunner,
    Train,
    TrainPack,
    runner_end,
)
from asyncsearch.runner.training import context_of, run_training
from asyncsearch.trainable import TrainFunction, as_function, trainer_class_of


class Runner:
    """The loop of the runner. The main thread does all work."""

    def __init__(self, channel: Channel[ToRunner, FromRunner], load: Load) -> None:
        _take_over(load.environment)  # first: libraries read it when they are imported
        limit_memory(os.environ)
        self._channel = channel
        self._metric = load.metric
        self._untrusted = load.untrusted
        self._stdio = Stdio(load.marker)
        self._interrupts = SigtermGuard()
        self._folder: str | None = None
        """The working directory; None: it was removed."""
        with contextlib.suppress(OSError):
            self._folder = os.getcwd()
        self._pid = os.getpid()
        self._collect_s = 0.005
        self._left = 0
        """How many lanes of the present work have not ended."""
        self._links = PackLinks()
        self._packs = PackHistory()
        self._trainable = self._load(load.bundle)
        # What lives as long as the runner: to look through it after each trial takes as long as a short trial's unit.
        gc.freeze()
        self._state = ProcessState()

    def _load(self, bundle: bytes) -> TrainFunction | Ended:
        """Unpickle the trainable. If a dependency is missing on this machine, every training fails with that error."""
        try:
            take_modules_over()
            # The bytes are from the launcher's closure, never from the network.
            trainable = loads(bundle)
            show_received_sources()
            adopt(trainable)
            send_by_value()
            return as_function(trainable)
        except BaseException as error:
            text = f"{exception_text(error)}\nThe trainable could not be loaded on this worker: {_in_short(error)}"
            return Ended(Outcome.FAILED, 0, text, kind_of(error))

    def train(self, lanes: Sequence[Train]) -> None:
        """Train lanes one after another, and report the end of each."""
        began = self._begin(lanes)
        waiting = list(lanes)
        while waiting:
            lane = waiting.pop(0)
            ended = self._run(lane, self._links[lane.lane])
            self._clean_up()
            self._tell_end(ended)
            waiting += self._joined()
        self._collect(time.monotonic() - began)

    def train_together(self, lanes: Sequence[Train], measured: Sequence[int] = ()) -> None:
        """Train lanes, and others that join them, and report the end of each; one after another if need be."""
        trainer_class = trainer_class_of(self._trainable)
        if trainer_class is None or not trainer_class.can_pack():
            self.train(lanes)
            return
        began = self._begin(lanes)
        pack, joining = self._contexts(lanes), lambda: self._contexts(self._joined())
        run_pack(trainer_class, pack, self._interrupts, self._metric, self._tell, measured, joining, self._packs)
        self._clean_up()
        self._collect(time.monotonic() - began)

    def _begin(self, lanes: Sequence[Train]) -> float:
        """Prepare for a training; return when it began."""
        began = time.monotonic()
        self._stdio.restore()
        self._return_home()
        _close_groups()
        self._left, self._links = len(lanes), PackLinks()
        for lane in lanes:
            AgentLink(self._channel, self._interrupts, lane.amendments, lane.lane, self._links)
        return began

    def _contexts(self, lanes: Sequence[Train]) -> dict[int, SearchContext]:
        return {lane.lane: context_of(lane, self._links[lane.lane], self._metric, self._untrusted) for lane in lanes}

    def _joined(self) -> list[Train]:
        joined = self._links.taken()
        self._left += len(joined)
        return joined

    def _run(self, message: Train, link: AgentLink) -> Ended:
        if isinstance(self._trainable, Ended):
            return msgspec.structs.replace(self._trainable, lane=message.lane)
        return run_training(self._trainable, message, link, self._interrupts, self._metric, self._untrusted)

    def _clean_up(self) -> None:
        """Undo what a training has changed of this process, and say what it has left."""
        if os.getpid() != self._pid:
            return
        self._state.restore()
        for thread in self._state.new_threads():
            sys.stderr.write(
                f"asyncsearch: the thread {thread.name!r} goes on in the process of later trials, whose logs have what "
                "it prints: end it in the function, or give each trial a process, "
                "WorkerOptions(fresh_process=True).\n"
            )

    def _tell(self, message: PackFindings | Ended) -> None:
        self._require_own_process()
        if isinstance(message, Ended):
            self._tell_end(message)
        else:
            with self._interrupts.shield():
                self._channel.send(message)

    def _require_own_process(self) -> None:
        if os.getpid() != self._pid:
            os._exit(0)  # a child forked by the user's code returned here, and the channel belongs to its parent

    def _tell_end(self, ended: Ended) -> None:
        """Tell the end of a lane, the last one after the marker."""
        self._require_own_process()
        self._left -= 1
        is_last = not self._left and not self._links.joining
        with self._interrupts.shield():
            if is_last:
                self._stdio.end()
            self._channel.send(msgspec.structs.replace(ended, is_last=is_last))

    def _return_home(self) -> None:
        with contextlib.suppress(OSError):
            if os.getcwd() == self._folder:
                return
        if self._folder is not None:
            with contextlib.suppress(OSError):
                os.chdir(self._folder)

    def _collect(self, trained_s: float) -> None:
        """Free the reference cycles that hold a trial's model, on host and device, if that costs little."""
        if trained_s > 20 * self._collect_s:
            began = time.monotonic()
            gc.collect()
            self._collect_s = time.monotonic() - began


def _close_groups() -> None:
    """Close what connects this process with the ranks of its last training."""
    for name, close in (("torch.gangs.process_groups", "close_group"), ("keras.gangs.rings", "close_ring")):
        if (module := sys.modules.get(f"asyncsearch.trainers.{name}")) is not None:
            getattr(module, close)()


def _take_over(environment: Mapping[str, str]) -> None:
    os.environ.update(environment)
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in paths if path and path not in sys.path]


def _in_short(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def main(control: int, lifeline: int, parent: int) -> None:
    """Serve the agent until it hangs up."""
    for descriptor in (control, lifeline):
        os.set_inheritable(descriptor, False)
    end_with_agent(lifeline, parent)
    channel = runner_end(socket.socket(fileno=control))
    runner: Runner | None = None
    while (message := channel.receive()) is not None:
        match message:
            case Load():
                runner = Runner(channel, message)
                channel.send(RunnerReady())
            case Train() if runner is not None:
                runner.train([message])
            case TrainPack() if runner is not None:
                runner.train_together(message.lanes, message.measured)
            case Join() if runner is not None:
                runner.train_together([message.lane])  # those that it was to join have ended
            case _:
                pass  # it crossed the end of its training
