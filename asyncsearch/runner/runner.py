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
from collections.abc import Mapping

from asyncsearch.events import Outcome
from asyncsearch.old_pickles import loads
from asyncsearch.runner.failures import exception_text, kind_of
from asyncsearch.runner.lifeline import end_with_agent
from asyncsearch.runner.link import AgentLink
from asyncsearch.runner.main_module import adopt
from asyncsearch.runner.protocol import Channel, Ended, FromRunner, Load, RunnerReady, ToRunner, Train, runner_end
from asyncsearch.runner.sigterm import SigtermGuard
from asyncsearch.runner.stdio import Stdio
from asyncsearch.runner.training import run_training
from asyncsearch.trainable import TrainFunction, as_function


class Runner:
    """The loop of the runner. The main thread does all work."""

    def __init__(self, channel: Channel[ToRunner, FromRunner], load: Load) -> None:
        _take_over(load.environment)  # first: libraries read it when they are imported
        self._channel = channel
        self._metric = load.metric
        self._untrusted = load.untrusted
        self._stdio = Stdio(load.marker)
        self._interrupts = SigtermGuard()
        self._folder = os.getcwd()
        self._pid = os.getpid()
        self._collect_s = 0.005
        self._trainable = self._load(load.bundle)
        # What lives as long as the runner: to look through it after each trial takes as long as a short trial's unit.
        gc.freeze()

    def _load(self, bundle: bytes) -> TrainFunction | Ended:
        """Unpickle the trainable. If a dependency is missing on this machine, every training fails with that error."""
        try:
            # The bytes are from the launcher's closure, never from the network.
            trainable = loads(bundle)
            adopt(trainable)
            return as_function(trainable)
        except BaseException as error:
            text = f"{exception_text(error)}\nThe trainable could not be loaded on this worker: {_in_short(error)}"
            return Ended(Outcome.FAILED, 0, text, kind_of(error))

    def train(self, message: Train) -> None:
        """Do one training and report its end."""
        began = time.monotonic()
        self._stdio.restore()
        self._return_home()
        ended = self._run(message)
        if os.getpid() != self._pid:
            os._exit(0)  # a child forked by the user's code returned here, and the channel belongs to its parent
        self._stdio.end()
        self._channel.send(ended)
        self._collect(time.monotonic() - began)

    def _run(self, message: Train) -> Ended:
        if isinstance(self._trainable, Ended):
            return self._trainable
        link = AgentLink(self._channel, self._interrupts, message.amendments)
        return run_training(self._trainable, message, link, self._interrupts, self._metric, self._untrusted)

    def _return_home(self) -> None:
        with contextlib.suppress(OSError):
            if os.getcwd() == self._folder:
                return
        with contextlib.suppress(OSError):
            os.chdir(self._folder)

    def _collect(self, trained_s: float) -> None:
        """Free the reference cycles that hold a trial's model, on host and device, if that costs little."""
        if trained_s > 20 * self._collect_s:
            began = time.monotonic()
            gc.collect()
            self._collect_s = time.monotonic() - began


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
                runner.train(message)
            case _:
                pass  # it crossed the end of its training
