"""A DataFrame of the driver on a standalone cluster, read from HDFS by the ranks of gangs."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.clusters.frame_search import ROWS
from tests.clusters.tools import SMALL, TWO_EXECUTORS, Machine

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SEARCH = Path(__file__).with_name("frame_search.py")


def test_ranks_on_two_executors_read_disjoint_and_complete_parts_from_hdfs(
    machine: Machine, two_workers: str, hdfs: str, tmp_path: Path
) -> None:
    store = f"{hdfs}/{tmp_path.name}"
    with machine.submit("submit_standalone.sh", tmp_path, *SMALL, *TWO_EXECUTORS, SEARCH, tmp_path, store) as search:
        search.finish()
    total = float(sum(range(ROWS)))
    assert (tmp_path / "results").read_text() == f"True 4 {[total, total]}"
    parts = defaultdict(list)
    for line in (tmp_path / "ids").read_text().splitlines():
        trial, *ids = line.split()
        parts[trial].append([int(one) for one in ids])
    assert len(parts) == 2
    for found in parts.values():
        assert sorted(map(len, found)) == [ROWS // 2, ROWS - ROWS // 2]
        assert sorted(one for part in found for one in part) == list(range(ROWS))
