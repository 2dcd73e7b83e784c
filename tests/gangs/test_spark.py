"""Trials on several workers of Spark, whose executors are processes of their own: as on one worker, without Spark.

The test command runs one of the cases, a loss; ``scripts/test_faults.sh`` runs all, and all on a standalone cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from asyncsearch import Study
from tests.gangs.searches import grid, killing, linear, require_lines
from tests.gangs.spark_searches import CASES, require_case
from tests.shares import IS_ALL, names, takes_long
from tests.spark.cluster import StandaloneCluster, spark_session

SLOTS = 2 if IS_ALL else 1
"""Of each executor."""
pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module", autouse=True, params=names(("local-cluster", "standalone"), ("local-cluster",)))
def _executors(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Two executors for all tests, with two slots each or, for the one test of the command, one: no gang fits in it."""
    with ExitStack() as opened:
        master = f"local-cluster[2,{SLOTS},1024]"
        if request.param == "standalone":
            master = opened.enter_context(StandaloneCluster(tmp_path_factory.mktemp("cluster"), cores=2)).url
        opened.enter_context(spark_session(master))
        yield


def test_trials_train_on_workers_of_two_executors_and_outlive_one(tmp_path: Path, line_alone: Study) -> None:
    (tmp_path / "killed").mkdir()
    moments = {(1, 2, 1, "step"), (2, 3, 0, "begin")} if IS_ALL else {(1, 2, 1, "step")}
    happen = killing(tmp_path / "killed", moments)
    study = grid(linear(happen), tmp_path / "s", 2, 1 + len(moments), save_every=1, backend="spark")
    study.run(parallelism=2 * SLOTS, display="none")
    assert len(list((tmp_path / "killed").iterdir())) == len(moments)
    require_lines(study, line_alone)


@takes_long
@pytest.mark.parametrize("case", CASES)
def test_weights_and_promotions_on_two_executors_are_those_of_one_worker(
    tmp_path: Path, request: pytest.FixtureRequest, case: str
) -> None:
    require_case(case, tmp_path, request)
