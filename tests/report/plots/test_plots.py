"""Pictures are whole SVG, escaped, and show what they say."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import choice
from asyncsearch.errors import NoTrialsError, UsageError
from asyncsearch.report.plots.charts import ORANGE, Plot, load_altair, titled
from asyncsearch.report.plots.plots import plot_history, plot_rungs
from asyncsearch.sequences.svg import PAPER
from asyncsearch.study.study import Study
from tests.report.plots.test_incumbents import searched
from tests.report.tools import simulated, store_of
from tests.shares import takes_long

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return Study.open(store_of(simulated(), tmp_path_factory.mktemp("study") / "study"))


def parsed(plot: Plot) -> ET.Element:
    return ET.fromstring(plot.svg)


def words(plot: Plot) -> str:
    return " ".join("".join(element.itertext()) for element in parsed(plot).iter(f"{SVG}text"))


def rows(plot: Plot, having: str) -> list[dict[str, Any]]:
    """Return the rows of a chart's data that have some field."""
    return [row for row in values(plot.chart.to_dict()) if having in row]


def values(spec: Any) -> Iterator[dict[str, Any]]:
    if isinstance(spec, dict):
        yield from spec.get("data", {}).get("values", [])
        for name, part in spec.items():
            yield from values(part) if name != "data" else ()
    elif isinstance(spec, list):
        for part in spec:
            yield from values(part)


def drawn_dots(plot: Plot) -> list[dict[str, str]]:
    groups = [group for group in parsed(plot).iter(f"{SVG}g") if "mark-symbol" in group.get("class", "")]
    return [dict(path.attrib) for group in groups for path in group.iter(f"{SVG}path")]


def test_history_labels_its_axes_and_names_the_best_trial(study: Study) -> None:
    shown = words(plot_history(study))
    assert "units of training of the trial" in shown
    assert "units of training of all trials" in shown
    assert "loss" in shown
    assert f"{study.best_trial.name}, the best" in shown


def test_history_ends_with_the_best_value(study: Study) -> None:
    assert f"best so far: {study.best_trial.best:.5g}" in words(plot_history(study))


def rung_dots(study: Study) -> list[dict[str, Any]]:
    return rows(plot_rungs(study), "continued")


def test_rungs_have_a_dot_for_every_trial_that_reached_them(study: Study) -> None:
    reached = [trial.resource for trial in study.trials]
    wanted = sum(sum(resource >= level for resource in reached) for level in (1, 3, 9))
    assert len(rung_dots(study)) == wanted
    assert len(drawn_dots(plot_rungs(study))) == wanted


def test_rungs_fill_the_dots_of_those_that_went_on(study: Study) -> None:
    filled = [dot for dot in drawn_dots(plot_rungs(study)) if dot.get("fill") != PAPER]
    reached = [trial.resource for trial in study.trials]
    assert len(filled) == sum(sum(resource > level for resource in reached) for level in (1, 3))


def test_rungs_mark_the_best_trial_wherever_it_was(study: Study) -> None:
    best = study.best_trial
    marked = [dot for dot in drawn_dots(plot_rungs(study)) if dot.get("stroke") == ORANGE]
    assert len(marked) == sum(best.resource >= level for level in (1, 3, 9))
    assert f"{best.name}, the best" in words(plot_rungs(study))


@pytest.mark.parametrize("mode", ["min", "max"])
def test_history_names_a_line_where_it_ends(mode: str, tmp_path: Path) -> None:
    made = searched([4.0, 3.0, 2.5], [5.0, 2.0, 1.0], [6.0, 6.0, 6.0], mode=mode)
    shown = Study.open(store_of(made, tmp_path / "study"))
    spec = plot_history(shown).chart.to_dict()
    curve = [(at, metrics["loss"]) for at, metrics in shown.history(shown.best_trial)]
    for panel, end in zip(spec["hconcat"], [curve[-1], (9, shown.best_trial.best)], strict=True):
        (named,) = {(row["units"], row["value"]) for row in values(panel) if "text" in row}
        assert named == end


@pytest.mark.parametrize(
    ("units", "kind"), [(9, "linear"), (99, "linear"), (100, "log"), pytest.param(5000, "log", marks=takes_long)]
)
def test_the_best_so_far_of_a_long_search_has_a_logarithmic_axis(units: int, kind: str, tmp_path: Path) -> None:
    made = Study.open(store_of(searched([1.0 / (unit + 1) for unit in range(units)]), tmp_path / "study"))
    axis = plot_history(made).chart.to_dict()["hconcat"][1]["layer"][0]["encoding"]["x"]
    assert axis["scale"].get("type", "linear") == kind
    assert axis["axis"]["values"] == sorted(set(axis["axis"]["values"]))
    assert len(axis["axis"]["values"]) >= 2


def test_history_has_every_report_of_every_trial(study: Study) -> None:
    found = rows(plot_history(study), "trial")
    shown = {row["trial"]: list(zip(row["units"], row["value"], strict=True)) for row in found}
    told = {trial.name: study.history(trial) for trial in study.trials}
    wanted = {name: [(at, metrics["loss"]) for at, metrics in history] for name, history in told.items() if history}
    assert shown == wanted


@pytest.mark.parametrize(("name", "first"), [("a.svg", b"<svg"), ("a.PNG", b"\x89PNG"), ("a.html", b"<!DOCTYPE html>")])
def test_a_plot_is_saved_as_the_ending_of_the_name_says(study: Study, tmp_path: Path, name: str, first: bytes) -> None:
    path = plot_rungs(study).save(tmp_path / name)
    assert path == tmp_path / name
    assert path.read_bytes().lstrip().startswith(first)


def test_a_page_shows_its_chart_where_no_network_is(study: Study, tmp_path: Path) -> None:
    page = plot_rungs(study).save(tmp_path / "a.html").read_text(encoding="utf-8")
    assert re.findall(r"<(?:script|link)[^>]+(?:src|href)=", page) == []


@pytest.mark.parametrize("name", ["a.jpg", "a", "a.svg.gz"])
def test_another_ending_is_refused_with_the_line_to_write(study: Study, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"\.svg, \.png, \.html: write plot\.save\('.*a(\.svg)?\.svg'\)"):
        plot_rungs(study).save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_names_are_escaped(tmp_path: Path) -> None:
    title = "<script>&'\""
    chart = load_altair("a test").Chart(load_altair("a test").Data(values=[{}])).mark_point()
    assert title in words(titled(chart, title))


def test_a_plot_is_whole_whatever_characters_names_have(tmp_path: Path) -> None:
    title = "digits\x1b[2J\0\x0b\ud800\ufffe"
    chart = load_altair("a test").Chart(load_altair("a test").Data(values=[{}])).mark_point()
    assert r"digits\x1b[2J\x00\x0b\ud800\ufffe" in words(titled(chart, title))


@pytest.mark.parametrize("missing", ["altair", "vl_convert"])
@pytest.mark.parametrize("plot", [plot_history, plot_rungs])
def test_without_the_extra_it_is_named(plot: Any, missing: str, study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)  # an import of it fails as if it was not installed
    with pytest.raises(UsageError, match=rf"{plot.__name__}\(\) is drawn by .*pip install 'asyncsearch\[plots\]'"):
        plot(study)


def test_a_study_without_values_has_no_plot(tmp_path: Path) -> None:
    study = Study.open(store_of(simulated(), tmp_path / "study", lines=3))
    with pytest.raises(NoTrialsError, match="has reported a finite 'loss' yet"):
        plot_history(study)


@pytest.mark.parametrize("plot", [plot_history, plot_rungs])
@pytest.mark.parametrize("study", [3, None, "studies/digits", Study])
def test_what_is_no_study_has_no_plot(plot: Any, study: Any) -> None:
    with pytest.raises(UsageError, match=r"is not a study: write e\.g\. plot_history"):
        plot(study)


@pytest.mark.parametrize(("losses", "kind"), [([34.0, 1.0, 1e-4, 2e-8], "log"), ([3.0, 2.0, 1.0, 0.5], "linear")])
def test_the_best_so_far_shows_its_first_values_too(losses: list[float], kind: str, tmp_path: Path) -> None:
    def train(trial: Any) -> None:
        trial.report(loss=losses[trial.params["number"]])

    made = Study(
        train,
        space={"number": choice(*range(len(losses)))},
        searcher="grid",
        metric="loss",
        mode="min",
        store=tmp_path / "s",
        backend="inline",
    ).run(display="none")
    spec = plot_history(made).chart.to_dict()["hconcat"][1]["layer"][0]["encoding"]["y"]["scale"]
    assert spec.get("type", "linear") == kind
    low, high = spec["domain"]
    assert low <= min(losses)
    assert high >= max(losses)
    assert not spec.get("clamp")
