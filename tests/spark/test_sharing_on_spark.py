"""Studies of one version on Spark: executors in JVMs of their own, one after another and side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsearch import Sharing, run_together
from tests.spark.cluster import StandaloneCluster, spark_session
from tests.system.counting import FOLDER
from tests.system.several import DISTINCT, make, results, run, units

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def session(cluster: StandaloneCluster, tmp_path: Path) -> Iterator[None]:
    """A session on two executors, whose processes know the folder in which units are counted."""
    settings = {f"spark__executorEnv__{FOLDER}": str(tmp_path)}
    with spark_session(cluster.url, **settings):
        yield


@pytest.mark.usefixtures("session")
def test_studies_on_a_cluster_train_each_unit_once_in_turn_and_at_once(tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    alone = results(make(tmp_path / "alone", "a", sharing=Sharing(shared=False), backend="inline").run(display="none"))
    plan = tmp_path / "team" / "plan"
    first = run(make(tmp_path, "first", backend="spark", sharing=Sharing(shared=plan)))
    assert len(units(tmp_path)) == DISTINCT
    assert plan.is_dir()
    second = run(make(tmp_path, "second", backend="spark", sharing=Sharing(shared=plan)))
    assert set(units(tmp_path).values()) == {1}
    other = {"backend": "spark", "sharing": Sharing(shared=plan), "version": "v2"}
    together = run_together(
        [make(tmp_path, "third", **other), make(tmp_path, "fourth", **other)], parallelism=2, display="none"
    )
    assert set(units(tmp_path).values()) == {2}, "once for each version"
    assert [results(study) for study in (first, second, *together)] == [alone] * 4
