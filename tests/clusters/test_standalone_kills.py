"""Processes of a search on a standalone cluster that are killed or stopped, beside a search that nothing befalls."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil
import pytest

from asyncsearch import Study
from asyncsearch.events import DriverStarted
from asyncsearch.journal.opening import read_records
from tests.clusters.tools import (
    SEARCH,
    SMALL,
    TWO_EXECUTORS,
    Machine,
    Submitted,
    agent_of,
    lost_attempts,
    reports_of,
    require_whole,
    until_gone,
)
from tests.faults.accounts import losses, tell

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def submit(machine: Machine, folder: Path, store: object) -> Submitted:
    return machine.submit("submit_standalone.sh", folder, *SMALL, *TWO_EXECUTORS, SEARCH, folder, store)


def wait_for_two(search: Submitted, store: str) -> list[int]:
    """Return the runners of two trials that wait at once; all other units that were trained are durable."""
    search.until("two trials at once", lambda: len(search.waiting()) == 2)
    search.until_durable(store)
    return [runner for _, runner, _ in search.waiting()]


@pytest.mark.parametrize("scheme", ["hdfs", "webhdfs"])
def test_a_driver_killed_with_its_jvm_goes_on_when_it_is_submitted_again(
    machine: Machine, two_workers: str, hdfs: str, tmp_path: Path, undisturbed: Study, scheme: str
) -> None:
    address = hdfs if scheme == "hdfs" else machine.script("hdfs.sh", "status").replace("http:", "webhdfs:").split()[-1]
    store = f"{address}/{tmp_path.name}"
    with submit(machine, tmp_path, store) as first:
        runners = wait_for_two(first, store)
        before = reports_of(Study.open(store))
        old = [psutil.Process(runner) for runner in runners] + [agent_of(runner) for runner in runners]
        old += [process for agent in old[2:] for process in agent.parents()[:2]]  # pyspark's daemon, the executor
        first.kill()
    with submit(machine, tmp_path, store) as second:
        second.until("two trials of the second driver", lambda: len(second.waiting()) == 4)
        until_gone(second, old)
        second.open()
        assert "best: 1" in second.finish()
    study = require_whole(second, store)
    after = reports_of(study)
    assert all(after[trial][: len(rows)] == rows for trial, rows in before.items()), "what was durable is gone"
    assert sum(isinstance(record.event, DriverStarted) for record in read_records(study.store)) == 2
    tell(f"standalone, driver and JVM killed, {scheme}", study, undisturbed)


@pytest.mark.parametrize("who", ["runner", "agent"])
def test_a_killed_process_of_a_worker_costs_the_unit_in_progress_only(
    machine: Machine, two_workers: str, tmp_path: Path, undisturbed: Study, who: str
) -> None:
    store = str(tmp_path / "study")
    with submit(machine, tmp_path, store) as search:
        runner, _ = wait_for_two(search, store)
        (psutil.Process(runner) if who == "runner" else agent_of(runner)).kill()
        search.until("a trial in another process", lambda: len(search.waiting()) == 3)
        search.open()
        assert "best: 1" in search.finish()
    study = require_whole(search, store)
    assert sum(trial.losses for trial in study.trials) == 1, "its trial, and no other, has lost a process"
    tell(f"standalone, {who} killed", study, undisturbed)


def test_a_worker_that_was_stopped_beyond_its_lease_is_shut_out(
    machine: Machine, two_workers: str, tmp_path: Path, undisturbed: Study
) -> None:
    store = str(tmp_path / "study")
    with submit(machine, tmp_path, store) as search:
        runner, _ = wait_for_two(search, store)
        agent, old = agent_of(runner), psutil.Process(runner)
        stopped = [agent, *agent.children(recursive=True)]
        for process in stopped:
            process.suspend()
        search.until("the end of its lease", lambda: lost_attempts(store) == 1)
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):  # Spark may have killed it
                process.resume()
        search.until("a trial in another process", lambda: len(search.waiting()) == 3)
        until_gone(search, [old])  # Spark may use the process of the agent, which has ended as a task, for the next one
        search.open()
        assert "best: 1" in search.finish()
    study = require_whole(search, store)
    [lost] = losses(study)
    assert "silent" in lost.reason
    tell("standalone, a worker stopped beyond its lease", study, undisturbed)
