"""Searches on one local session, which serves them one after another: it takes longer to start than they."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from asyncsearch import ASHA
from asyncsearch.errors import ClusterError, StudyExistsError
from asyncsearch.trainable import TrialContext
from tests.shares import takes_long
from tests.spark import fronts
from tests.spark.cluster import require_no_job, spark_session
from tests.system.tools import make_study, require_whole

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with spark_session("local[2]") as made:
        yield made


def quick(trial: Any) -> None:
    units: list[int] = []

    def load(path: Path) -> None:
        units.extend(map(int, path.read_text().split()))

    for unit in trial.epochs(save=lambda path: path.write_text(" ".join(map(str, units))), load=load):
        units.append(unit)
        assert units == list(range(1, unit + 1))
        trial.report(loss=trial.params["x"] / unit)


def writes_notes(trial: TrialContext) -> None:
    for epoch in trial.epochs(state={"done": {}}):
        with (trial.dir / "notes.txt").open("a") as file:
            file.write(f"{epoch} ")
        trial.report(loss=trial.params["x"] / epoch)


@pytest.mark.usefixtures("session")
def test_what_trials_write_into_their_folders_comes_back_from_spark(tmp_path: Path) -> None:
    study = make_study(writes_notes, tmp_path / "study", backend="spark").run(display="none")
    assert any(trial.resource > 1 for trial in study.trials)
    for trial in study.trials:
        with study.trial_dir(trial) as folder:
            assert (folder / "notes.txt").read_text().split() == [str(unit) for unit in range(1, trial.resource + 1)]


def test_a_search_resumed_on_an_existing_session_leaves_it_and_no_job(tmp_path: Path, session: Any) -> None:
    make_study(quick, tmp_path / "study", backend="auto", scheduler=ASHA(max_resource=9)).run(4, display="none")
    study = make_study(quick, tmp_path / "study", backend="auto", scheduler=ASHA(max_resource=9), resume=True)
    study.run(parallelism=2, display="none")
    require_whole(study)
    require_no_job(session)
    assert session.sparkContext.parallelize([1, 2], 2).sum() == 3


@takes_long  # without Spark: tests/study/remote; by Spark Connect: test_connect.py
def test_a_classic_session_has_the_driver_as_a_task_if_asked(tmp_path: Path, session: Any) -> None:
    study = make_study(quick, tmp_path / "study", backend="spark-cluster")
    require_whole(study.run(display="none"))
    require_no_job(session)


def test_a_study_that_is_refused_leaves_no_job(tmp_path: Path, session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make_study(quick, tmp_path / "study", backend="spark").run(1, display="none")
    with pytest.raises(StudyExistsError):
        make_study(quick, tmp_path / "study", backend="spark").run(1, display="none")
    require_no_job(session)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = session.sparkContext.getConf().set("spark.asyncsearch.driver.port", str(taken.getsockname()[1]))
        monkeypatch.setattr(session.sparkContext, "_conf", settings)
        with pytest.raises(ClusterError, match="the port is taken"):
            make_study(quick, tmp_path / "other", backend="spark").run(1, display="none")
    require_no_job(session)
    assert session.sparkContext.parallelize([1, 2], 2).sum() == 3


CASES = [
    pytest.param(name, victim, marks=() if (name, victim) == ("hyperopt", "agent") else takes_long)
    for name in fronts.FRONTS
    for victim in ("runner", "agent")
]


@pytest.mark.parametrize(("name", "victim"), CASES)
def test_a_program_of_another_library_outlives_what_runs_its_trials(
    name: str, victim: str, tmp_path: Path, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("hyperopt")
    from asyncsearch.programs.waiting_run import let_go

    monkeypatch.chdir(tmp_path)
    trace = fronts.Trace(tmp_path / "trace", victim)
    try:
        values = fronts.FRONTS[name](trace)
    finally:
        let_go()
    fronts.require_whole(trace, values, {})
    assert fronts.acknowledged(tmp_path) == values
    require_no_job(session)


@takes_long
@pytest.mark.parametrize("name", fronts.FRONTS)
def test_a_program_whose_driver_was_killed_goes_on_by_the_same_line(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.spark.fronts", name, str(tmp_path / "trace")]
    own = f"ASYNCSEARCH_TEST={tmp_path}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "ASYNCSEARCH_TEST": str(tmp_path)}
    known: dict[str, float | None] = {}
    outputs = []
    for code in (-signal.SIGKILL, 0):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        require_none_left(own)
        outputs.append(done.stdout)
        known = known or fronts.acknowledged(tmp_path)
    values = {x: float(value) for x, value in map(str.split, outputs[-1].splitlines())}
    trace = fronts.Trace(tmp_path / "trace", "driver")
    fronts.require_whole(trace, values, known, cancelled=2 if name == "hyperopt" else 0)


def require_none_left(variable: str) -> None:
    """Require that the processes end that have a variable in their environment."""
    left = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if variable in [f"{name}={value}" for name, value in process.environ().items()]:
                left.append(process)
    _, alive = psutil.wait_procs(left, timeout=60)
    assert not alive
