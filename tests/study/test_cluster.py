"""Studies that share the workers of one cluster: on processes of this machine, begun at different times."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, FIFO, Cluster, Study, uniform
from asyncsearch.errors import MetricNotReportedError, UsageError
from asyncsearch.events import RunRequested, ShareChanged, WorkerAttached
from asyncsearch.journal.opening import read_records
from asyncsearch.trial import TrialState
from tests.study.clustered import gated, mute, named, train


def make(folder: Path, name: str, function: Any = train, **options: Any) -> Study:
    settings: dict[str, Any] = {
        "space": {"x": uniform(0.0, 1.0)},
        "metric": "loss",
        "mode": "min",
        "scheduler": ASHA(max_resource=9),
        "store": folder / name,
    }
    return Study(function, **(settings | options))


def attached(study: Study) -> list[float]:
    """When a worker attached to the study, each time."""
    return [record.t for record in read_records(study.store) if isinstance(record.event, WorkerAttached)]


def test_two_studies_of_one_worker_take_turns_in_own_processes_and_end(tmp_path: Path) -> None:
    common = {"x": uniform(0.0, 1.0), "folder": str(tmp_path)}
    first, second = (make(tmp_path, name, named, space=common | {"name": name}) for name in ("first", "second"))
    with Cluster(1, backend="processes", display="none", turn=0.2) as cluster:
        handles = [cluster.submit(study, 6) for study in (first, second)]
        assert handles[0].wait() is first
        assert handles[1].wait() is second
    for study in (first, second):
        assert len(study.trials) == 6
        assert all(trial.state in (TrialState.PAUSED, TrialState.COMPLETED) for trial in study.trials)
    lines = [line.split() for line in (tmp_path / "pids").read_text().splitlines()]
    runners, starters = ({(pids[place], pids[0]) for pids in lines} for place in (1, 2))
    for owners in (runners, starters):
        assert len({pid for pid, _ in owners}) == len(owners), "a process has trained trials of two studies"
    assert {name for _, name in starters} == {"first", "second"}


def shares_of(study: Study) -> list[int]:
    """The shares that a study has had, one after another."""
    return [record.event.workers for record in read_records(study.store) if isinstance(record.event, ShareChanged)]


def test_a_newcomer_gets_workers_of_the_only_study_and_nothing_repeats(tmp_path: Path) -> None:
    space = {"x": uniform(0.0, 1.0), "folder": str(tmp_path)}
    first = make(tmp_path, "first", gated, space=space, scheduler=FIFO(max_resource=4))
    second = make(tmp_path, "second", scheduler=FIFO(max_resource=2))
    with Cluster(2, backend="processes", display="none", patience=0.1) as cluster:
        slow = cluster.submit(first, 8)
        wait_until(lambda: len(attached(first)) == 2)
        quick = cluster.submit(second, 4)
        wait_until(lambda: 1 in shares_of(first))
        (tmp_path / "open").touch()
        quick.wait()
        assert slow.is_running or len(first.trials) == 8
    assert [trial.resource for trial in first.trials] == [4] * 8
    assert [trial.trained for trial in first.trials] == [4] * 8
    assert sum(trial.losses for trial in first.trials) == 0
    requests = [record.event for record in read_records(second.store) if isinstance(record.event, RunRequested)]
    assert [request.share for request in requests] == [0]


def wait_until(is_true: Any) -> None:
    for _ in range(3000):
        if is_true():
            return
        threading.Event().wait(0.02)
    raise AssertionError("it never came to that")


def test_a_study_keeps_its_limit_and_a_higher_priority_comes_first(tmp_path: Path) -> None:
    low, high = make(tmp_path, "low"), make(tmp_path, "high")
    with Cluster(3, backend="processes", display="none") as cluster:
        cluster.submit(high, 6, max_workers=1, priority=1)
        cluster.submit(low, 6)
    assert max(shares_of(high)) == 1
    assert shares_of(high)[0] == 1


def test_one_that_fails_stops_no_other_and_its_error_is_raised_once(tmp_path: Path) -> None:
    broken, good = make(tmp_path, "broken", mute), make(tmp_path, "good")
    with Cluster(2, backend="processes", display="none") as cluster:
        handles = [cluster.submit(broken, 3), cluster.submit(good, 6)]
        with pytest.raises(MetricNotReportedError) as raised:
            handles[0].wait()
    assert "'broken'" in raised.value.__notes__[0]
    assert len(handles[1].result.trials) == 6


def test_an_interrupted_study_keeps_its_results_and_the_others_go_on(tmp_path: Path) -> None:
    space = {"x": uniform(0.0, 1.0), "folder": str(tmp_path)}
    endless = make(tmp_path, "endless", gated, space=space, scheduler=FIFO(max_resource=4))
    other = make(tmp_path, "other")
    with Cluster(2, backend="processes", display="none") as cluster:
        handle = cluster.submit(endless, 4)
        last = cluster.submit(other, 6)
        wait_until(lambda: attached(endless))
        with pytest.raises(UsageError, match="wait"):
            _ = handle.result
        handle.interrupt()
        (tmp_path / "open").touch()
        with pytest.raises(KeyboardInterrupt):
            handle.wait()
        assert len(last.wait().trials) == 6
    again = make(tmp_path, "endless", gated, space=space, scheduler=FIFO(max_resource=4), resume=True)
    again.run(4, parallelism=2, display="none")
    assert [trial.resource for trial in again.trials] == [4] * 4


def test_ctrl_c_is_raised_once_and_the_handles_give_what_there_is(tmp_path: Path) -> None:
    space = {"x": uniform(0.0, 1.0), "folder": str(tmp_path)}
    studies = [make(tmp_path, name, gated, space=space, scheduler=FIFO(max_resource=4)) for name in ("first", "second")]
    cluster = Cluster(2, backend="processes", display="none")
    handles = [cluster.submit(study, 4) for study in studies]

    def press() -> None:
        wait_until(lambda: all(map(attached, studies)))
        (tmp_path / "open").touch()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        cluster.wait()
    assert [handle.result for handle in handles] == studies
    cluster.wait()
    cluster.close()


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"weight": 0}, "weight=0 must be a positive, finite number"),
        ({"weight": float("nan")}, "weight=nan"),
        ({"weight": -1}, "weight=-1"),
        ({"max_workers": 0}, "max_workers=0 must be a positive integer"),
        ({"priority": 1.5}, "priority=1.5 must be an integer"),
        ({"num_trials": None}, "num_trials=None"),
        ({"timeout": 0}, "timeout=0"),
        ({"parallelism": 4}, "parallelism"),
    ],
)
def test_impossible_terms_are_refused_before_a_worker_starts(tmp_path: Path, terms: dict[str, Any], words: str) -> None:
    with Cluster(2, backend="processes", display="none") as cluster:
        with pytest.raises(UsageError, match=words):
            cluster.submit(make(tmp_path, "first"), **({"num_trials": 4} | terms))
        assert cluster._launcher is None
    assert not (tmp_path / "first").exists()


def test_studies_that_cannot_share_a_cluster_are_refused(tmp_path: Path) -> None:
    first = make(tmp_path, "first", scheduler=FIFO(max_resource=2))
    with Cluster(1, backend="processes", display="none") as cluster:
        handle = cluster.submit(first, 4)
        with pytest.raises(UsageError, match="running already"):
            cluster.submit(first, 4)
        with pytest.raises(UsageError, match="have the store"):
            cluster.submit(make(tmp_path, "first"), 4)
        with pytest.raises(UsageError, match="backend='processes'"):
            cluster.submit(make(tmp_path, "inline", backend="inline"), 4)
        with pytest.raises(UsageError, match="name a study"):
            cluster.submit("first", 4)  # type: ignore[arg-type]
        handle.wait()
    with pytest.raises(UsageError, match="closed"):
        cluster.submit(make(tmp_path, "late"), 4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"parallelism": 0}, "parallelism=0"),
        ({"backend": "sprak"}, "backend='spark'"),
        ({"display": "table"}, "display='table'"),
        ({"display": "notebook"}, "Jupyter"),
        ({"turn": 0}, "turn=0"),
        ({"patience": -1}, "patience=-1"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Cluster(**options)


def test_the_lines_of_several_studies_name_their_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(2, backend="processes", display="plain") as cluster:
        for name in ("first", "second"):
            cluster.submit(make(tmp_path, name), 4)
    lines = capsys.readouterr().out.splitlines()
    assert {line.partition(":")[0] for line in lines} - {"note"} == {"first", "second"}
