"""A search on YARN with its store on HDFS, in client and in cluster mode, and the death of its ApplicationMaster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clusters.tools import SEARCH, SMALL, Machine, java_of, require_whole

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_submitted_search_ends_with_its_study_on_hdfs(
    machine: Machine, yarn: str, hdfs: str, tmp_path: Path, mode: str
) -> None:
    store = f"{hdfs}/{tmp_path.name}"
    options = (*SMALL, "--deploy-mode", mode)
    with machine.submit("submit_yarn.sh", tmp_path, *options, SEARCH, tmp_path, store) as search:
        search.until("two trials at once", lambda: len({pid for _, pid, _ in search.waiting()}) == 2)
        search.open()
        output = search.finish()
    printed = output if mode == "client" else machine.script("yarn.sh", "logs")
    assert "best: 1" in printed
    require_whole(search, machine.reports(store))


def test_a_driver_that_yarn_starts_again_goes_on_with_the_study(
    machine: Machine, yarn: str, hdfs: str, tmp_path: Path
) -> None:
    store = f"{hdfs}/{tmp_path.name}"
    options = (*SMALL, "--deploy-mode", "cluster")
    with machine.submit("submit_yarn.sh", tmp_path, *options, SEARCH, tmp_path, store) as search:
        search.until("two trials at once", lambda: len(search.waiting()) == 2)
        search.until("nine durable reports", lambda: sum(map(len, machine.reports(store).values())) == 9)
        executor = search.waiting()[0][2]  # container_..._01_000002
        java_of(f"{executor.rsplit('_', 1)[0]}_000001").kill()
        search.until("trials of the second attempt", lambda: len(search.waiting()) == 4)
        search.open()
        search.finish()
    assert "best: 1" in machine.script("yarn.sh", "logs")
    # Each trial had a durable checkpoint and report of its first unit; two of them waited in the second.
    require_whole(search, machine.reports(store))
