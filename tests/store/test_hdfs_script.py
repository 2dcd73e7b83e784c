"""When `scripts/hdfs.sh start-dn` returns: the NameNode's answer is made up, the DataNode is a process that listens."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

LISTEN = "import socket, time; s = socket.create_server(('127.0.0.1', 0)); time.sleep(1000)"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "scripts"))
    made = importlib.import_module("_hdfs").Hdfs(tmp_path)
    made.servers.start("datanode-1", (sys.executable, "-c", LISTEN))
    yield made
    made.servers.end_all()


def port_of(cluster: Any) -> int:
    module = importlib.import_module("_hdfs")
    cluster.servers.wait("the DataNode", lambda: module._listening(cluster.servers.process("datanode-1")))
    (port,) = module._listening(cluster.servers.process("datanode-1"))
    return int(port)


def answer(*ports: int) -> dict[str, str]:
    nodes = {f"host-{port}": {"xferaddr": f"127.0.0.1:{port}", "lastContact": 0} for port in ports}
    return {"LiveNodes": json.dumps(nodes)}


def test_a_datanode_is_ready_once_the_namenode_knows_its_present_process(cluster: Any) -> None:
    old = port_of(cluster)
    assert cluster._has_registered_all(answer(old))
    cluster.servers.end("datanode-1")
    cluster.servers.start("datanode-1", (sys.executable, "-c", LISTEN))
    new = port_of(cluster)
    assert not cluster._has_registered_all(answer(*{old} - {new})), "the dead one counts as live for a while"
    assert cluster._has_registered_all(answer(old, new))


def test_a_namenode_that_does_not_answer_knows_nobody(cluster: Any) -> None:
    assert not cluster._has_registered_all({})
