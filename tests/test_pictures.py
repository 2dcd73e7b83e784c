"""Every picture is whole: nothing is drawn outside of it, whichever of the usual fonts it is shown in."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.report.plots.plots import plot_history, plot_rungs
from asyncsearch.report.plots.workers import plot_time_spent, plot_timeline
from asyncsearch.schedulers import ASHA, FIFO
from asyncsearch.searchers import GridSearch
from asyncsearch.sequences import constant, cosine_restarts, multistep, step, values, warmup
from asyncsearch.sequences.svg import BESIDE, shortened, text_width
from asyncsearch.space import choice, loguniform
from asyncsearch.study.study import Study
from tests.pictures import ink_outside, size, texts
from tests.scripts.tools import imported

ROOT = Path(__file__).resolve().parent.parent
DOCS = sorted((ROOT / "docs").rglob("*.svg"))
METHODS = ("random", "SHA", "ASHA", "Hyperband", "PBT", "TPE", "ASHA with TPE")
LONG = "validation loss, MEAN over WWW of all ≤ 5 folds — élan, 損失"


def train(trial: Any) -> None:
    for epoch in trial.epochs(save=lambda path: path.write_text("w"), load=lambda path: path.read_text()):
        trial.report(
            {LONG: 1e-5 * trial.params["lr"] / (epoch + 1) - 123456.0, "loss": trial.params["lr"] / (epoch + 1)}
        )


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2 of two colours, from 1 to 21."""
    low, high = sorted(map(_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04 else ((part + 0.055) / 1.055) ** 2.4 for part in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("studies")


def searched(folder: Path, name: str, trials: int, **options: Any) -> Study:
    usual = {"space": {"lr": loguniform(1e-4, 1e-1)}, "metric": "loss", "mode": "min", "seed": 1}
    settings: dict[str, Any] = usual | options
    study = Study(train, name=name, store=folder / "-".join(name[:20].split()), backend="inline", **settings)
    study.run(trials, display="none")
    return study


@pytest.fixture(scope="module")
def usual(folder: Path) -> Study:
    return searched(folder, "digits", 20, scheduler=ASHA(max_resource=27))


@pytest.fixture(scope="module")
def lengthy(folder: Path) -> Study:
    """A study with long names and values, one of whose trials is named by the picture."""
    name = "a-study-with-a-name-that-is-longer-than-any-title-should-be-" * 3
    return searched(folder, name, 3, scheduler=FIFO(max_resource=1), metric=LONG)


@pytest.fixture(scope="module")
def branching(folder: Path) -> Study:
    """Schedules of which several share their beginnings, and end at the end of the picture."""
    drops = [multistep(0.1, milestones=[at]) for at in (4, 6, 8)]
    space = {"lr": choice(*drops, *(warmup(2, drop) for drop in drops))}
    return searched(folder, "walk", 6, space=space, searcher=GridSearch(), scheduler=FIFO(max_resource=12))


SEQUENCES = [
    warmup(5, cosine_restarts(0.1, T_0=10)),
    constant(-1.2345e-12),
    step(1.2345e-101, 30),
    values(["WWWWWWWWWWWWWWWWWWWWWWWW", "an optimizer with a long name", "損失" * 12], milestones=[3, 6]),
]


def test_pictures_of_the_pages_are_whole() -> None:
    outside = {path.name: ink_outside(path.read_text(encoding="utf-8")) for path in DOCS}
    assert {name: sides for name, sides in outside.items() if sides} == {}


@pytest.mark.parametrize("name", ["usual", "lengthy", "branching"])
def test_pictures_of_studies_are_whole(name: str, request: pytest.FixtureRequest) -> None:
    study = request.getfixturevalue(name)
    plots = plot_history, plot_rungs, plot_timeline, plot_time_spent
    for picture in (*(plot(study) for plot in plots), study.tree()):
        assert ink_outside(picture.svg) == [], type(picture).__name__


@pytest.mark.parametrize("name", ["usual", "lengthy", "branching"])
def test_a_notebook_shows_a_picture_in_its_colours_and_as_wide_as_its_cell(
    name: str, request: pytest.FixtureRequest
) -> None:
    study = request.getfixturevalue(name)
    sequence = multistep(0.1, milestones=[3])
    pictures = [(p.svg, p._repr_html_()) for p in (plot_history(study), plot_rungs(study), plot_timeline(study))]
    for svg, page in [
        *pictures,
        (study.tree().svg, study.tree()._repr_html_()),
        (sequence.plot(), sequence._repr_html_()),
    ]:
        shown, saved = ET.fromstring(page or ""), ET.fromstring(svg)
        assert texts(page or "") == texts(svg), "nothing is lost"
        assert len([*shown.iter()]) == len([*saved.iter()]), "a div is added, and the card is gone"
        (drawn,) = shown
        assert "width:100%" in drawn.attrib["style"]
        assert "height" not in drawn.attrib, "which would not follow the width"
        assert not any("id" in one.attrib for one in shown.iter()), "two pictures of a page would share it"
        for one in shown.iter():
            colours = {one.attrib[kind] for kind in ("fill", "stroke") if kind in one.attrib}
            least = 2.9 if one.tag.endswith("text") else 1.9
            for colour in colours - {"none", "transparent", "currentColor", BESIDE}:
                assert min(contrast(colour, "#ffffff"), contrast(colour, "#1e1e1e")) >= least, (one.tag, colour)


def test_a_saved_picture_is_light_with_a_background_of_its_own(usual: Study, tmp_path: Path) -> None:
    from PIL import Image

    with Image.open(plot_history(usual).save(tmp_path / "a.png")) as image:
        assert image.convert("RGBA").getpixel((2, 2)) == (255, 255, 255, 255)
    for svg in (plot_history(usual).svg, usual.tree().svg, plot_timeline(usual).svg):
        assert "currentColor" not in svg
        assert "var(" not in svg


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: type(sequence).__name__)
@pytest.mark.parametrize("until", [1, 9, 10**12])
def test_pictures_of_sequences_are_whole(sequence: Any, until: int) -> None:
    assert ink_outside(sequence.plot(until)) == []


@pytest.mark.parametrize("many", [1, 2])
def test_pictures_of_scripts_are_whole(many: int, tmp_path: Path) -> None:
    script = imported("_panels")
    labels = [f"a method, number {number}" for number in range(9)]
    points = [(1, 2, 1), (1e-4, 3, 2)]
    curves = [script.Curve(label, "#2f7fd1", points, is_hollow=label.endswith("1")) for label in labels]
    panels = [script.Panel(f"sd {number}", curves) for number in range(many)]
    script.draw("time units to the first at R", panels, tmp_path / "a.svg", x="drop probability", y="share", apart=3)
    svg = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert set(labels) <= set(texts(svg))
    assert ink_outside(svg) == []


def test_the_picture_of_methods_names_each_of_them() -> None:
    assert set(METHODS) <= set(texts((ROOT / "docs" / "methods.svg").read_text(encoding="utf-8")))


def test_a_text_outside_is_found() -> None:
    words = "<text x='90' y='20' font-family='serif'>beyond</text>"
    svg = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 100 40' width='100' height='40'>{words}</svg>"
    assert "right, in sans-serif" in ink_outside(svg)
    assert size(svg) == (100, 40)


@pytest.mark.parametrize("words", ["loss", LONG, "iiii", "", "é" * 40])
@pytest.mark.parametrize("width", [20, 60.5, 300])
def test_a_shortened_text_fits_and_loses_no_more_than_it_must(words: str, width: float) -> None:
    short = shortened(words, width, 11)
    assert text_width(short, 11) <= width
    if short != words:
        kept = len(short) - 1
        assert short == f"{words[:kept]}…"
        assert text_width(f"{words[: kept + 1]}…", 11) > width
