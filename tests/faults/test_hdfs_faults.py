"""Searches on a real HDFS: drivers killed or stopped inside an append, servers that go away and come back.

The test command runs one case of each kind of disturbance.
"""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from asyncsearch import Study, uniform
from asyncsearch.errors import BeingWrittenError
from asyncsearch.store import open_store
from tests.faults.accounts import tell
from tests.faults.hdfs_runs import PATIENCE_S, Search, require_waited
from tests.shares import IS_ALL, takes_long
from tests.store.hdfs_cluster import Hdfs
from tests.store.hdfs_search import UNITS

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture
def search(tmp_path: Path) -> Search:
    return Search(tmp_path)


class Undisturbed(NamedTuple):
    """A search that nothing befell."""

    study: Study
    shown: str
    """The text that others saw while its driver lived."""


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    search = Search(tmp_path_factory.mktemp("undisturbed"))
    shown = []

    def look() -> None:
        shown.append(Study.open(search.url).summary())
        search.go_on()

    search.run_with(look, stays_open=True)
    return Undisturbed(search.require_whole(), *shown)


@pytest.fixture
def undisturbed(looked_at: Undisturbed) -> Study:
    return looked_at.study


def test_who_looks_at_a_living_search_is_told_that_it_is_being_written(looked_at: Undisturbed) -> None:
    assert "being written: what happened" in looked_at.shown, looked_at.shown
    assert "can be read in a moment, at the next segment of the journal" in looked_at.shown, looked_at.shown
    assert "being written" not in looked_at.study.summary()


@pytest.mark.parametrize("append", [1, 8, 15] if IS_ALL else [8])
def test_a_driver_killed_inside_an_append_loses_nothing(search: Search, append: int, undisturbed: Study) -> None:
    assert search.start(kill_at=append).wait(PATIENCE_S) == -signal.SIGKILL
    store = open_store(search.url)
    if search.witness.read_bytes():
        with pytest.raises(BeingWrittenError):
            list(store.read_segment("000001.jsonl"))
        assert "its driver has died" in Study.open(search.url).summary()
    search.finish()
    tell(f"on HDFS, driver killed inside append {append}", search.require_whole(), undisturbed)


def test_a_driver_stopped_inside_an_append_is_shut_out_by_its_successor(search: Search, undisturbed: Study) -> None:
    first = search.start(stop_at=9, lease_s=4.0)  # on a slow machine it would lose a shorter one before it is stopped
    assert os.WIFSTOPPED(os.waitpid(first.pid, os.WUNTRACED)[1]), search.output()
    second = search.start(lease_s=2.0)
    while second.poll() is None and second.wait(PATIENCE_S) != 0:
        second = search.start(lease_s=2.0)  # the lease of the first one had not run out
    os.kill(first.pid, signal.SIGCONT)
    assert first.wait(PATIENCE_S) == 1, search.output()
    lost = [line for line in search.output().splitlines() if f"Process {first.pid} has lost the study at" in line]
    assert lost, search.output()
    assert f"to another driver, process {second.pid} on" in lost[-1], lost
    assert "org.apache" not in search.output()
    tell("on HDFS, driver stopped inside an append", search.require_whole(), undisturbed)


@takes_long
def test_training_goes_on_while_the_namenode_is_away_and_its_reports_wait(search: Search, undisturbed: Study) -> None:
    def restart() -> None:
        before = len(search.trained())
        search.cluster.call("kill-nn")
        try:
            search.go_on("the NameNode")
            # One trial trains from the fourth unit to the last.
            search.wait_until(lambda: len(search.trained()) >= before + UNITS - 3)
        finally:
            search.cluster.call("start-nn")

    search.run_with(restart, gate_unit=4)
    assert "reports wait in the workers" in search.output()
    require_waited(search, undisturbed, "NameNode restarted")


def set_safe_mode(cluster: Hdfs, _place: str, is_on: bool) -> None:
    cluster.call("safemode", "enter" if is_on else "leave")


def set_full(cluster: Hdfs, place: str, is_on: bool) -> None:
    cluster.set_space_quota(place, 1 if is_on else -1)


def set_read_only(cluster: Hdfs, place: str, is_on: bool) -> None:
    cluster.call("fs", "-chmod", "-R", "a-w" if is_on else "u+w", place)


@pytest.mark.parametrize(
    ("disturb", "words"),
    [
        pytest.param(set_safe_mode, "the NameNode is in safe mode", marks=takes_long, id="safe mode"),
        pytest.param(set_full, "the quota of that folder is used up", id="full"),
        pytest.param(set_read_only, "this user lacks the right to do that", marks=takes_long, id="read-only"),
    ],
)
def test_a_store_that_cannot_be_written_is_waited_for(
    search: Search, disturb: Callable[[Hdfs, str, bool], None], words: str, undisturbed: Study
) -> None:
    search.url = f"{search.cluster.url}/ann-{uuid.uuid4().hex}"  # the top of the cluster is anybody's
    search.user = "ann"  # who has started the cluster may write whatever the rights are
    place = search.cluster.path(search.url)

    def go_through_it() -> None:
        disturb(search.cluster, place, True)
        try:
            search.go_on(words)
        finally:
            disturb(search.cluster, place, False)

    search.run_with(go_through_it)
    require_waited(search, undisturbed, words)


@takes_long
def test_a_datanode_that_dies_is_done_without(search: Search, undisturbed: Study) -> None:
    def kill() -> None:
        search.cluster.call("kill-dn", "2")
        search.go_on()

    try:
        search.run_with(kill)
        require_waited(search, undisturbed, "one DataNode killed")
    finally:
        search.cluster.call("start-dn", "2")


@takes_long
def test_a_datanode_that_hangs_is_done_without(search: Search, undisturbed: Study) -> None:
    def pause() -> None:
        search.cluster.call("pause-dn", "1")
        search.go_on()

    try:
        search.run_with(pause)
        require_waited(search, undisturbed, "one DataNode stopped")
    finally:
        search.cluster.call("continue-dn", "1")
        search.cluster.call("start-dn", "1")  # it returns once the NameNode knows it again


@takes_long
def test_all_datanodes_that_die_are_waited_for(search: Search, undisturbed: Study) -> None:
    def kill() -> None:
        for number in ("1", "2"):
            search.cluster.call("kill-dn", number)
        try:
            search.go_on("cannot use the store")
        finally:
            for number in ("1", "2"):
                search.cluster.call("start-dn", number)

    search.run_with(kill)
    require_waited(search, undisturbed, "all DataNodes killed")


@pytest.mark.parametrize("goes_on", [pytest.param(False, marks=takes_long), True])
def test_a_start_behind_the_death_of_datanodes_waits_and_says_so(
    goes_on: bool, search: Search, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    url = search.cluster.new()

    def study() -> Study:
        return Study(_at_once, space={"x": uniform(0, 1)}, metric="x", mode="min", store=url, backend="processes")

    if goes_on:
        study().run(2, parallelism=1)
    for number in ("1", "2"):
        search.cluster.call("kill-dn", number)
    back = threading.Thread(target=lambda: [search.cluster.call("start-dn", number) for number in ("1", "2")])
    starting = threading.Timer(3.0, back.start)
    starting.start()
    try:
        (Study.resume(url) if goes_on else study()).run(4, parallelism=1)
    finally:
        starting.join()
        back.join()
    assert len(Study.open(url).trials) == 4
    assert "The store can be used again, after" in "".join((*capfd.readouterr(), caplog.text))


def _at_once(trial: Any) -> None:
    trial.report(x=trial.params["x"])
