"""Measure what agent and runner cost without a server: ``python -m tests.agent.measure``."""

# Printing is its job.
# ruff: noqa: T201

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from asyncsearch.actions import DismissWorker
from asyncsearch.agent.agent import run_agent
from asyncsearch.events import Outcome, Reported, TrainingEnded
from asyncsearch.rpc.messages import WorkerMessage
from asyncsearch.trainable import TrialContext
from tests.agent.driver import WORKER, FakeDriver, make_config
from tests.agent.trials import no_op, reports_every_millisecond


class Loop(FakeDriver):
    """Answers each end with the next work at once, in the agent's own thread."""

    def __init__(self, trials: int) -> None:
        super().__init__()
        self.ended_s: list[float] = []
        self.trials = trials

    def open(self) -> None:
        self.train(0)

    def send(self, message: WorkerMessage) -> None:
        if not isinstance(message, TrainingEnded):
            return
        assert message.outcome is not Outcome.FAILED, message.error
        self.ended_s.append(time.perf_counter())
        if len(self.ended_s) < self.trials:
            self.train(len(self.ended_s))
        else:
            self.deliver(DismissWorker(WORKER, 1, "done"))


class StoppingLoop(Loop):
    """Stops each trial some reports after its start, from another thread, as a stream would."""

    def __init__(self, trials: int) -> None:
        super().__init__(trials)
        self.told_s: list[float] = []

    def send(self, message: WorkerMessage) -> None:
        if isinstance(message, Reported) and message.resource == 20:
            threading.Thread(target=self._tell, args=(message.lease.number,)).start()
        super().send(message)

    def _tell(self, number: int) -> None:
        self.told_s.append(time.perf_counter())
        self.stop(number)


def reports_every_second(trial: TrialContext) -> None:
    for epoch in range(1, 1_000_000):
        trial.report(accuracy=epoch)
        time.sleep(1)


def hand_over(folder: Path, trials: int = 3_000) -> None:
    loop = Loop(trials)
    began_s, cpu_s = time.perf_counter(), time.process_time()
    run_agent(make_config(no_op, folder, recycle_after=10**9), connect=loop)
    cpu_s = time.process_time() - cpu_s
    steps = [later - sooner for sooner, later in itertools.pairwise(loop.ended_s)]
    print(f"first trial ended {1e3 * (loop.ended_s[0] - began_s):.0f} ms after the agent began")
    print(f"a no-op trial: {_row(steps, 1e6, 'us')}; of the agent's CPU {1e6 * cpu_s / trials:.0f} us")


def stop(folder: Path, trials: int = 300) -> None:
    loop = StoppingLoop(trials)
    run_agent(make_config(reports_every_millisecond, folder, recycle_after=10**9), connect=loop)
    steps = [ended - told for told, ended in zip(loop.told_s, loop.ended_s, strict=True)]
    print(f"from StopTraining to TrainingEnded: {_row(steps, 1e3, 'ms')}")


def idle(folder: Path, seconds: float = 10) -> None:
    driver = FakeDriver()
    config = make_config(reports_every_second, folder, stop_grace_s=0.1)
    thread = threading.Thread(target=run_agent, args=(config,), kwargs={"connect": driver})
    driver.open = lambda: driver.train(0)  # type: ignore[method-assign]
    thread.start()
    driver.first(Reported)
    runner = psutil.Process().children()[0]
    times = time.process_time(), sum(runner.cpu_times()[:2])
    time.sleep(seconds)
    agent_s, runner_s = time.process_time() - times[0], sum(runner.cpu_times()[:2]) - times[1]
    driver.deliver(DismissWorker(WORKER, 1, "done"))
    thread.join()
    print(
        f"a report a second: agent {100 * agent_s / seconds:.2f} %, runner {100 * runner_s / seconds:.2f} % of a core"
    )


def imports() -> None:
    command = [sys.executable, "-P", "-c", "import asyncsearch.runner.runner"]
    steps = []
    for _ in range(10):
        began_s = time.perf_counter()
        subprocess.run(command, check=True)
        steps.append(time.perf_counter() - began_s)
    print(f"start of a Python with the runner's imports: {_row(steps, 1e3, 'ms')}")


def _row(steps: list[float], factor: float, unit: str) -> str:
    ordered = sorted(steps)
    last = ordered[int(0.99 * len(ordered))]
    return f"median {factor * statistics.median(ordered):.3g} {unit}, 99th percentile {factor * last:.3g} {unit}"


if __name__ == "__main__":
    for measure in (hand_over, stop, idle):
        with tempfile.TemporaryDirectory() as name:
            measure(Path(name))
    imports()
