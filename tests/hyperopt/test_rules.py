"""Hyperopt's rules where points are evaluated in processes, some of them at a time."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperopt
import numpy as np
import pytest
from hyperopt.base import JOB_STATE_CANCEL, JOB_STATE_DONE, JOB_STATE_ERROR

import asyncsearch.hyperopt as ours
from asyncsearch import Study
from asyncsearch.errors import NotPicklableError, TrialsFailedError, UsageError
from asyncsearch.hyperopt.trials_runs import TrialsRuns
from asyncsearch.programs import waiting_run
from tests.shares import takes_long

ROOT = Path(__file__).parents[2]
hp = hyperopt.hp


@pytest.fixture(autouse=True)
def _workers(quiet: None) -> None:
    ours.workers(2, backend="processes")


class DepthError(ValueError):
    """An error with a value that its class needs."""

    def __init__(self, depth: int) -> None:
        super().__init__(f"depth {depth}")
        self.depth = depth


def states(trials: Any) -> list[int]:
    return [one["state"] for one in trials._dynamic_trials]


def test_two_workers_keep_the_rules_of_one_search(caplog: pytest.LogCaptureFixture) -> None:
    """Each number once, callbacks in one thread with finished points, the driver's trials live, changes said."""
    calls: list[Any] = []
    counted: list[int] = []
    trials = ours.Trials()

    def objective(point: dict[str, Any]) -> dict[str, Any]:
        counted.append(1)  # on the worker, which is said
        return {
            "loss": point["x"] ** 2,
            "status": "ok",
            "pid": os.getpid(),
            "known": len(trials.trials),
            "x": point["x"],
        }

    def stop(seen: Any, *args: Any) -> tuple[bool, list[Any]]:
        calls.append((threading.current_thread(), [one["state"] for one in seen.trials], seen.trials[-1]["tid"]))
        return False, [len(calls), *args][:1]

    ours.fmin(
        objective,
        {"x": hp.uniform("x", -5, 5)},
        algo=ours.tpe.suggest,
        max_evals=12,
        trials=trials,
        early_stop_fn=stop,
        verbose=False,
    )
    assert [one["tid"] for one in trials.trials] == list(range(12))
    assert states(trials) == [JOB_STATE_DONE] * 12
    assert {thread for thread, _, _ in calls} == {threading.main_thread()}
    assert [len(seen) for _, seen, _ in calls] == list(range(1, 13))
    assert sorted(tid for _, _, tid in calls) == list(range(12))
    results = trials.results
    assert os.getpid() not in {result["pid"] for result in results}
    assert max(result["known"] for result in results) >= 11
    assert all(result["x"] == one["misc"]["vals"]["x"][0] for result, one in zip(results, trials.trials, strict=True))
    assert counted == []
    assert "changes counted on its worker" in caplog.text

    pool = waiting_run._waiting[0][0]
    ours.fmin(objective, {"x": hp.uniform("x", -5, 5)}, max_evals=13, trials=trials, verbose=False)
    assert pool is not None
    assert waiting_run._waiting[0][0] is pool, "the workers have stayed"


def test_the_first_exception_ends_trials_as_itself() -> None:
    ours.workers(1, backend="inline")

    def objective(x: float) -> float:
        if x > 3:
            raise DepthError(7)
        return x

    trials = ours.Trials()
    with pytest.raises(DepthError, match="depth 7") as caught:
        ours.fmin(objective, hp.uniform("x", 0, 4), algo=ours.rand.suggest, max_evals=60, trials=trials, verbose=False)
    assert "raise DepthError(7)" in str(caught.value.__cause__)
    assert caught.value.depth == 7
    assert JOB_STATE_ERROR in states(trials)
    assert set(states(trials)) <= {JOB_STATE_DONE, JOB_STATE_ERROR}
    assert len(states(trials)) < 60
    failed = [one for one in trials._dynamic_trials if one["state"] == JOB_STATE_ERROR]
    assert "DepthError" in failed[0]["misc"]["error"][0]
    assert len(pickle.loads(pickle.dumps(trials))._dynamic_trials) == len(states(trials))


def die_once(point: dict[str, Any]) -> float:
    """End the process of the worker, at one of the points."""
    if point["n"] == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if point["n"] == 3:
        raise DepthError(3)
    return float(point["n"])


def count_up(new_ids: list[int], domain: Any, trials: Any, seed: int) -> Any:
    documents = hyperopt.rand.suggest(new_ids, domain, trials, seed)
    for one in documents:
        one["misc"]["vals"]["n"] = [one["tid"]]
    return documents


@takes_long
def test_a_lost_point_has_failed_as_one_that_raised(caplog: pytest.LogCaptureFixture) -> None:
    space = {"n": hp.randint("n", 100)}
    trials = ours.Trials()
    ours.fmin(die_once, space, algo=count_up, max_evals=6, trials=trials, catch_eval_exceptions=True, verbose=False)
    assert states(trials) == [2, 2, 3, 3, 2, 2]
    assert "lost" in trials._dynamic_trials[2]["misc"]["error"][1]
    plain = ours.Trials()
    with pytest.raises(TrialsFailedError, match="worker of trial 2 was lost"):
        ours.fmin(die_once, space, algo=count_up, max_evals=3, trials=plain, verbose=False)
    assert states(plain) == [2, 2, 3]


PROGRAM = """
import os, signal, sys
import numpy as np
import asyncsearch.hyperopt as hyperopt

def objective(point):
    return {"loss": point["x"] ** 2, "status": "ok", "pair": (point["x"], np.arange(2))}

def kill(trials, *rest):
    if sys.argv[1] == "kill" and len(trials.trials) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return False, []

if __name__ == "__main__":
    hyperopt.workers(1, backend="inline", store="kept")
    trials = hyperopt.Trials()
    space = {"x": hyperopt.hp.uniform("x", -5, 5)}
    hyperopt.fmin(objective, space, algo=hyperopt.rand.suggest, max_evals=8, trials=trials, early_stop_fn=kill,
                  rstate=np.random.default_rng(1), verbose=False)
    for one in trials.trials:
        print(one["tid"], one["state"], one["misc"]["vals"], one["result"])
"""


def test_trials_of_a_driver_that_is_no_more_go_on_by_the_same_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ours.workers(1, backend="inline", store="kept")
    space = {"x": hp.uniform("x", -5, 5)}

    def found(**given: Any) -> Any:
        waiting_run.let_go()  # as in a new process
        monkeypatch.setattr(TrialsRuns, "_numbered", 0)
        trials = ours.Trials()
        rstate = np.random.default_rng(1)
        options = {"algo": ours.rand.suggest, "trials": trials, "rstate": rstate, "verbose": False}
        ours.fmin(
            lambda point: {"loss": point["x"] ** 2, "status": "ok", "at": (1, point["x"])}, space, **options, **given
        )
        return trials

    def stop(trials: Any, *args: Any) -> tuple[bool, list[Any]]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        found(max_evals=6, early_stop_fn=stop)
    trials = found(max_evals=6)
    assert "1 points of an earlier process" in caplog.text
    ours.workers(1, backend="inline", store="whole")
    whole = found(max_evals=6)
    assert trials.results == whole.results, "as if it had not ended"
    assert found(max_evals=6).vals == whole.vals, "and nothing more is evaluated"
    story = Study.open("kept/trials/1").explain("trial-0")
    assert "begun 0, point x " in story
    assert "ended ok, loss " in story


@takes_long
def test_a_killed_driver_goes_on_by_the_same_line(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    other = tmp_path / "other"
    other.mkdir()
    runs = [
        subprocess.run([sys.executable, script, word], cwd=folder, env=env, capture_output=True, text=True, check=False)
        for word, folder in (("kill", tmp_path), ("go on", tmp_path), ("whole", other))
    ]
    assert [run.returncode for run in runs] == [-signal.SIGKILL, 0, 0], runs[1].stderr
    ours_, whole = [[line.partition(" ")[2] for line in run.stdout.splitlines()] for run in runs[1:]]
    assert len(ours_) == len(set(ours_)) == 8, "nothing is drawn twice"
    # The point whose callback killed the driver may have been written; if only its beginning was, it is drawn no more.
    assert ours_[:3] == whole[:3]
    assert len(set(ours_) & set(whole)) >= 7
    assert "points of an earlier process" in runs[1].stderr


def test_what_cannot_be_sent_is_named_with_the_line_to_write() -> None:
    lock = threading.Lock()

    def objective(x: float) -> float:
        with lock:
            return x**2

    trials = ours.Trials()
    given = {"space": hp.uniform("x", -1, 1), "algo": ours.rand.suggest, "max_evals": 3, "verbose": False}
    with pytest.raises(NotPicklableError, match=r"variable 'lock'.*hyperopt.workers\(backend='threads'\)"):
        ours.fmin(objective, trials=trials, **given)
    assert len(trials) == 0
    ours.workers(1, backend="threads")
    ours.fmin(objective, trials=trials, rstate=np.random.default_rng(1), **given)
    theirs = hyperopt.Trials()
    hyperopt.fmin(objective, trials=theirs, rstate=np.random.default_rng(1), **given)
    assert trials.vals == theirs.vals
    assert trials.losses() == theirs.losses()


def test_a_result_that_cannot_be_sent_fails_its_point_by_name() -> None:
    ours.workers(1, backend="inline")
    with pytest.raises(NotPicklableError, match="result 'guard' is a _thread\\.lock"):
        ours.fmin(
            lambda x: {"loss": x, "status": "ok", "guard": threading.Lock()},
            hp.uniform("x", 0, 1),
            algo=ours.rand.suggest,
            max_evals=2,
            verbose=False,
        )


@pytest.fixture
def over() -> Iterator[threading.Event]:
    """The end of the test, for which objectives that were cancelled in threads wait."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("backend", ["threads", pytest.param("processes", marks=takes_long)])
def test_spark_trials_go_on_after_errors_and_cancel_at_their_timeout(backend: str, over: threading.Event) -> None:
    ours.workers(2, backend=backend)
    wait = over.wait if backend == "threads" else lambda seconds: threading.Event().wait(seconds)

    def objective(point: dict[str, Any]) -> float:
        if point["n"] == 1:
            raise DepthError(1)
        if point["n"] >= 4:
            wait(600)
        return float(point["n"])

    trials = ours.SparkTrials(parallelism=2, timeout=1)
    best = ours.fmin(objective, {"n": hp.randint("n", 100)}, algo=count_up, max_evals=50, trials=trials, verbose=False)
    assert best == {"n": 0}
    assert isinstance(trials, hyperopt.SparkTrials)
    assert trials.count_failed_trials() == 1
    assert "raise DepthError(1)" in trials._dynamic_trials[1]["misc"]["error"][1]
    assert trials.count_cancelled_trials() >= 1
    assert set(states(trials)) == {JOB_STATE_DONE, JOB_STATE_ERROR, JOB_STATE_CANCEL}
    assert trials.fmin_cancelled_reason == "fmin run timeout"


def test_ctrl_c_cancels_what_runs_and_the_trials_go_on(over: threading.Event) -> None:
    ours.workers(1, backend="threads")
    pressed = threading.Event()

    def objective(x: float) -> float:
        if not pressed.is_set() and len(trials.trials) == 3:
            pressed.set()
            signal.pthread_kill(
                threading.get_ident(), signal.SIGINT
            )  # of which the main thread, waiting, hears nothing
            over.wait(600)
        return x

    trials = ours.Trials()
    given = {"space": hp.uniform("x", 0, 1), "algo": ours.rand.suggest, "trials": trials, "verbose": False}
    with pytest.raises(KeyboardInterrupt):
        ours.fmin(objective, max_evals=5, **given)
    assert states(trials) == [JOB_STATE_DONE, JOB_STATE_DONE, JOB_STATE_CANCEL]
    ours.fmin(objective, max_evals=5, **given)
    assert len(trials) == trials.count_by_state_synced(JOB_STATE_DONE) == 5


@takes_long
def test_a_space_may_have_functions_of_its_own_and_an_objective_may_search() -> None:
    ours.workers(1, backend="processes")

    @hyperopt.pyll.scope.define  # type: ignore[untyped-decorator]  # not typed there
    def halved(value: float) -> float:
        return value / 2

    def objective(x: float) -> float:
        inner = ours.fmin(
            lambda y: (y - x) ** 2, hp.uniform("y", -1, 1), algo=ours.rand.suggest, max_evals=3, verbose=False
        )
        return abs(float(inner["y"]) - x)

    try:
        space = hyperopt.pyll.scope.halved(hp.uniform("x", 0, 1))
        assert 0 <= ours.fmin(objective, space, algo=ours.rand.suggest, max_evals=2, verbose=False)["x"] <= 1
    finally:
        hyperopt.pyll.scope.undefine("halved")


def test_searches_in_several_threads_keep_apart() -> None:
    """Inline, where all their points are evaluated in this process, each by the trials of its own search."""
    ours.workers(1, backend="inline")
    found: dict[int, Any] = {}
    begin = threading.Barrier(3)

    def search(number: int) -> None:
        trials = ours.Trials()

        def objective(x: float) -> dict[str, Any]:
            return {"loss": x, "status": "ok", "number": number, "seen": len(trials.trials)}

        begin.wait(60)
        for most in (2, 4):
            space = hp.uniform("x", 0, 1)
            ours.fmin(objective, space, algo=ours.rand.suggest, max_evals=most, trials=trials, verbose=False)
        found[number] = [(result["number"], result["seen"]) for result in trials.results]

    threads = [threading.Thread(target=search, args=[number], daemon=True) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert found == {number: [(number, seen) for seen in (1, 2, 3, 4)] for number in range(3)}


def test_no_objective_makes_a_loss_of_a_refusal() -> None:
    ours.workers(1, backend="inline")
    trials = ours.Trials()

    def objective(point: dict[str, Any]) -> float:
        try:
            trials.new_trial_ids(1)
        except Exception:
            return -1.0
        return 0.0

    with pytest.raises(UsageError, match="Trials are changed by the driver"):
        ours.fmin(objective, {"x": hp.uniform("x", 0, 1)}, ours.rand.suggest, 3, trials=trials, verbose=False)
    assert len(trials.trials) == 1


class MongoTrials(hyperopt.Trials):  # type: ignore[misc]  # not typed here
    """Hyperopt's own needs a database to be made."""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_eval": 5}, "max_evals"),
        ({"max_evals": "5"}, "write max_evals=100"),
        ({"algo": hyperopt.tpe}, "write algo=tpe.suggest"),
        ({"trials": MongoTrials()}, "write trials=Trials"),
        ({"trials": []}, "write trials=Trials"),
        ({"rstate": 42}, "write rstate=np.random.default_rng"),
    ],
)
def test_bad_input_is_answered_by_what_to_write(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ours.fmin(lambda x: x, hp.uniform("x", 0, 1), **{"algo": ours.rand.suggest, **given})
