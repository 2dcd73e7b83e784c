"""Workers start while the driver's server still does; what fails in between ends them and the run."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import Study, uniform
from asyncsearch.actions import EndRun, LaunchWorker
from asyncsearch.errors import ClusterError
from asyncsearch.ids import WorkerId
from asyncsearch.journal.opening import read_records
from asyncsearch.launch.base_launcher import ConfigFor, Launcher, OnWorkerEnded, Preflight
from asyncsearch.rpc.server import SearchServer
from asyncsearch.store import open_store
from asyncsearch.study.run_parts import RunParts

PATIENCE_S = 300.0


def train(trial: Any) -> float:
    return float(trial.params["x"])


class Workerless(Launcher):
    """Notes what is launched; nothing attaches, and ``stop`` tells the ends."""

    name = "workerless"

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.launched = threading.Event()
        self.launches: list[tuple[WorkerId, int]] = []
        self.graces: list[float] = []
        self.journal_at_launch: list[Any] = []
        self.folder = Path()

    def check(self, parallelism: int | None) -> Preflight:
        return Preflight(parallelism=parallelism or 1, port=self.port)

    def start(self, config_for: ConfigFor, ended: OnWorkerEnded) -> None:
        self.config_for, self.ended = config_for, ended

    def launch(self, worker: WorkerId, epoch: int) -> None:
        self.config_for(worker, epoch)
        self.journal_at_launch = list(read_records(open_store(self.folder)))
        self.launches.append((worker, epoch))
        self.launched.set()

    def kill(self, worker: WorkerId, epoch: int) -> None:
        pass

    def stop(self, grace_s: float) -> None:
        self.graces.append(grace_s)
        while self.launches:
            self.ended(*self.launches.pop(), "it was ended")


def study(folder: Path, launcher: Workerless) -> Study:
    launcher.folder = folder
    return Study(train, space={"x": uniform(0.0, 1.0)}, metric="loss", mode="min", store=folder, backend=launcher)


def actions(folder: Path, kind: type[Any]) -> list[Any]:
    return [
        action for record in read_records(open_store(folder)) for action in record.actions if isinstance(action, kind)
    ]


def test_workers_are_launched_before_the_server_starts_and_journalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = Workerless()

    def wait_for_launch(run: RunParts, *_: Any) -> None:
        assert launcher.launched.wait(PATIENCE_S), "the launch waits for the server"
        raise ClusterError("enough was seen")

    monkeypatch.setattr(RunParts, "_listen", wait_for_launch)
    with pytest.raises(ClusterError, match="enough was seen"):
        study(tmp_path / "s", launcher).run(1, parallelism=1, display="none")
    recorded = [action for record in launcher.journal_at_launch for action in record.actions]
    assert [action for action in recorded if isinstance(action, LaunchWorker)]


def test_the_server_takes_no_time_before_the_first_launch_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []

    class Slow(Workerless):
        def await_submission(self, timeout_s: float) -> None:
            steps.append(("submitted", self.launched.is_set()))

    def listen(run: RunParts, *_: Any) -> None:
        steps.append(("listening", True))
        raise ClusterError("enough was seen")

    monkeypatch.setattr("asyncsearch.study.run_parts._LAUNCHED_S", PATIENCE_S)
    monkeypatch.setattr(RunParts, "_listen", listen)
    with pytest.raises(ClusterError, match="enough was seen"):
        study(tmp_path / "s", Slow()).run(1, parallelism=1, display="none")
    assert steps == [("submitted", True), ("listening", True)]


def test_a_launch_that_is_never_submitted_does_not_delay_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stuck(Workerless):
        def launch(self, worker: WorkerId, epoch: int) -> None:
            assert listening.wait(PATIENCE_S)

    listening = threading.Event()

    def listen(run: RunParts, *_: Any) -> None:
        listening.set()
        raise ClusterError("enough was seen")

    monkeypatch.setattr("asyncsearch.study.run_parts._LAUNCHED_S", 0.001)
    monkeypatch.setattr(RunParts, "_listen", listen)
    with pytest.raises(ClusterError, match="enough was seen"):
        study(tmp_path / "s", Stuck()).run(1, parallelism=1, display="none")


def test_a_server_that_cannot_start_ends_the_workers_at_once_and_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = Workerless()

    async def refuse(server: SearchServer, *_: Any) -> int:
        assert await asyncio.to_thread(launcher.launched.wait, PATIENCE_S)
        raise ClusterError("the driver cannot listen")

    monkeypatch.setattr(SearchServer, "start", refuse)
    with pytest.raises(ClusterError, match="cannot listen"):
        study(tmp_path / "s", launcher).run(1, parallelism=1, display="none")
    assert launcher.graces[0] == 0.0, "workers without a driver were given time to end"
    [end] = actions(tmp_path / "s", EndRun)
    assert not end.is_complete
    assert "cannot listen" in end.reason
    monkeypatch.undo()
    options: dict[str, Any] = {"store": tmp_path / "s", "backend": "inline", "resume": True}
    again = Study(train, space={"x": uniform(0.0, 1.0)}, metric="loss", mode="min", **options)
    assert again.run(1, display="none").best_trial.name == "trial-0"


def test_a_port_that_is_taken_is_found_before_any_worker_is_launched(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        launcher = Workerless(taken.getsockname()[1])
        with pytest.raises(ClusterError, match="the port is taken"):
            study(tmp_path / "s", launcher).run(1, parallelism=1, display="none")
    assert not launcher.launched.is_set()
    assert actions(tmp_path / "s", LaunchWorker) == []
