"""Folders of trials in a store on HDFS: they travel with the checkpoints, and are read from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncsearch import ASHA, Study, TrialContext, uniform
from tests.clusters.tools import Machine

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def train(trial: TrialContext) -> None:
    for epoch in trial.epochs(state={"weights": {}}):
        (trial.dir / "a folder").mkdir(exist_ok=True)
        with (trial.dir / "a folder" / "losses.txt").open("a") as file:
            file.write(f"{epoch}\n")
        trial.report(loss=trial.params["x"] / epoch)


@pytest.mark.parametrize("scheme", ["hdfs", "webhdfs"])
def test_a_folder_of_a_trial_is_read_from_hdfs_with_each_line_once(
    machine: Machine, hdfs: str, scheme: str, tmp_path: Path
) -> None:
    gateway = machine.script("hdfs.sh", "status").replace("http:", "webhdfs:").split()[-1]
    home = hdfs if scheme == "hdfs" else gateway
    study = Study(
        train,
        space={"x": uniform(0.0, 1.0)},
        metric="loss",
        mode="min",
        scheduler=ASHA(max_resource=9),
        store=f"{home}/{tmp_path.name}",
        backend="processes",
    )
    study.run(num_trials=9, parallelism=2, display="none")
    assert {trial.resource for trial in study.trials} >= {1, 3}
    for trial in study.trials:
        with study.trial_dir(trial) as path:
            lines = (path / "a folder" / "losses.txt").read_text().split()
        assert lines == [str(unit + 1) for unit in range(trial.resource)]
