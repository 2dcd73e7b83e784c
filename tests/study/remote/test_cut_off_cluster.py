"""A driver in a cluster of which its client hears nothing, while both reach the store."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest

from asyncsearch.launch.base_launcher import Preflight
from asyncsearch.report.live.display import Quiet
from asyncsearch.store import open_store
from asyncsearch.study.remote import client
from asyncsearch.study.remote.client import RemoteRun
from asyncsearch.study.remote.driver_task import SentName
from tests.faults.accounts import losses, require_accounted
from tests.study.remote.process_cluster import ProcessCluster, ProcessTasks
from tests.study.remote.test_remote_driver import CONFIGURATIONS, LEVELS, drivers
from tests.system.tools import PATIENCE_S, Running, make_study
from tests.system.trained import Gate, make_trainable


class CutOffTasks(ProcessTasks):
    """They go on where the network lets nobody hear of their ends."""

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self.is_mended = threading.Event()

    def drive(self, content: bytes, tag: str) -> str:
        answer = super().drive(content, tag)
        self.is_mended.wait(PATIENCE_S)
        return answer


def test_a_store_tells_the_end_of_a_driver_whose_cluster_is_cut_off(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    gate, cluster = Gate(tmp_path).make(), ProcessCluster(2)
    cluster.tasks = tasks = CutOffTasks(3)
    study = make_study(make_trainable(gate), tmp_path / "study", backend=cluster)
    running = Running(study, display="plain")
    gate.pids()
    tasks.is_gone = True
    said = ""
    while "The cluster does not answer. The search goes on there" not in said:
        said += capfd.readouterr().out
        time.sleep(0.1)  # what is printed cannot be waited for; nothing depends on how long this is
    gate.open()
    require_accounted(running.wait(), CONFIGURATIONS, LEVELS)
    tasks.is_mended.set()
    assert drivers(study) == 1
    assert not losses(study)


def test_a_driver_is_given_up_once_cluster_and_store_are_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "SILENT_FOR_S", 0.0)
    store, display = open_store(tmp_path), Quiet()
    found, tasks = Preflight(parallelism=1), ProcessTasks(0)
    run = RemoteRun(cast("Any", None), store, SentName("", ""), tasks, found, None, None, display, cast("Any", None))
    ended: list[Any] = []
    for trouble, has_news in (("", False), ("", True), ("it is cut off", True)):
        run._end_if_silent(trouble, "mine", has_news, ended)
        assert ended == []
    run._end_if_silent("it is cut off", "mine", False, ended)
    assert ended == ["it is cut off"]
    monkeypatch.setattr(client, "SILENT_FOR_S", PATIENCE_S)
    for presses in (1, 2):  # at the second one its task would be cancelled, if the cluster heard of it
        run._follower.interrupts.add()
        run._end_if_silent("it is cut off", "mine", False, ended)
        assert len(ended) == presses
    run._follower.close()
