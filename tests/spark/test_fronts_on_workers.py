"""Programs of other libraries on three workers of a cluster, each an executor of its own, one of which is killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import Study
from asyncsearch.programs.waiting_run import let_go
from asyncsearch.trial import TrialState
from tests.shares import takes_long
from tests.spark import fronts
from tests.spark.cluster import require_no_job, spark_session

pytestmark = pytest.mark.spark
GRID = [0.5 + at for at in range(9)]
ENDED = {TrialState.COMPLETED, TrialState.STOPPED}


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with spark_session("local-cluster[3,1,1024]", spark__executor__memory="512m") as made:
        yield made


def hyperopt_grid(trace: fronts.Trace) -> Counter[float]:
    """Its algo gives each point of a grid once; all documents have come to their ends."""
    import asyncsearch.hyperopt as hyperopt

    def suggest(ids: list[int], domain: Any, trials: Any, seed: int) -> Any:
        documents = hyperopt.rand.suggest(ids, domain, trials, seed)
        for document in documents:
            document["misc"]["vals"]["x"] = [document["tid"]]
        return documents

    def objective(point: dict[str, float]) -> float:
        trace.begin(point["x"])
        trace.end(point["x"])
        return point["x"] ** 2

    hyperopt.workers(3, backend="spark", retries_lost=True)
    trials = hyperopt.Trials()
    space = {"x": hyperopt.hp.choice("x", GRID)}
    hyperopt.fmin(objective, space, algo=suggest, max_evals=len(GRID), trials=trials, verbose=False)
    assert {one["state"] for one in trials.trials} == {hyperopt.JOB_STATE_DONE}
    assert trials.losses() == [GRID[one["misc"]["vals"]["x"][0]] ** 2 for one in trials.trials]
    return Counter(GRID[one["misc"]["vals"]["x"][0]] for one in trials.trials)


def ray_grid(trace: fronts.Trace) -> Counter[float]:
    import asyncsearch.ray

    asyncsearch.ray.install()
    try:
        from ray import tune

        def train(config: dict[str, float]) -> None:
            trace.begin(config["x"])
            for step in (1, 2):
                tune.report({"loss": config["x"] * step})
            trace.end(config["x"])

        asyncsearch.ray.workers(3, backend="spark", display="none")
        config = tune.TuneConfig(metric="loss", mode="min")
        found = tune.Tuner(train, param_space={"x": tune.grid_search(GRID)}, tune_config=config).fit()
        assert found.num_errors == 0
        require_ended(found.study)
        return Counter(one.config["x"] for one in found)
    finally:
        asyncsearch.ray.workers()
        asyncsearch.ray.uninstall()


def maggy_grid(trace: fronts.Trace) -> Counter[float]:
    from asyncsearch.maggy import Searchspace, experiment, workers

    def train(x: float, reporter: Any) -> float:
        trace.begin(x)
        reporter.broadcast(-x)
        trace.end(x)
        return x

    workers(3, backend="spark", display="none")
    space = Searchspace(x=("DISCRETE", GRID))
    result = experiment.lagom(
        train, searchspace=space, optimizer="gridsearch", num_trials=len(GRID), es_policy="none", name="maggy"
    )
    assert result["num_trials"] == len(GRID)
    (place,) = [found.parent for found in Path("studies").rglob("study.json")]
    study = Study.open(place)
    require_ended(study)
    return Counter(trial.params["x"] for trial in study.trials)


def require_ended(study: Study) -> None:
    assert {trial.state for trial in study.trials} <= ENDED


GRIDS: Mapping[str, Callable[[fronts.Trace], Counter[float]]] = {
    "hyperopt": hyperopt_grid,
    "ray": ray_grid,
    "maggy": maggy_grid,
}


@takes_long  # with two workers of one executor: test_local_session.py
@pytest.mark.parametrize("name", GRIDS)
def test_a_grid_on_three_executors_has_each_point_once(
    name: str, tmp_path: Path, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("hyperopt")
    monkeypatch.chdir(tmp_path)
    trace = fronts.Trace(tmp_path / "trace", "runner")
    try:
        found = GRIDS[name](trace)
    finally:
        let_go()
    assert found == Counter(GRID)
    begun, ended = trace.count("begin"), trace.count("end")
    assert set(map(float, ended)) == set(GRID)
    assert trace.killed.exists()
    assert begun.total() == len(GRID) + 1, "what ran on the killed worker begins once more, and nothing else"
    require_no_job(session)
