"""Studies of one version train once what they share: one after another, at the same time, and when one of them dies."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, SHA, Cluster, Sharing, Study, run_together
from asyncsearch.errors import MetricNotReportedError, NotEnoughSlotsError, SpaceError, UsageError
from asyncsearch.events import WorkRefused
from asyncsearch.journal.opening import read_records
from asyncsearch.launch import processes
from asyncsearch.launch.base_launcher import Preflight
from asyncsearch.launch.processes import ProcessLauncher
from asyncsearch.shared.folder import SharedFolder
from asyncsearch.store import Store, open_store
from tests.system.several import DISTINCT, SPACE, TRIALS, UNITS, make, make_here, results, run, run_here, units
from tests.system.tools import PATIENCE_S
from tests.system.trained import Gate


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """The results of a study that shares with nobody."""
    return results(run_here(make_here(tmp_path_factory.mktemp("alone"), "a", sharing=Sharing(shared=False))))


def test_two_studies_one_after_another_train_each_unit_once(tmp_path: Path, alone: list[object]) -> None:
    first = run_here(make_here(tmp_path, "first"))
    assert results(first) == alone
    assert len(units(tmp_path)) == DISTINCT
    second = run_here(make_here(tmp_path, "second"))
    assert results(second) == alone
    assert set(units(tmp_path).values()) == {1}
    assert len(second.trials) == TRIALS
    taken = f"0 trained and {DISTINCT} taken from other studies: each unit serves 2.00 trials"
    assert taken in second.tree().summary


def start(folder: Path, name: str, stop_at: int | None = None) -> subprocess.Popen[str]:
    stop = [] if stop_at is None else [str(stop_at)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.system.several", str(folder), name, *stop],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def end(driver: subprocess.Popen[str]) -> str:
    output, _ = driver.communicate(timeout=PATIENCE_S)
    return output


def test_two_drivers_at_once_train_each_unit_once_and_have_every_result(tmp_path: Path, alone: list[object]) -> None:
    gate = Gate(tmp_path).make()
    first = start(tmp_path, "first", stop_at=3)
    gate.pids()
    second = start(tmp_path, "second")
    wait_until(lambda: is_refused(open_store(tmp_path / "studies" / "second")))
    gate.open()
    outputs = end(first), end(second)
    assert (first.returncode, second.returncode) == (0, 0), outputs
    assert set(units(tmp_path).values()) == {1}
    assert len(units(tmp_path)) == DISTINCT
    for name in ("first", "second"):
        assert results(Study.open(tmp_path / "studies" / name)) == alone


def test_a_killed_drivers_work_is_taken_over_and_only_the_unsaved_repeated(tmp_path: Path, alone: list[object]) -> None:
    gate = Gate(tmp_path).make()
    first = start(tmp_path, "first", stop_at=6)
    gate.pids()
    second = start(tmp_path, "second")
    wait_until(lambda: is_refused(open_store(tmp_path / "studies" / "second")))
    first.kill()
    end(first)
    output = end(second)
    assert second.returncode == 0, output
    assert results(Study.open(tmp_path / "studies" / "second")) == alone
    repeated = {unit: count for unit, count in units(tmp_path).items() if count > 1}
    saved = 5
    assert all(len(json.loads(unit)) > saved and count == 2 for unit, count in repeated.items()), repeated
    again = start(tmp_path, "first")
    output = end(again)
    assert again.returncode == 0, output
    assert results(Study.open(tmp_path / "studies" / "first")) == alone
    assert {unit: count for unit, count in units(tmp_path).items() if count > 1} == repeated


def is_refused(store: Store) -> bool:
    """Whether a study has found another one at its work."""
    records = read_records(store)
    return any(isinstance(record.event, WorkRefused) and record.event.busy for record in records)


def test_studies_of_different_versions_share_nothing(tmp_path: Path) -> None:
    run_here(make_here(tmp_path, "first"))
    run_here(make_here(tmp_path, "second", version="v2"))
    assert set(units(tmp_path).values()) == {2}


def test_a_study_goes_on_where_another_one_paused_and_keeps_what_it_needs(tmp_path: Path) -> None:
    short = run_here(
        make_here(tmp_path, "short", scheduler=SHA(max_resource=UNITS, min_resource=2, reduction_factor=3))
    )
    assert min(trial.resource for trial in short.trials) == 2
    run_here(make_here(tmp_path, "long", sharing=Sharing(quota_bytes=1)))
    repeated = [unit for unit, count in units(tmp_path).items() if count > 1]
    assert len(units(tmp_path)) == DISTINCT
    assert [len(json.loads(unit)) for unit in repeated] == [5], "nobody had asked to save where a third course parts"
    with Study.open(tmp_path / "studies" / "short").checkpoint() as path:
        assert len(json.loads(path.read_text())) == make_open(tmp_path, "short").best_trial.resource
    sizes = SharedFolder(open_store(tmp_path / "studies" / "plan")).usage()
    needed = {trial.checkpoint for name in ("short", "long") for trial in make_open(tmp_path, name).trials}
    assert set(sizes) == needed - {None}


def make_open(folder: Path, name: str) -> Study:
    return Study.open(folder / "studies" / name)


def test_parameters_that_a_space_lacks_merge_only_by_declared_defaults(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_here(make_here(tmp_path, "first"))
    lacking = {"lr": SPACE["lr"]}
    run_here(make_here(tmp_path, "undeclared", space=lacking))
    assert any("Sharing(defaults={'batch_size': ...})" in record.message for record in caplog.records)
    trained = units(tmp_path)
    assert max(trained.values()) == 2
    caplog.clear()
    study = run_here(make_here(tmp_path, "declared", space=lacking, sharing=Sharing(defaults={"batch_size": 32})))
    assert units(tmp_path) == trained
    assert len(study.trials) == TRIALS // 2
    assert not any("'declared" in record.message for record in caplog.records)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sharing": Sharing(shared="plan"), "version": ""}, "version='model-1/data-1'"),
        ({"sharing": Sharing(shared="plan"), "share": False}, "share=False"),
    ],
)
def test_what_cannot_be_shared_is_refused_with_the_next_step(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        make(tmp_path, "first", **options)


def test_a_study_goes_on_as_it_began_sharing_or_not(tmp_path: Path) -> None:
    run_here(make_here(tmp_path, "first"))
    with pytest.raises(UsageError, match="shared"):
        run_here(make_here(tmp_path, "first", sharing=Sharing(shared=False), resume=True))


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline, "it never came to that"
        threading.Event().wait(0.05)


def test_studies_run_together_train_each_unit_once_and_have_every_result(
    tmp_path: Path, alone: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    studies = run_together([make(tmp_path, "first"), make(tmp_path, "second")], parallelism=2, display="plain")
    assert set(units(tmp_path).values()) == {1}
    assert len(units(tmp_path)) == DISTINCT
    assert [results(study) for study in studies] == [alone, alone]
    lines = capsys.readouterr().out.splitlines()
    assert {line.partition(":")[0] for line in lines} - {"note"} == {"first", "second"}


def test_a_later_study_takes_over_what_one_of_its_version_trains(
    tmp_path: Path, alone: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOP_AT", "3")
    gate = Gate(tmp_path).make()
    first, second = make(tmp_path, "first"), make(tmp_path, "second")
    with Cluster(2, backend="processes", display="none", turn=0.5) as cluster:
        cluster.submit(first)
        gate.pids()
        cluster.submit(second)
        wait_until(lambda: is_refused(open_store(tmp_path / "studies" / "second")))
        gate.open()
    assert set(units(tmp_path).values()) == {1}
    assert len(units(tmp_path)) == DISTINCT
    assert [results(study) for study in (first, second)] == [alone, alone]


def test_of_studies_run_together_one_that_fails_does_not_stop_the_others(tmp_path: Path, alone: list[object]) -> None:
    broken = make(tmp_path, "broken", metric="accuracy", version="v2")
    good = make(tmp_path, "good")
    with pytest.raises(MetricNotReportedError) as raised:
        run_together([broken, good], parallelism=2, display="none")
    assert "'broken'" in raised.value.__notes__[0]
    assert results(good) == alone


def test_ctrl_c_ends_all_studies_that_run_together_and_each_can_resume(
    tmp_path: Path, alone: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(tmp_path).make()
    monkeypatch.setenv("STOP_AT", "3")
    studies = [make(tmp_path, "first"), make(tmp_path, "second")]

    def interrupt() -> None:
        gate.pids()
        signal.raise_signal(signal.SIGINT)
        gate.open()

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        run_together(studies, parallelism=2, display="none")
    assert [results(run(make(tmp_path, name, resume=True))) for name in ("first", "second")] == [alone, alone]


def test_studies_with_one_launcher_between_them_are_refused(tmp_path: Path) -> None:
    launcher = ProcessLauncher()
    studies = [make(tmp_path, name, backend=launcher) for name in ("first", "second")]
    with pytest.raises(UsageError, match=r"same ProcessLauncher.*backend='processes'"):
        run_together(studies)
    assert not (tmp_path / "studies").exists()


class TwoSlots(ProcessLauncher):
    """A cluster whose slots cannot be shared."""

    def check(self, parallelism: int | None) -> Preflight:
        if (parallelism or 0) > 2:
            raise NotEnoughSlotsError("There are 2.")
        return Preflight(parallelism=parallelism or 2)


@pytest.mark.parametrize("parallelism", [None, 1, 2])
def test_more_studies_than_slots_are_refused_before_one_begins(tmp_path: Path, parallelism: int | None) -> None:
    studies = [make(tmp_path, name, backend=TwoSlots()) for name in ("first", "second", "third")]
    with pytest.raises(NotEnoughSlotsError, match=f"3 studies.*at most {parallelism or 2}"):
        run_together(studies, parallelism=parallelism, display="none")
    assert not (tmp_path / "studies").exists()


def test_more_studies_than_cores_share_them_and_that_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processes, "cores", lambda: 1)
    run_together([make(tmp_path, "first"), make(tmp_path, "second")], display="plain")
    assert capsys.readouterr().out.count("2 workers share 1 cores") == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [({"backend": "inline"}, "processes"), ({"store": "first"}, "store of its own|one of its own")],
)
def test_studies_that_cannot_run_together_are_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    second = {"store": tmp_path / "studies" / "first"} if "store" in options else options
    with pytest.raises(UsageError, match=words):
        run_together([make(tmp_path, "first"), make(tmp_path, "second", **second)])


LR = {"sequence": "multistep", "value": 0.1, "milestones": [5], "gamma": 0.1}


@pytest.mark.parametrize("version", ["v1", ""])
def test_what_is_known_is_evaluated_at_once_and_what_is_not_is_trained(tmp_path: Path, version: str) -> None:
    study = make_here(tmp_path, "first", version=version)
    params = {"lr": LR, "batch_size": 32}
    trained = study.evaluate(params, 2)
    assert len(units(tmp_path)) == 2
    assert study.evaluate(params, 2) == study.evaluate({"batch_size": 32, "lr": LR}, 2) == trained
    assert len(units(tmp_path)) == 2, "it is known by now"
    run_here(study)
    history = dict(study.history(0))
    assert history[2] == trained
    before = units(tmp_path)
    assert all(study.evaluate(params, resource) == history[resource] for resource in range(1, UNITS + 1))
    assert Study.open(study.store.url).evaluate(study.trials[0].params, 4) == history[4]
    assert units(tmp_path) == before
    if version:
        assert set(before.values()) == {1}, "what eval trained, the study goes on from"


def test_eval_of_a_study_that_shares_nothing_resumes_its_checkpoints(tmp_path: Path) -> None:
    end = 10
    study = run_here(
        make_here(tmp_path, "first", version="", scheduler=SHA(max_resource=end, min_resource=5, reduction_factor=2))
    )
    paused = next(t for t in study.trials if t.resource == 5 and t.params["lr"]["milestones"] != [5])
    before = units(tmp_path)
    found = study.evaluate(paused.params, end)
    assert sum(units(tmp_path).values()) == sum(before.values()) + end - 5
    assert found.resource == end
    assert study.evaluate(paused.params, end) == found
    assert sum(units(tmp_path).values()) == sum(before.values()) + end - 5, "it is known by now"
    alone = run_here(make_here(tmp_path, "whole", version="", scheduler=FIFO(max_resource=end)))
    twin = next(trial for trial in alone.trials if trial.params == paused.params)
    assert found == dict(alone.history(twin.id))[end]


def test_a_configuration_of_trials_that_share_nothing_is_evaluated_too(tmp_path: Path) -> None:
    study = make_here(tmp_path, "first", version="", share=False)
    params = {"lr": LR, "batch_size": 32}
    trained = study.evaluate(params, 2)
    assert study.evaluate(params, 2) == trained
    assert len(units(tmp_path)) == 2


def test_what_cannot_be_evaluated_is_refused_with_the_next_step(tmp_path: Path) -> None:
    study = make_here(tmp_path, "first")
    with pytest.raises(UsageError, match="max_resource=6"):
        study.evaluate({"lr": LR, "batch_size": 32}, 7)
    with pytest.raises(SpaceError, match="batch_size"):
        study.evaluate({"lr": LR, "batch_size": 33}, 2)
    run_here(study)
    with pytest.raises(UsageError, match=r"resume"):
        Study.open(study.store.url).evaluate({"lr": LR, "batch_size": 33}, 2)
