"""Pictures are whole SVG, escaped, and show what they say."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.errors import NoTrialsError, UsageError
from asyncsearch.report.plots.plots import plot_history, plot_rungs
from asyncsearch.report.plots.svg import Axis, Plot
from asyncsearch.study.study import Study
from tests.report.tools import simulated, store_of

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return Study.open(store_of(simulated(), tmp_path_factory.mktemp("study") / "study"))


def parsed(plot: Plot) -> ET.Element:
    return ET.fromstring(plot.svg)


def words(plot: Plot) -> str:
    return " ".join("".join(element.itertext()) for element in parsed(plot).iter(f"{SVG}text"))


def test_history_labels_its_axes_and_names_the_best_trial(study: Study) -> None:
    shown = words(plot_history(study))
    assert "units of training of the trial" in shown
    assert "units of training of all trials" in shown
    assert "loss" in shown
    assert f"{study.best_trial.name}, the best" in shown


def test_history_ends_with_the_best_value(study: Study) -> None:
    assert f"best so far: {study.best_trial.best:.5g}" in words(plot_history(study))


def test_rungs_have_a_dot_for_every_trial_that_reached_them(study: Study) -> None:
    dots = list(parsed(plot_rungs(study)).iter(f"{SVG}circle"))
    reached = [trial.resource for trial in study.trials]
    assert len(dots) == sum(sum(resource >= level for resource in reached) for level in (1, 3, 9))


def test_rungs_fill_the_dots_of_those_that_went_on(study: Study) -> None:
    dots = list(parsed(plot_rungs(study)).iter(f"{SVG}circle"))
    filled = [dot for dot in dots if "fill-opacity" in dot.attrib]
    reached = [trial.resource for trial in study.trials]
    assert len(filled) == sum(sum(resource > level for resource in reached) for level in (1, 3))


def test_a_plot_is_saved_as_a_file(study: Study, tmp_path: Path) -> None:
    path = plot_history(study).save(tmp_path / "history.svg")
    assert ET.parse(path).getroot().tag == f"{SVG}svg"


def test_titles_are_escaped() -> None:
    plot = Plot("<script>&'\"", 100, 100, [])
    assert parsed(plot).find(f"{SVG}title") is not None
    assert words(plot) == "<script>&'\""


def test_a_study_without_values_has_no_plot(tmp_path: Path) -> None:
    study = Study.open(store_of(simulated(), tmp_path / "study", lines=3))
    with pytest.raises(NoTrialsError, match="has reported a finite 'loss' yet"):
        plot_history(study)


@pytest.mark.parametrize("plot", [plot_history, plot_rungs])
@pytest.mark.parametrize("study", [3, None, "studies/digits", Study])
def test_what_is_no_study_has_no_plot(plot: Any, study: Any) -> None:
    with pytest.raises(UsageError, match=r"is not a study: write e\.g\. plot_history"):
        plot(study)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.97, 0.98), (-5e3, 7e4), (1e-9, 2e-9), (3.0, 3.0)])
def test_ticks_lie_on_the_axis_and_are_few(low: float, high: float) -> None:
    axis = Axis(low, high, 0, 100)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 12
    assert all(-1 <= axis(tick) <= 101 for tick in ticks)


def test_a_log_axis_puts_equal_factors_at_equal_distances() -> None:
    axis = Axis(1, 81, 0, 100, is_log=True)
    assert math.isclose(axis(9) - axis(3), axis(27) - axis(9))
