"""A search on YARN with its store on HDFS, in client and in cluster mode, and the death of its containers."""

from __future__ import annotations

import re
from pathlib import Path

import psutil
import pytest

from asyncsearch import Study
from tests.clusters.tools import (
    SEARCH,
    SMALL,
    Machine,
    Submitted,
    agent_of,
    java_of,
    lost_attempts,
    processes_of,
    require_whole,
    until_gone,
)
from tests.faults.accounts import losses, tell, wasted

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def submit(machine: Machine, folder: Path, store: str, mode: str = "client") -> Submitted:
    # In Spark 4.3.0 a driver's web pages and YARN's filter for them may be added at once, which ends the driver.
    plain = ("--conf", "spark.ui.enabled=false")
    return machine.submit("submit_yarn.sh", folder, *SMALL, *plain, "--deploy-mode", mode, SEARCH, folder, store)


def wait_for_two(search: Submitted, store: str) -> list[str]:
    """Return the containers of two trials that wait at once; all other units that were trained are durable."""
    search.until("two trials at once", lambda: len({pid for _, pid, _ in search.waiting()}) == 2)
    search.until_durable(store)
    return [container for _, _, container in search.waiting()]


def master_of(container: str) -> str:
    """Return the container of the ApplicationMaster, for one of its executors: container_..._01_000002."""
    return f"{container.rpartition('_')[0]}_000001"


@pytest.fixture(scope="module")
def undisturbed(machine: Machine, yarn: str, hdfs: str, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A search in client mode that nothing befalls."""
    folder = tmp_path_factory.mktemp("on-yarn")
    store = f"{hdfs}/{folder.name}"
    with submit(machine, folder, store) as search:
        wait_for_two(search, store)
        search.open()
        assert "best: 1" in search.finish()
    return require_whole(search, store)


def test_a_search_in_client_mode_ends_with_its_study_on_hdfs(undisturbed: Study) -> None:
    assert losses(undisturbed) == []
    assert wasted(undisturbed) == 0


def test_a_search_in_cluster_mode_ends_with_its_study_on_hdfs(
    machine: Machine, yarn: str, hdfs: str, tmp_path: Path, undisturbed: Study
) -> None:
    store = f"{hdfs}/{tmp_path.name}"
    with submit(machine, tmp_path, store, "cluster") as search:
        wait_for_two(search, store)
        search.open()
        search.finish()
    assert "best: 1" in machine.script("yarn.sh", "logs")
    tell("YARN in cluster mode", require_whole(search, store), undisturbed)


def test_a_driver_that_yarn_starts_again_goes_on_with_the_study(
    machine: Machine, yarn: str, hdfs: str, tmp_path: Path, undisturbed: Study
) -> None:
    store = f"{hdfs}/{tmp_path.name}"
    with submit(machine, tmp_path, store, "cluster") as search:
        container, _ = wait_for_two(search, store)
        java_of(master_of(container)).kill()
        search.until("trials of the second attempt", lambda: len(search.waiting()) == 4)
        search.open()
        search.finish()
    assert "best: 1" in machine.script("yarn.sh", "logs")
    # Each trial that had begun had a durable checkpoint and report of its first unit; two of them waited in the second.
    tell("YARN, ApplicationMaster killed", require_whole(search, store), undisturbed)


def test_a_container_that_is_killed_costs_the_training_in_it_only(
    machine: Machine, yarn: str, hdfs: str, tmp_path: Path, undisturbed: Study
) -> None:
    store = f"{hdfs}/{tmp_path.name}"
    with submit(machine, tmp_path, store) as search:
        containers = wait_for_two(search, store)
        for process in processes_of(containers[0]):
            process.kill()
        search.until("a trial in another container", lambda: elsewhere(search, containers))
        search.open()
        assert "best: 1" in search.finish()
    study = require_whole(search, store)
    assert len(losses(study)) == 1
    tell("YARN, a container killed", study, undisturbed)


def test_a_killed_nodemanager_costs_only_training_in_its_containers(
    machine: Machine, yarn: str, hdfs: str, tmp_path: Path, undisturbed: Study
) -> None:
    store = f"{hdfs}/{tmp_path.name}"
    with submit(machine, tmp_path, store) as search:
        containers = wait_for_two(search, store)
        # Beside the ApplicationMaster, a NodeManager has room for one executor.
        number = ({1, 2} - {node_of(master_of(containers[0]))}).pop()
        lost = [container for container in containers if node_of(container) == number]
        assert lost
        runners = [runner for _, runner, container in search.waiting() if container in lost]
        workers = [psutil.Process(runner) for runner in runners] + [agent_of(runner) for runner in runners]
        machine.script("yarn.sh", "kill-nm", number)
        # Its containers train on, until the ResourceManager gives the machine up, and are shut out then.
        search.until("the loss of its workers", lambda: lost_attempts(store) == len(lost))
        until_gone(search, workers)
        machine.script("yarn.sh", "start-nm", number)
        search.until("a trial in another container", lambda: elsewhere(search, containers))
        search.open()
        assert "best: 1" in search.finish()
    study = require_whole(search, store)
    assert len(losses(study)) == len(lost)
    tell("YARN, a NodeManager killed", study, undisturbed)


def elsewhere(search: Submitted, containers: list[str]) -> bool:
    """Return whether a trial waits in another container."""
    return any(container not in containers for _, _, container in search.waiting())


def node_of(container: str) -> int:
    """Return the number of the NodeManager that has started a container, by its folder."""
    found = re.search(r"/local-(\d+)/", java_of(container).environ()["LOCAL_DIRS"])
    assert found is not None
    return int(found[1])
