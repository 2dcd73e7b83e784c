"""Processes on a real cluster killed while trials wait for verdicts, and after promotions in place: nothing is lost."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from asyncsearch import Study
from asyncsearch.journal.opening import read_records
from tests.faults.accounts import losses, require_accounted, say, wasted
from tests.faults.tools import Search, require_kept
from tests.shares import takes_long
from tests.spark.cluster import StandaloneCluster
from tests.spark.kills_at_verdicts import IN_PLACE, KINDS, WAITS, Moments, schedule
from tests.time_spent.accounts import records_of, require_sums

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_seed_says_who_is_killed_at_which_reports() -> None:
    assert schedule(7, 8, 24) == schedule(7, 8, 24) != schedule(8, 8, 24)
    assert {kill.kind for kill in schedule(7, 8, 24)} == {*KINDS}
    assert {kill.moment for kill in schedule(7, 8, 24)} == {WAITS, IN_PLACE}


@takes_long  # of processes: tests/faults/test_storm.py
@pytest.mark.parametrize("seed", range(3))
def test_kills_around_verdicts_on_spark_lose_nothing(cluster: StandaloneCluster, tmp_path: Path, seed: int) -> None:
    kills, trials = 8, 24
    search = Search(tmp_path, "tests.spark.kills_at_verdicts")
    code, output = -signal.SIGKILL, ""
    while code == -signal.SIGKILL:
        code, output = search.run(url=cluster.url, seed=seed, faults=kills, trials=trials)
        assert code in (0, -signal.SIGKILL), output
        require_kept(search)
    assert "best: 1\n" in output
    happened = (tmp_path / "moments").read_text().splitlines()
    assert sorted(happened) == sorted(str(kill) for kill in schedule(seed, kills, trials)), "each came once"
    study = Study.open(search.study)
    require_accounted(study, range(trials, 0, -1), [1, 3, 9])
    for trial in study.trials:
        values = [(unit, metrics["loss"]) for unit, metrics in study.history(trial)]
        assert values == [(unit, trial.params["x"] / unit) for unit in range(1, trial.resource + 1)]
    require_sums(study.time_spent(), records_of(read_records(study.store)))
    moments = Moments()
    for record in read_records(study.store):
        moments.read(record)
    assert moments.counts[IN_PLACE] > 0
    say(f"{kills} kills around verdicts on Spark, seed {seed}: {wasted(study)} units wasted, {len(losses(study))} lost")
