"""A search on an HDFS with two NameNodes goes on over a failover, whether the active one was asked or killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsearch import Study
from tests.clusters.tools import Machine
from tests.faults.accounts import losses, require_accounted, tell, wasted
from tests.system.tools import Running, make_study
from tests.system.trained import Gate, make_trainable

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Two NameNodes, the first of them active, that the configuration of Hadoop alone names."""
    folder = tmp_path_factory.mktemp("ha")
    machine = Machine(folder)
    try:
        assert machine.script("hdfs.sh", "start", 1, "--ha") == "hdfs://asyncsearch"
        monkeypatch.setenv("HADOOP_CONF_DIR", str(folder / "hdfs" / "conf"))
        yield machine
    finally:
        machine.script("hdfs.sh", "stop", "--remove")


@pytest.mark.parametrize("is_killed", [False, True], ids=["by-hand", "after-its-death"])
@pytest.mark.parametrize("scheme", ["hdfs", "webhdfs"])
def test_a_search_goes_on_over_a_failover_and_loses_nothing(
    pair: Machine, tmp_path: Path, undisturbed_processes: Study, scheme: str, is_killed: bool
) -> None:
    gate = Gate(tmp_path).make()
    study = make_study(make_trainable(gate), f"{scheme}://asyncsearch/studies/ha")
    running = Running(study)
    gate.pids()
    if is_killed:
        pair.script("hdfs.sh", "kill-nn", 1)
    pair.script("hdfs.sh", "failover")
    gate.open()
    running.wait()
    require_accounted(study, range(1, 10), [1, 3, 9])
    assert losses(study) == []
    assert wasted(study) == 0
    assert "active NameNode: 2" in pair.lines("hdfs.sh", "status")[-2]
    tell(f"failover {'after a death' if is_killed else 'by hand'}, {scheme}", study, undisturbed_processes)
