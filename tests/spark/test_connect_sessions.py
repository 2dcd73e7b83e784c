"""Sessions of a Spark Connect server that close, or search side by side, and what comes back from their workers."""

from __future__ import annotations

import copy
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from asyncsearch import FIFO, TrialContext
from asyncsearch.errors import WorkersLostError
from asyncsearch.launch.spark.broadcast import MOST_SENT_BYTES, STORED
from asyncsearch.launch.spark.launcher import SparkLauncher
from tests.faults.accounts import losses
from tests.shares import takes_long
from tests.spark.cluster import require_no_job
from tests.spark.connect_server import connect_session, server_context
from tests.system.tools import Running, make_study, require_whole
from tests.system.trained import Gate, make_trainable

pytestmark = pytest.mark.spark
pytest.importorskip("grpc_status")


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[Any]:
    with connect_session() as made:
        yield made


def require_no_query() -> None:
    require_no_job(SimpleNamespace(sparkContext=server_context()))


@takes_long  # a new session's Python is started by Spark, which took minutes on a busy machine
def test_a_session_that_its_server_closes_is_made_anew(session: Any, tmp_path: Path) -> None:
    other = type(session)(connection=session.client._builder)
    gate = Gate(tmp_path).make()
    study = make_study(make_trainable(gate), tmp_path / "study", backend=SparkLauncher(other))
    running = Running(study)
    gate.pids()
    other.client.release_session()  # ends its queries, too
    require_whole(running.wait())
    other.client.close()
    require_no_query()


@takes_long  # a new session's Python is started by Spark
def test_a_closed_session_that_cannot_be_made_anew_ends_the_run_in_words(session: Any, tmp_path: Path) -> None:
    builder = copy.copy(session.client._builder)
    builder._params = {**builder._params, builder.PARAM_SESSION_ID: str(uuid.uuid4())}  # a name that is used up now
    other = type(session)(connection=builder)
    gate = Gate(tmp_path).make()
    study = make_study(make_trainable(gate), tmp_path / "study", backend=SparkLauncher(other))
    running = Running(study)
    gate.pids()
    other.client.release_session()
    with pytest.raises(WorkersLostError, match="the Spark Connect session was closed, by its server or here"):
        running.wait()
    other.client.close()
    study = make_study(make_trainable(gate), tmp_path / "study", backend="spark", resume=True)
    require_whole(study.run(parallelism=2, display="none"))
    require_no_query()


@takes_long  # one session: the tests above
def test_two_sessions_of_a_server_search_side_by_side(session: Any, tmp_path: Path) -> None:
    others = [type(session)(connection=session.client._builder) for _ in range(2)]
    gates, runs = [], []
    for number, other in enumerate(others):
        (folder := tmp_path / str(number)).mkdir()
        gates.append(Gate(folder).make())
        study = make_study(make_trainable(gates[-1]), folder / "study", backend=SparkLauncher(other))
        runs.append(Running(study, parallelism=1))
    for gate in gates:
        gate.pids()  # both train
    for gate in gates:
        gate.open()
    for run, other in zip(runs, others, strict=True):
        require_whole(run.wait())
        assert not losses(run.study)
        other.client.close()
    require_no_query()


def writes_and_prints(trial: TrialContext) -> float:
    (trial.dir / "note.txt").write_text(trial.name)
    sys.stdout.write(f"this is {trial.name}\n")
    return float(trial.params["x"])


@takes_long  # on a classic session: test_local_session.py
def test_folders_and_lines_of_trials_come_from_queries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = make_study(writes_and_prints, tmp_path / "study", backend="spark", scheduler=FIFO())
    study.run(2, parallelism=2, logs=True, display="plain")
    shown = capsys.readouterr().out
    for trial in study.trials:
        assert f"this is {trial.name}" in shown
        with study.trial_dir(trial) as folder:
            assert (folder / "note.txt").read_text() == trial.name


@takes_long  # without a session: test_broadcast.py
def test_a_large_bundle_goes_through_the_store_and_leaves_nothing(tmp_path: Path) -> None:
    weights = os.urandom(MOST_SENT_BYTES + 1)

    def train(trial: TrialContext) -> float:
        return float(trial.params["x"] * len(weights))

    study = make_study(train, tmp_path / "study", backend="spark", scheduler=FIFO())
    study.run(2, parallelism=2, display="none")
    assert study.best_trial.value == len(weights)
    assert not list((tmp_path / "study").glob(f"{STORED}*"))
