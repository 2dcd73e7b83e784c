"""A search on a standalone cluster: submitted, with Workers that join, die and leave while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncsearch import Study
from tests.clusters.tools import ELASTIC, SEARCH, SMALL, Machine, Submitted, require_whole
from tests.faults.accounts import losses, tell, wasted

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def executors(search: Submitted) -> set[str]:
    """Return the executors on which a trial has waited."""
    return {executor for _, _, executor in search.waiting()}


def test_a_submitted_search_uses_all_slots_and_ends(undisturbed_search: Submitted, undisturbed: Study) -> None:
    assert len(executors(undisturbed_search)) == 2
    assert losses(undisturbed) == []
    assert wasted(undisturbed) == 0


def test_workers_that_join_are_used_and_killed_ones_cost_only_training(
    machine: Machine, workers: str, hdfs: str, tmp_path: Path, undisturbed: Study
) -> None:
    store = f"{hdfs}/{tmp_path.name}"
    with machine.submit("submit_standalone.sh", tmp_path, *SMALL, *ELASTIC, SEARCH, tmp_path, store, 3) as search:
        search.until("a first executor", lambda: len(executors(search)) == 1)
        machine.script("spark_cluster.sh", "add-worker")
        search.until("a second executor", lambda: len(executors(search)) == 2)
        machine.script("spark_cluster.sh", "kill-worker", 1)
        machine.script("spark_cluster.sh", "add-worker")
        search.until("a third executor", lambda: len(executors(search)) == 3)
        search.open()
        assert "best: 1" in search.finish()
    # The trial on the killed Worker had a durable checkpoint of its first unit.
    study = require_whole(search, store, lost=1)
    assert [loss.reason for loss in losses(study)] == ["its executor 0 was lost"], "not by the lease"
    tell("standalone, a Worker killed", study, undisturbed)


def test_a_worker_that_is_decommissioned_hands_its_trial_back(
    machine: Machine, workers: str, tmp_path: Path, undisturbed: Study
) -> None:
    store = str(tmp_path / "study")
    with machine.submit("submit_standalone.sh", tmp_path, *SMALL, *ELASTIC, SEARCH, tmp_path, store, 2) as search:
        search.until("a first executor", lambda: len(executors(search)) == 1)
        [(trial, _, first)] = search.waiting()
        machine.script("spark_cluster.sh", "add-worker")
        search.until("a second executor", lambda: len(executors(search)) == 2)
        machine.script("spark_cluster.sh", "decommission-worker", 1)
        machine.script("spark_cluster.sh", "add-worker")
        search.until("its trial elsewhere", lambda: (trial, first) != hosts(search)[trial])
        search.open()
        assert "best: 1" in search.finish()
    tell("standalone, a Worker decommissioned", require_whole(search, store, lost=1), undisturbed)


def hosts(search: Submitted) -> dict[str, tuple[str, str]]:
    """Return where each trial has waited last."""
    return {trial: (trial, executor) for trial, _, executor in search.waiting()}
