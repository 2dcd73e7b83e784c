"""What the test clusters are made of: servers that outlive a command, ports, jars, settings. No Java starts here."""

from __future__ import annotations

import importlib
import json
import os
import signal
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
ENDLESS = ("sleep", "1000")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that imports a module of scripts/."""
    monkeypatch.syspath_prepend(str(SCRIPTS))

    def imported(name: str) -> ModuleType:
        return importlib.import_module(name)

    return imported


@pytest.fixture
def servers(script: Any, tmp_path: Path) -> Iterator[Any]:
    made = script("_servers").Servers(tmp_path)
    yield made
    made.end_all()


def test_a_server_is_started_once_and_ended_by_its_own_id(servers: Any) -> None:
    assert servers.start("one", ENDLESS)
    process = servers.process("one")
    assert not servers.start("one", ENDLESS)
    assert servers.process("one") == process
    assert os.getsid(process.pid) == process.pid, "a Ctrl-C of the caller would end it"
    servers.end("one")
    assert (servers.process("one"), servers.names()) == (None, [])
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_another_process_with_the_old_id_of_a_server_is_left_alone(servers: Any, tmp_path: Path) -> None:
    other = psutil.Process()
    (tmp_path / "pid" / "one").write_text(json.dumps({"pid": other.pid, "born": other.create_time() - 100}))
    assert servers.process("one") is None
    servers.end("one", signal.SIGKILL)  # it would end this process
    assert servers.names() == []


def test_what_a_server_has_started_in_a_session_of_its_own_ends_with_it(servers: Any) -> None:
    servers.start("one", ("bash", "-c", "setsid sleep 1000 & sleep 1000"))
    servers.wait("the sleeper", lambda: len(servers.strays()) >= 3)
    servers.end_all()
    left = [process for process in servers.strays() if process.status() != psutil.STATUS_ZOMBIE]
    assert left == []


def test_a_stopped_server_can_be_ended(servers: Any) -> None:
    servers.start("one", ENDLESS)
    process = servers.process("one")
    servers.send("one", signal.SIGSTOP)
    servers.end("one")
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_server_that_dies_is_named_with_the_end_of_its_log(script: Any, servers: Any) -> None:
    servers.start("one", ("bash", "-c", "echo the port is in use; exit 1"))
    with pytest.raises(script("_servers").ClusterError, match=r"(?s)one died.*the port is in use"):
        servers.wait("the cluster", lambda: False)


def test_a_signal_to_a_server_that_does_not_run_names_those_that_do(script: Any, servers: Any) -> None:
    servers.start("one", ENDLESS)
    with pytest.raises(script("_servers").ClusterError, match="two does not run; these do: one"):
        servers.send("two", signal.SIGTERM)


def test_ports_are_kept_and_are_none_that_the_system_gives_to_clients(script: Any, tmp_path: Path) -> None:
    make = script("_servers").Servers
    first = make(tmp_path).ports("rpc", "http")
    again = make(tmp_path).ports("http", "rpc", "web")
    assert {**again, **first} == again
    assert len({*again.values()}) == 3
    assert all(1024 < port < 32_768 for port in again.values())


def test_the_folder_of_clusters_can_be_named(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASYNCSEARCH_CLUSTER_DIR", str(tmp_path / "mine"))
    assert script("_servers").cluster_folder("hdfs") == tmp_path / "mine" / "hdfs"
    monkeypatch.delenv("ASYNCSEARCH_CLUSTER_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert script("_servers").cluster_folder("hdfs") == tmp_path / "state/asyncsearch/clusters/hdfs"


def test_a_jar_with_another_checksum_is_refused(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "asyncsearch" / "jars").mkdir(parents=True)
    (tmp_path / "asyncsearch" / "jars" / "bcprov-jdk18on-1.82.jar").write_bytes(b"something else")
    with pytest.raises(script("_servers").ClusterError, match="SHA-256"):
        script("_jars").jar("org.bouncycastle:bcprov-jdk18on:1.82")


def test_a_jar_that_cannot_be_fetched_leaves_nothing_and_names_its_place(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))  # no mvn
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".m2").mkdir()
    url = "http://127.0.0.1:9/mirror"  # nothing listens there
    mirror = f"<mirror><id>ours</id><mirrorOf>central</mirrorOf><url>{url}</url></mirror>"
    (tmp_path / ".m2" / "settings.xml").write_text(f"<settings><mirrors>{mirror}</mirrors></settings>")
    with pytest.raises(script("_servers").ClusterError, match=rf"Fetch {url}/org/bouncycastle/.*bcutil") as refused:
        script("_jars").jar("org.bouncycastle:bcutil-jdk18on:1.82")
    assert str(tmp_path / "asyncsearch" / "jars") in str(refused.value)
    assert list((tmp_path / "asyncsearch" / "jars").iterdir()) == []


def test_settings_are_xml_whatever_is_in_a_value(script: Any, tmp_path: Path) -> None:
    script("_hadoop").write_settings(tmp_path / "conf", {"core-site.xml": {"folder": "/a&b<c", "count": 3}})
    rows = ET.parse(tmp_path / "conf" / "core-site.xml").getroot()
    assert {row[0].text: row[1].text for row in rows} == {"folder": "/a&b<c", "count": "3"}


def test_an_hdfs_of_one_namenode_is_not_made_one_of_two(script: Any, tmp_path: Path) -> None:
    (tmp_path / "kind.json").write_text('{"datanodes": 1, "replication": 1, "ha": false}')
    cluster = script("_hdfs").Hdfs(tmp_path)
    with pytest.raises(script("_servers").ClusterError, match=r"hdfs\.sh stop --remove"):
        cluster.start(None, None, is_ha=True)


def test_yarn_without_hdfs_says_what_to_start(script: Any, tmp_path: Path) -> None:
    (tmp_path / "yarn").mkdir()
    with pytest.raises(script("_servers").ClusterError, match=r"bash scripts/hdfs\.sh start"):
        script("_yarn").Yarn(tmp_path / "yarn", tmp_path / "hdfs").start(1, 1024, 1)
