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
from collections.abc import Sequence

from asyncsearch.errors import in_a_line
from asyncsearch.events import Outcome
from asyncsearch.old_pickles import loads
from asyncsearch.runner.channel import RunnerEnd, runner_end
from asyncsearch.runner.failures import exception_text, kind_of
from asyncsearch.runner.lane_runner import LaneRunner
from asyncsearch.runner.process.device_memory import limit_memory
from asyncsearch.runner.process.lifeline import end_with_agent
from asyncsearch.runner.process.preloading import changed_variables, installed_modules, lacking_room, take_over
from asyncsearch.runner.process.process_state import ProcessState, Stdio, rank_connections
from asyncsearch.runner.process.sent_code import adopt, show_received_sources, take_modules_over
from asyncsearch.runner.process.signals import SigtermGuard, let_through
from asyncsearch.runner.process.spawned_children import send_by_value
from asyncsearch.runner.protocol import Ended, ImportedModules, Load, RunnerReady, ToRunner, Train
from asyncsearch.trainable import TrainFunction, as_function


class Runner(LaneRunner):
    """The lanes of this process, which is left after each training as it was before. The main thread does all work."""

    def __init__(self, channel: RunnerEnd, load: Load) -> None:
        take_over(load.environment)  # first: libraries read it when they are imported
        limit_memory(os.environ)
        self._stdio = Stdio(load.marker)
        self._folder: str | None = None
        """The working directory. None if it was removed."""
        with contextlib.suppress(OSError):
            self._folder = os.getcwd()
        self._collect_s = self._sweep_s = 0.005
        self._unswept_s = 0.0
        self._is_preloaded, self._sweeps = load.is_preloaded, True
        self._names_imports, self._variables = load.names_imports, dict(os.environ)
        super().__init__(channel, SigtermGuard(), _load(load.bundle), load.metric, load.untrusted, load.seal_key)
        # They live as long as the runner: to look through them after each trial takes as long as a short trial's unit.
        gc.freeze()
        self._state = ProcessState()

    def finish(self) -> None:
        """Write what is still to be written."""
        self._copies.finish()

    def handle(self, message: ToRunner) -> None:
        began = time.monotonic()
        super().handle(message)
        self._collect(time.monotonic() - began)

    def _begin(self, lanes: Sequence[Train]) -> None:
        self._stdio.restore()
        self._return_home()
        rank_connections.close()
        super()._begin(lanes)

    def _run(self, lane: Train) -> Ended:
        ended = super()._run(lane)
        self._clean_up()
        return ended

    def _train_together(self, lanes: Sequence[Train], measured: Sequence[int] = ()) -> None:
        super()._train_together(lanes, measured)
        self._clean_up()

    def _clean_up(self) -> None:
        """Undo the changes of a training to this process, and name the threads that it has left."""
        if os.getpid() != self._pid:
            return
        self._state.restore()
        for thread in self._state.new_threads():
            sys.stderr.write(
                f"asyncsearch: the thread {thread.name!r} goes on in the process of later trials, whose logs have what "
                "it prints: end it in the function, or give each trial a process, "
                "WorkerOptions(fresh_process=True).\n"
            )

    def _tell_end(self, ended: Ended) -> None:
        super()._tell_end(ended)
        # One that has failed may not have come to its imports.
        if self._names_imports and ended.outcome is not Outcome.FAILED:
            self._names_imports = False
            self._name_imports()

    def _name_imports(self) -> None:
        if reason := lacking_room():
            sys.stderr.write(f"asyncsearch: each process that replaces this one imports all modules itself: {reason}\n")
        else:
            imported = ImportedModules(installed_modules(), changed_variables(self._variables))
            with self._interrupts.shield():
                self._channel.send(imported)

    def _end_output(self) -> None:
        self._stdio.end()

    def _return_home(self) -> None:
        with contextlib.suppress(OSError):
            if os.getcwd() == self._folder:
                return
        if self._folder is not None:
            with contextlib.suppress(OSError):
                os.chdir(self._folder)

    def _collect(self, trained_s: float) -> None:
        """Free the reference cycles that hold a trial's model, on host and device, if that costs little."""
        self._unswept_s += trained_s
        if self._sweeps and self._unswept_s > 200 * self._sweep_s:
            # First after a second of training: the next trial waits for it. What was imported until then lives on, and
            # only what came since is looked through. But what a trial has kept beyond its end was frozen with that, and
            # is looked for now and then; not where modules were imported beforehand, whose pages that would copy.
            self._sweeps = not self._is_preloaded
            if self._sweeps:
                gc.unfreeze()
            self._sweep_s, self._unswept_s = _collected_s(), 0.0
            gc.freeze()
        elif trained_s > 20 * self._collect_s:
            self._collect_s = _collected_s()


def _collected_s() -> float:
    """Collect garbage, and return how long that took."""
    began = time.monotonic()
    gc.collect()
    return time.monotonic() - began


def _load(bundle: bytes) -> TrainFunction | Ended:
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
        text = f"{exception_text(error)}\nThe trainable could not be loaded on this worker: {in_a_line(error)}"
        return Ended(Outcome.FAILED, 0, text, kind_of(error))


def main(control: int, lifeline: int, parent: int) -> None:
    """Serve the agent until it hangs up."""
    let_through()
    for descriptor in (control, lifeline):
        os.set_inheritable(descriptor, False)
    end_with_agent(lifeline, parent)
    channel = runner_end(socket.socket(fileno=control))
    runner: Runner | None = None
    while (message := channel.receive()) is not None:
        if isinstance(message, Load):
            runner = Runner(channel, message)
            channel.send(RunnerReady())
        elif runner is not None:
            runner.handle(message)
    if runner is not None:
        runner.finish()
