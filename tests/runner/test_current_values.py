"""The values of hyper-parameters in each unit, and inside of one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from asyncsearch.events import Outcome
from asyncsearch.runner.timeline import CurrentValues, LaneTimeline, changed
from asyncsearch.sequences import custom, exponential, multistep, values, warmup
from asyncsearch.trainable import WithFunctions
from tests.agent import trials
from tests.agent.driver import agent, make_stage

STEPS = multistep(0.1, [3]).to_json()
WARM = warmup(4, 0.1).to_json()
COLD = warmup(4, exponential(0.1, 0.5)).to_json()


def of(**params: object) -> CurrentValues:
    return CurrentValues(LaneTimeline([make_stage(stop=20, max_resource=20, params=params)]))


def test_a_value_holds_from_its_milestone_on() -> None:
    assert [of(lr=STEPS).at(time)["lr"] for time in range(5)] == [0.1, 0.1, 0.1, 0.01, 0.01]


def test_sequences_are_found_at_any_depth_and_the_rest_stays_what_it_is() -> None:
    shown = of(width=8, net={"opt": [STEPS, {"lr": STEPS}]}).at(3)
    assert shown == {"width": 8, "net": {"opt": [0.01, {"lr": 0.01}]}}


def test_a_unit_has_one_dictionary_and_the_next_one_another() -> None:
    trial = of(lr=STEPS)
    first = trial.at(2)
    assert trial.at(2) is first
    assert trial.at(3) is not first
    assert first == {"lr": 0.1}


def test_inside_a_unit_a_warm_up_rises() -> None:
    assert [of(lr=WARM).within(1, fraction)["lr"] for fraction in (0, 0.5)] == [0.025, 0.0375]
    assert of(lr=WARM).within(3, 1)["lr"] == pytest.approx(0.1, rel=1e-15)


@pytest.mark.parametrize("fraction", [0, 0.3, 0.999, 1 - 2**-53, 1])
@pytest.mark.parametrize("unit", [2, 1000, 2**40])
def test_inside_a_unit_its_own_piece_holds_up_to_the_end(unit: int, fraction: float) -> None:
    """Trap 2.3: trials that share a unit must train it alike, though they differ from its end on."""
    one, other = of(lr=values([1, 2], [unit + 1]).to_json()), of(lr=values([1, 3], [unit + 1]).to_json())
    assert one.within(unit, fraction) == other.within(unit, fraction) == {"lr": 1}


def test_a_shared_warm_up_has_the_same_floats_inside_of_its_units() -> None:
    fractions = [step / 391 for step in range(392)]
    assert [of(lr=WARM).within(3, at) for at in fractions] == [of(lr=COLD).within(3, at) for at in fractions]


def test_only_what_changed_is_passed_on() -> None:
    before = {"lr": 0.1, "bs": 32, "opt": {"name": "sgd"}, "drop": 0.0}
    now = {"lr": 0.01, "bs": 32, "opt": {"name": "adam"}, "drop": 0.0, "new": None}
    assert changed(before, now) == {"lr": 0.01, "opt": {"name": "adam"}, "new": None}
    assert changed(before, dict(before)) == {}
    assert changed({"x": 1}, {"x": 1.0}) == {"x": 1.0}


def test_a_runner_without_sequences_does_not_import_what_they_need() -> None:
    code = (
        "import sys; from asyncsearch.runner.standalone import StandaloneTrial as T; "
        "T({'lr': 0.1, 'name': 'x', 'n': None}).params; sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_function_of_the_users_own_comes_with_the_trainable(tmp_path: Path) -> None:
    def wave(time: float, height: float) -> float:
        return height * (time % 2)

    own = custom(wave, height=3)
    with agent(WithFunctions(trials.remembers, {"wave": wave}), tmp_path) as driver:  # type: ignore[arg-type]
        driver.train(0, stop=4, max_resource=4, params={"lr": own.to_json()})
        assert driver.end(0).outcome is Outcome.RETURNED, driver.end(0).error
    assert [metrics["lr"] for _, metrics in driver.reports(0)] == [0, 3, 0, 3]
