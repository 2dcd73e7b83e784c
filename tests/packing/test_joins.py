"""Members that join a pack midway: each trial's results are those of its training alone, in double precision."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from asyncsearch import Study
from asyncsearch.runner.context import SearchContext
from asyncsearch.runner.packs.packed_training import PackRun
from asyncsearch.runner.protocol import Ended, PackFindings
from tests.agent.recorder import Recorder
from tests.packing.joined_searches import (
    MANY,
    MOMENTS,
    dying,
    joined,
    patient,
    require_results_of_lone_trainings,
    search,
)
from tests.packing.test_torch_units import Blobs
from tests.packing.test_train_together import alone, stage, values
from tests.runner.test_packed_training import NoInterrupts
from tests.shares import names, takes_long
from tests.spark.cluster import spark_session

pytestmark = pytest.mark.usefixtures("torch_workers")


@pytest.mark.parametrize("start", [0, 2])
def test_a_member_that_joins_midway_reports_what_it_reports_alone(tmp_path: Path, start: int) -> None:
    load = None
    if start:
        alone(tmp_path / "before", Blobs, 2, stop=start, save=True)
        load = tmp_path / "before" / f"0-{start}"
    links: dict[int, Recorder] = {}
    told: list[PackFindings | Ended] = []

    def context(lane: int, load: Path | None = None, **changes: int) -> SearchContext:
        (tmp_path / str(lane)).mkdir()
        links[lane] = Recorder(tmp_path / str(lane))
        return SearchContext([stage(lane, **changes)], links[lane], load)

    def coming() -> dict[int, SearchContext]:
        return {2: context(2, load, start=start)} if 2 not in links and len(links[0].reports) == 1 else {}

    PackRun(Blobs, {lane: context(lane) for lane in (0, 1)}, NoInterrupts(), "accuracy", told.append, (), coming).run()
    for lane in range(3):
        expected = alone(tmp_path / f"alone {lane}", Blobs, lane)
        assert values(links[lane]) == pytest.approx(values(expected)[start if lane == 2 else 0 :], abs=1e-9)


@takes_long  # and a process or the driver dies: below
def test_each_trial_of_a_search_with_joined_packs_reports_as_it_does_alone(tmp_path: Path) -> None:
    found = search(patient(Blobs, tmp_path), tmp_path / "s").run(MANY, parallelism=1, display="none")
    assert joined(found)
    assert len(found.trials) == MANY
    require_results_of_lone_trainings(found, Blobs, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("moment", names(MOMENTS, ["joined"]))
def test_a_process_killed_as_a_lane_joins_costs_no_trial_its_results(tmp_path: Path, moment: str) -> None:
    kind = dying(patient(Blobs, tmp_path, 99, "died"), tmp_path, moment)
    found = search(kind, tmp_path / "s").run(MANY, parallelism=1, display="none")
    assert (tmp_path / "died").exists()
    assert len(found.trials) == MANY
    assert [trial.failures for trial in found.trials] == [0] * MANY
    assert sum(trial.losses for trial in found.trials) > 1
    require_results_of_lone_trainings(found, Blobs, tmp_path)


@takes_long
@pytest.mark.spark
@pytest.mark.slow
def test_lanes_join_and_a_process_is_killed_on_spark_too(tmp_path: Path) -> None:
    with spark_session("local[2]"):
        kind = dying(patient(Blobs, tmp_path, 99, "died"), tmp_path, "joined")
        found = search(kind, tmp_path / "s", backend="spark").run(MANY, parallelism=1, display="none")
    assert (tmp_path / "died").exists()
    assert [trial.failures for trial in found.trials] == [0] * MANY
    require_results_of_lone_trainings(found, Blobs, tmp_path)


_DRIVER = """
import os, signal, sys
from pathlib import Path
from asyncsearch.actions import AddLane
from asyncsearch.driver.dispatcher import Dispatcher
from tests.packing.joined_searches import patient, search
from tests.packing.test_torch_units import Blobs

give, left, is_sent = Dispatcher._give, [int(sys.argv[2])], sys.argv[3] == "after"

def die(self, action):
    left[0] -= isinstance(action, AddLane)
    is_last = isinstance(action, AddLane) and left[0] == 0
    if is_last and not is_sent:
        os.kill(os.getpid(), signal.SIGKILL)
    give(self, action)
    if is_last:
        os.kill(os.getpid(), signal.SIGKILL)

Dispatcher._give = die
store = Path(sys.argv[1])
search(patient(Blobs, store.parent, int(sys.argv[2])), store).run(40, parallelism=1, display="none")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "when"),
    [
        pytest.param(1, "before", marks=takes_long),
        (1, "after"),
        pytest.param(4, "before", marks=takes_long),
    ],
)
def test_a_driver_that_dies_as_it_sends_a_lane_loses_nothing(tmp_path: Path, number: int, when: str) -> None:
    store = tmp_path / "s"
    command = [sys.executable, "-c", _DRIVER, str(store), str(number), when]
    ended = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, timeout=300, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    assert len(joined(Study.open(store))) >= number
    (tmp_path / "enough").touch()
    found = Study.resume(store).run(40, parallelism=1, display="none")
    assert len(found.trials) == 40
    assert [trial.failures for trial in found.trials] == [0] * 40
    require_results_of_lone_trainings(found, Blobs, tmp_path)
