"""The doctor on a real folder, on its own command, and on a local Spark session."""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from pathlib import Path

import pytest

from asyncsearch.cli import main
from asyncsearch.doctor import Severity, examine
from asyncsearch.doctor.facts import store_facts
from asyncsearch.errors import ClusterError, StoreError
from asyncsearch.launch.spark.clock_server import ClockServer
from asyncsearch.launch.spark.task_facts import StoreView, store_view, task_facts
from asyncsearch.store import Store, open_store


def test_a_store_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text("{}")
    facts = store_facts(open_store(tmp_path))
    assert (facts.failure, facts.is_in_use, facts.is_exclusive) == ("", False, True)
    assert [path.name for path in tmp_path.iterdir()] == ["study.json"]
    durations = (facts.append_s, facts.write_s, facts.commit_s, facts.fetch_s)
    assert all(seconds is not None and seconds > 0 for seconds in durations)


@pytest.mark.parametrize(("url", "is_known"), [("{}", True), ("memory:/{}", False)])
def test_the_free_space_of_a_disk_is_known(url: str, is_known: bool, tmp_path: Path) -> None:
    free = store_facts(open_store(url.format(tmp_path))).free_bytes
    assert (free is not None and free > 0) == is_known


def test_a_study_that_runs_keeps_its_lock(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.prepare()
    with store.lock():
        facts = store_facts(open_store(tmp_path))
        assert (facts.failure, facts.is_in_use) == ("", True)
        assert store.is_locked()


def test_a_store_that_cannot_be_written_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = examine(tmp_path / "file", spark=False)
    assert not found
    assert "cannot be opened" in str(found)
    assert "doctor-" not in str(found)


def test_the_folder_is_removed_when_a_step_fails(tmp_path: Path) -> None:
    def fail(probe: Store, content: bytes) -> None:
        assert probe.read("probe") == content
        raise StoreError("the executors are gone")

    facts = store_facts(open_store(tmp_path), fail)
    assert (facts.failed_step, facts.failure) == ("ask the executors", "the executors are gone")
    assert list(tmp_path.iterdir()) == []


def test_the_command_exits_with_1_if_a_search_could_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert main(["doctor", str(tmp_path / "studies/digits")]) == 0
    assert "a durable record of the journal takes" in capsys.readouterr().out
    (tmp_path / "file").write_text("")
    assert main(["doctor", str(tmp_path / "file")]) == 1
    assert "1 fault" in capsys.readouterr().out


def test_a_task_finds_the_driver_and_compares_the_clocks() -> None:
    with ClockServer("127.0.0.1", "127.0.0.1", 0) as server:
        [found] = task_facts({"sys": "none"}, "127.0.0.1", server.port, server.token)([])
    assert found["connection_error"] == ""
    assert abs(found["ahead_s"]) <= found["round_trip_s"]
    assert found["python"] == sys.executable


def test_a_task_that_does_not_reach_the_driver_says_why() -> None:
    with ClockServer("127.0.0.1", "127.0.0.1", 0) as server:
        port = server.port
    [found] = task_facts({}, "127.0.0.1", port, b"x" * 16)([])
    assert "refused" in found["connection_error"]


def test_a_stranger_is_not_answered() -> None:
    with (
        ClockServer("127.0.0.1", "127.0.0.1", 0) as server,
        socket.create_connection(("127.0.0.1", server.port)) as stranger,
    ):
        stranger.sendall(b"x" * 16)
        assert stranger.recv(8) == b""
        with socket.create_connection(("127.0.0.1", server.port)) as task:
            task.sendall(server.token)
            [told] = struct.unpack("!d", task.recv(8, socket.MSG_WAITALL))
            assert abs(told - time.time()) < 60


def test_a_task_that_sees_another_folder_says_so(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.prepare()
    store.write("probe", b"content")
    [view] = [StoreView(**one) for one in store_view(store.url, "probe", b"content", 1000)([])]
    assert (view.host, view.wrong) == (socket.gethostname(), "")
    assert min(view.write_s, view.commit_s, view.fetch_s) > 0
    assert f"probe-{socket.gethostname()}-{os.getpid()}" in store.walk()
    [other] = [StoreView(**one) for one in store_view(store.url, "probe", b"other", 1000)([])]
    assert (other.host, other.is_elsewhere) == (socket.gethostname(), True)
    assert "another folder" in other.wrong


@pytest.mark.parametrize("asks", ["joining.present", "cluster_facts.join"])
def test_a_session_that_cannot_be_asked_is_a_fault(asks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ClusterError("its server does not answer: start it.")

    monkeypatch.setattr(f"asyncsearch.launch.spark.{asks}", refuse)
    found = examine(spark=None if asks == "joining.present" else True)
    assert not found
    assert "Spark cannot be used" in str(found)
    assert "its server does not answer: start it." in str(found)


@pytest.mark.spark
@pytest.mark.slow
def test_executors_of_a_session_are_asked(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from tests.spark.cluster import require_no_job, spark_session

    with spark_session("local[2]") as session:
        found = examine(tmp_path, session=session, timeout_s=600)
        require_no_job(session)
    assert [one for one in found.diagnoses if one.severity is Severity.FAULT] == []
    text = str(found)
    assert "2 slots" in text
    assert "2 tasks on 1 machine asked" in text
    assert "all connect to the driver at 127.0.0.1:" in text
    assert "all executors asked can read and write it" in text
    assert "the slowest of the executors, which all save at once" in text
