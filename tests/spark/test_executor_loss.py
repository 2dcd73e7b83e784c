"""Real executors on a standalone cluster: the loss of one costs its own worker and nothing else.

All tests share the executors of one session, each a Java that starts for seconds; Spark replaces those that are killed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from asyncsearch.events import WorkerLost
from asyncsearch.ids import WorkerId
from asyncsearch.journal.opening import read_records
from asyncsearch.launch.spark.launcher import SparkLauncher
from asyncsearch.launch.spark.task import RUN_AGAIN, TaskMode
from tests.launch.tools import Ends, Line, config_for
from tests.shares import takes_long
from tests.spark.cluster import StandaloneCluster, require_no_job, spark_session
from tests.system.tools import Running, make_study, require_gone, require_stored, require_whole
from tests.system.trained import Gate, make_trainable

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def session(standalone: StandaloneCluster) -> Iterator[Any]:
    with spark_session(standalone.url) as made:
        yield made


def endless(folder: str) -> Any:
    """Return an agent that says its process id on a line of its own and does not end."""

    def agent(config: Any) -> str:
        import os
        import signal

        os.write(os.open(f"{folder}/{config.worker}.{config.epoch}", os.O_WRONLY), str(os.getpid()).encode())
        while True:
            signal.pause()

    return agent


def executor_of(agent: int) -> int:
    """Return the JVM whose Python daemon has forked the agent."""
    parents = psutil.Process(agent).parents()
    return next(parent.pid for parent in parents if "CoarseGrainedExecutorBackend" in " ".join(parent.cmdline()))


class Run:
    """A launcher with two agents that run on two executors."""

    def __init__(self, folder: Path, mode: TaskMode) -> None:
        self.folder, self.ends = folder, Ends()
        self.launcher = SparkLauncher(agent=endless(str(folder)), mode=mode)
        self.preflight = self.launcher.check(None)
        self.launcher.start(self._config, self.ends)
        self.lines: dict[tuple[int, int], Line] = {}
        self.pids = {worker: self.launch(worker, 1) for worker in (0, 1)}

    def _config(self, worker: WorkerId, epoch: int) -> Any:
        return msgspec.structs.replace(config_for(self.folder), worker=worker, epoch=epoch)

    def launch(self, worker: int, epoch: int) -> int:
        """Launch a worker, and return the process id of its agent."""
        line = self.lines[worker, epoch] = Line(self.folder / f"{worker}.{epoch}")
        self.launcher.launch(WorkerId(worker), epoch)
        return int(line.hear())


@pytest.mark.parametrize(
    "mode",
    # A whole search of independent tasks outlives the loss of an executor below.
    [TaskMode.PLAIN, pytest.param(TaskMode.INDEPENDENT, marks=takes_long)],
)
def test_killed_executor_ends_its_worker_only_which_can_be_launched_again(
    session: Any, standalone: StandaloneCluster, mode: TaskMode, tmp_path: Path
) -> None:
    run = Run(tmp_path, mode)
    assert run.preflight.parallelism == 2
    executors = {worker: executor_of(pid) for worker, pid in run.pids.items()}
    assert sorted(executors.values()) == sorted(standalone.executors())

    os.kill(executors[1], signal.SIGKILL)
    worker, epoch, reason = run.ends.next()
    assert (worker, epoch) == (1, 1)
    assert reason.startswith("its executor ") if mode is TaskMode.INDEPENDENT else reason == RUN_AGAIN
    run.lines[1, 1].await_end()

    again = run.launch(1, 2)
    assert executor_of(again) not in executors.values()
    assert run.ends.is_empty
    assert psutil.pid_exists(run.pids[0])

    run.launcher.stop(0.0)
    assert {run.ends.next()[:2], run.ends.next()[:2]} == {(0, 1), (1, 2)}
    require_no_job(session)
    run.lines[0, 1].await_end()
    run.lines[1, 2].await_end()


def test_a_killed_executor_costs_only_its_training_since_its_checkpoint(
    session: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = Gate(tmp_path).make()
    study = make_study(make_trainable(gate), tmp_path / "study", backend="spark")
    running = Running(study, display="plain")
    runner, agent = gate.pids()
    require_stored(study, 3)
    os.kill(executor_of(agent), signal.SIGKILL)
    require_whole(running.wait())
    require_gone([runner, agent])
    losses = [r.event for r in read_records(study.store) if isinstance(r.event, WorkerLost)]
    assert len(losses) == 1
    assert study.trials[0].trained <= 9 + 1
    assert sum(trial.losses for trial in study.trials) == 1
    [note] = [line for line in capsys.readouterr().out.splitlines() if " was lost: " in line]
    assert " was lost: its executor " in note
    assert "trial-0 goes on from its checkpoint at 3 units; " in note
    require_no_job(session)
