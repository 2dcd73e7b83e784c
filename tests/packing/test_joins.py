"""Members that join a pack midway: each trial's results are those of its training alone, in double precision."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncsearch import ASHA, Study, uniform
from asyncsearch.actions import AddLane
from asyncsearch.journal.opening import read_records
from asyncsearch.journal.projection import history
from asyncsearch.runner.context import SearchContext
from asyncsearch.runner.packed_training import run_pack
from asyncsearch.runner.protocol import Ended, PackFindings, Train
from asyncsearch.runner.training import run_training
from asyncsearch.trainable import as_function
from tests.agent.driver import make_stage
from tests.agent.recorder import Recorder
from tests.packing.test_torch_units import Blobs
from tests.packing.test_train_together import alone, stage, values
from tests.runner.test_packed_training import NoInterrupts


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

    run_pack(Blobs, {lane: context(lane) for lane in (0, 1)}, NoInterrupts(), "accuracy", told.append, (), coming)
    for lane in range(3):
        expected = alone(tmp_path / f"alone {lane}", Blobs, lane)
        assert values(links[lane]) == pytest.approx(values(expected)[start if lane == 2 else 0 :], abs=1e-9)


def test_each_trial_of_a_packed_search_whose_packs_are_joined_reports_what_it_reports_alone(tmp_path: Path) -> None:
    found = Study(
        Blobs,
        space={"lr": uniform(0.01, 0.1), "p": uniform(0.0, 0.3)},
        metric="loss",
        mode="min",
        scheduler=ASHA(max_resource=9),
        store=tmp_path / "s",
        pack=4,
        backend="processes",
    ).run(14, parallelism=1, display="none")
    records = list(read_records(found.store))
    joined = [action for record in records for action in record.actions if isinstance(action, AddLane)]
    assert joined
    assert len(found.trials) == 14
    for trial in found.trials:
        reports = history(records, trial.id)
        link = Recorder(tmp_path / trial.name)
        whole = make_stage(0, params=trial.params, seed=joined[0].added.stages[0].seed, stop=9, max_resource=9)
        run_training(as_function(Blobs), Train((whole,)), link, NoInterrupts(), "loss")
        expected = {resource: metrics["loss"] for resource, metrics in link.reports}
        for resource, metrics in reports:
            assert metrics["loss"] == pytest.approx(expected[resource], abs=1e-9), (trial, resource)
