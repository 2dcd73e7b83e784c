"""What packing saved, or would have: times of packs are never read as those of one trial."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.engine.config import EngineConfig
from asyncsearch.errors import UsageError
from asyncsearch.report.what_if.expected import Cost, expected, measured
from asyncsearch.report.what_if.preview import preview
from asyncsearch.report.what_if.recorded_study import recorded
from asyncsearch.report.what_if.recorded_units import recorded_units
from asyncsearch.report.what_if.scaling import Packs, packing_asked, packs_to_simulate
from asyncsearch.report.what_if.worker_counts import what_if
from asyncsearch.schedulers import ASHA, FIFO, SHA
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.random import RandomSearch
from asyncsearch.simulate import Curves, Delays, Faults, TrainingModel, simulate
from asyncsearch.sizing.pack_probe import speedup_at
from asyncsearch.sizing.packing import Packing
from asyncsearch.space import Space, choice, uniform
from asyncsearch.store import open_store
from asyncsearch.testing.recording import make_state
from tests.engine.tools import Recorded, packed_state, record
from tests.report.tools import records_of, store_of

CURVE = {2: 1.8, 4: 3.2, 8: 5.0}
TRAINING = TrainingModel(pack_speedup=CURVE)
DELAYS = Delays(start_s=3.0, setup_s=0.5, commit_s=0.25)
UNIT_S = 0.5
SCHEDULERS = [FIFO(max_resource=4), SHA(max_resource=9), ASHA(max_resource=9)]
WIDTHS = Space.of({"x": uniform(0.0, 1.0), "width": choice([8, 64])})


class Planned:
    """A study as its script describes it."""

    def __init__(self, made: Recorded, scheduler: Scheduler, folder: Path) -> None:
        self.config: EngineConfig = made.state.config
        self.store = open_store(store_of(made, folder / "study"))
        self.space = Space.of({"x": uniform(0.0, 1.0)})
        self.scheduler: Any = scheduler
        self.packing = made.state.packing


def packed(scheduler: Scheduler, pack: int | str | None = 8, trials: int = 24, **options: Any) -> Recorded:
    """Return a search on one worker."""
    state = packed_state(scheduler, None)
    state.packing = packing_asked(None, pack)
    settings: dict[str, Any] = {
        "workload": Curves(seed=1, unit_s=UNIT_S),
        "delays": DELAYS,
        "training": TRAINING,
    } | options
    return record(state, trials, workers=1, **settings)


@pytest.mark.parametrize("pack", [2, 4, 8, "auto"])
@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda scheduler: scheduler.describe())
def test_units_of_packs_are_read_as_what_one_trial_takes_alone(scheduler: Scheduler, pack: int | str) -> None:
    records = records_of(packed(scheduler, pack))
    units = recorded_units(records, CURVE)
    assert units.most_lanes == (24 if pack == "auto" else pack)
    assert len(units.unit_s) == 24
    assert list(units.unit_s.values()) == pytest.approx([UNIT_S] * 24, rel=2e-3)
    metric = packed(scheduler, pack).state.config.metric
    assert recorded(records, metric, CURVE).delays.setup_s == pytest.approx(DELAYS.setup_s)


def test_what_packs_gain_is_read_from_what_auto_measured() -> None:
    units = recorded_units(records_of(packed(FIFO(max_resource=4), "auto")))
    require_curve(units.pack_speedup)
    assert list(units.unit_s.values()) == pytest.approx([UNIT_S] * 24, rel=2e-3)


def require_curve(found: Mapping[str, Mapping[int, float]]) -> None:
    """Require that the sizes that were timed gain what they do, each of ``CURVE`` among them."""
    (gains,) = found.values()
    assert set(CURVE) <= set(gains)
    assert gains == pytest.approx({size: speedup_at(CURVE, size) for size in gains})


def test_packs_gain_is_read_from_rounds_of_several_sizes_beside_one_alone() -> None:
    units = recorded_units(records_of(packed(FIFO(max_resource=4), 8, trials=25)))
    assert units.pack_speedup == {"{}": pytest.approx({1: 1.0, 8: CURVE[8]}, rel=2e-3)}
    assert list(units.unit_s.values()) == pytest.approx([UNIT_S] * 25, rel=2e-3)


def test_with_an_unknown_gain_a_trial_takes_its_share_of_the_pack() -> None:
    units = recorded_units(records_of(packed(FIFO(max_resource=4))))
    assert units.pack_speedup == {}
    assert list(units.unit_s.values()) == pytest.approx([UNIT_S / CURVE[8]] * 24)


def test_members_of_another_structure_gain_nothing_by_each_other() -> None:
    curves = {'{"width": 8}': {8: 8.0}, '{"width": 64}': {8: 2.0}}
    state = packed_state(FIFO(max_resource=4), space=WIDTHS)
    state.packing = Packing(8, "random")
    training = TrainingModel(pack_speedup=curves)
    made = record(state, 24, workers=1, workload=Curves(seed=1, unit_s=UNIT_S), training=training)
    units = recorded_units(records_of(made), curves)
    assert list(units.unit_s.values()) == pytest.approx([UNIT_S] * 24, rel=2e-3)


@pytest.mark.parametrize("pack", [4, 8, "auto"])
@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda scheduler: scheduler.describe())
def test_the_answer_for_the_packs_that_were_run_is_what_was_run(
    scheduler: Scheduler, pack: int | str, tmp_path: Path
) -> None:
    found = what_if(Planned(packed(scheduler, pack), scheduler, tmp_path), workers=[1], pack_speedup=CURVE)
    assert found.recorded is not None
    assert found.cases[0].wall_s == pytest.approx(found.recorded[1], rel=2e-3)
    assert found.cases[0].guessed == 0


@pytest.mark.parametrize("scheduler", SCHEDULERS[:2], ids=lambda scheduler: scheduler.describe())
def test_a_packed_study_is_estimated_unpacked_and_the_reverse(scheduler: Scheduler, tmp_path: Path) -> None:
    together = Planned(packed(scheduler, 8), scheduler, tmp_path / "together")
    alone = Planned(packed(scheduler, None), scheduler, tmp_path / "alone")
    ran = [what_if(one, workers=[1]).recorded for one in (together, alone)]
    packed_s, alone_s = (wall_s for _, wall_s in filter(None, ran))
    unpacked = what_if(together, workers=[1], pack=1, pack_speedup=CURVE).cases[0]
    assert unpacked.wall_s == pytest.approx(alone_s, rel=2e-3)
    assert unpacked.alone_s is None
    case = what_if(alone, workers=[1], pack=8, pack_speedup=CURVE).cases[0]
    assert case.wall_s == pytest.approx(packed_s, rel=2e-3)
    assert case.alone_s == pytest.approx(alone_s, rel=2e-3)
    assert case.saved == pytest.approx(1 - packed_s / alone_s, rel=2e-3)


def test_packs_of_one_of_an_unpacked_study_are_the_study(tmp_path: Path) -> None:
    study = Planned(packed(ASHA(max_resource=9), None), ASHA(max_resource=9), tmp_path)
    assert what_if(study, workers=[1, 3], pack=1) == what_if(study, workers=[1, 3])


def test_the_table_says_what_packing_saves_and_by_what_that_is_reckoned(tmp_path: Path) -> None:
    study = Planned(packed(FIFO(max_resource=4), "auto"), FIFO(max_resource=4), tmp_path)
    text = str(what_if(study, workers=[1]))
    assert text.splitlines()[0].split()[-3:] == ["unpacked", "packing", "saves"]
    assert "as many as train fastest together, with the gain that was measured." in text
    text = str(what_if(study, workers=[1], pack=4, pack_speedup={4: 2.0}))
    assert "up to 4 together, with the gain that was given." in text


def test_what_packs_gain_is_not_guessed(tmp_path: Path) -> None:
    alone = Planned(packed(FIFO(max_resource=4), None), FIFO(max_resource=4), tmp_path / "alone")
    with pytest.raises(
        UsageError, match=r"what_if\(pack=8\): how much packs gain has not been measured .* pack_speedup="
    ):
        what_if(alone, workers=[1], pack=8)
    together = Planned(packed(FIFO(max_resource=4)), FIFO(max_resource=4), tmp_path / "together")
    with pytest.raises(UsageError, match=r"what_if\(pack=1\): how much packs gain has not been measured"):
        what_if(together, workers=[1], pack=1)
    found = what_if(together, workers=[1])
    assert found.recorded is not None
    assert found.cases[0].wall_s == pytest.approx(found.recorded[1], rel=2e-3)
    assert found.cases[0].alone_s is None
    assert "What that gains is not known, so packs are taken to gain nothing." in str(found)


def test_a_packed_study_that_was_opened_for_reading_is_asked_as_it_ran(tmp_path: Path) -> None:
    study = Planned(packed(FIFO(max_resource=4)), FIFO(max_resource=4), tmp_path)
    study.packing = None
    found = what_if(study, workers=[1])
    assert found.recorded is not None
    assert found.cases[0].wall_s == pytest.approx(found.recorded[1], rel=2e-3)


@pytest.mark.parametrize("value", [0, -1, 2.5, True, "fast"])
def test_packs_that_cannot_be_are_refused(tmp_path: Path, value: Any) -> None:
    study = Planned(packed(FIFO(max_resource=4), None), FIFO(max_resource=4), tmp_path)
    with pytest.raises(UsageError, match="pack="):
        what_if(study, workers=[1], pack=value, pack_speedup=CURVE)


@pytest.mark.parametrize("value", [3, {8: 0.0}, {0: 1.0}, {8: "fast"}, [1.0, 2.0]])
def test_gains_that_cannot_be_are_refused(tmp_path: Path, value: Any) -> None:
    study = Planned(packed(FIFO(max_resource=4), None), FIFO(max_resource=4), tmp_path)
    with pytest.raises(UsageError, match="pack_speedup"):
        what_if(study, workers=[1], pack=8, pack_speedup=value)


def test_a_failure_in_a_pack_costs_a_trial_alone_a_unit_at_most() -> None:
    class Broken(Curves):
        def fails_after(self, trial: int) -> tuple[int, float] | None:
            return (1, 0.5) if trial == 3 else None

    made = packed(FIFO(max_resource=4), workload=Broken(seed=1, unit_s=UNIT_S))
    units, seconds = recorded(records_of(made), "loss", CURVE).fails_after(3) or (0, 0.0)  # type: ignore[arg-type]
    assert units == 1
    assert 0 < seconds <= UNIT_S * 1.05


@pytest.mark.parametrize("strategy", ["plan", "nearest", "batch_size", "random"])
def test_packs_that_gain_nothing_take_as_long_as_without_them(strategy: str) -> None:
    def wall_s(**pack: Any) -> float:
        found = simulate(Curves(seed=1), scheduler=FIFO(max_resource=4), space=WIDTHS, num_trials=32, **pack)
        assert found.is_complete
        return found.wall_s

    assert wall_s(pack=8, pack_opt=strategy) == pytest.approx(wall_s())


def test_a_preview_counts_a_packed_studys_unit_as_one_trials_alone(tmp_path: Path) -> None:
    store = open_store(store_of(packed(FIFO(max_resource=4), "auto"), tmp_path / "study"))
    cost = measured(store)
    assert cost is not None
    assert cost.unit_s == pytest.approx(UNIT_S, rel=2e-3)
    require_curve(cost.pack_speedup)
    store = open_store(store_of(packed(FIFO(max_resource=4), 8), tmp_path / "another"))
    cost = measured(store, CURVE)
    assert cost is not None
    assert cost.unit_s == pytest.approx(UNIT_S, rel=2e-3)


def test_a_preview_is_a_simulation_with_packs_and_says_what_they_save() -> None:
    packs = Packs(Packing(8), CURVE, "that was given")
    scheduler, cost = FIFO(max_resource=4), Cost(UNIT_S)
    together, alone = (expected(scheduler, 32, 1, cost, packs=one) for one in (packs, packs.alone()))
    assert together is not None
    assert alone is not None
    assert alone.wall_s == pytest.approx(32 * 4 * UNIT_S)
    assert together.wall_s == pytest.approx(alone.wall_s / CURVE[8])
    found = preview(scheduler, 32, cost=cost, expected=together, alone=alone, packed=packs.words)
    assert found.saved == pytest.approx(1 - 1 / CURVE[8])
    words = " ".join(str(found).split())
    assert "up to 8 together, with the gain that was given. That saves 80% of the time" in words


def test_a_preview_with_packs_that_gain_nothing_known_says_so() -> None:
    packs = Packs(Packing(8), {})
    found = preview(
        FIFO(max_resource=4), 8, expected=expected(FIFO(max_resource=4), 8, 1, packs=packs), packed=packs.words
    )
    assert found.saved is None
    assert "packs are taken to gain nothing" in " ".join(str(found).split())


def test_packs_are_asked_for_as_of_a_study_and_with_its_strategy() -> None:
    own = Packing(8, "nearest")
    assert packing_asked(own, None) is own
    assert packing_asked(own, 1) is None
    assert packing_asked(own, 4) == Packing(4, "nearest")
    assert packing_asked(None, "auto") == Packing(1024, is_measured=True)
    with pytest.raises(UsageError, match=r"preview\(pack=4\)"):
        packs_to_simulate(Packing(4), own, None, {}, "preview(pack=4)")


def test_costs_of_a_packed_search_are_those_of_an_unpacked_one() -> None:
    def costs(pack: int | str | None, curve: dict[int, float]) -> set[int]:
        state = make_state(FIFO(max_resource=6), RandomSearch(), share=True)
        state.packing = packing_asked(None, pack)
        training = TrainingModel(pack_speedup=curve)
        made = record(state, 24, workers=1, workload=Curves(seed=1, unit_s=UNIT_S), training=training, faults=Faults())
        known = made.state.plan.costs()
        assert known is not None
        assert known.first_s == pytest.approx(UNIT_S, rel=2e-3)
        return set(known.measured.values())

    assert costs(8, {}) == costs(None, {})
    assert costs("auto", CURVE) == costs(None, {})
