"""A sequence shows itself as a small picture."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from asyncsearch.errors import SpaceError
from asyncsearch.sequences import constant, cosine_restarts, step, values, warmup


def heights(svg: str) -> list[float]:
    shapes = ElementTree.fromstring(svg).findall(".//{http://www.w3.org/2000/svg}polyline")
    return [float(point.split(",")[1]) for point in shapes[0].attrib["points"].split()]


def test_it_is_drawn_in_a_notebook_with_its_code_as_title() -> None:
    sequence = warmup(5, cosine_restarts(0.1, T_0=10))
    svg = sequence._repr_svg_()
    assert svg is not None
    title = ElementTree.fromstring(svg).find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text == repr(sequence)


def test_up_is_more() -> None:
    drawn = heights(warmup(5, 0.1).plot(10))
    assert drawn[0] == max(drawn)
    assert drawn[-1] == min(drawn)


def test_texts_are_levels_and_escaped() -> None:
    svg = values(["<sgd>", "a&b", "<sgd>"], milestones=[3, 6]).plot(9)
    assert len(set(heights(svg))) == 2
    assert "&lt;sgd&gt;" in svg
    assert "a&amp;b" in svg


@pytest.mark.parametrize("until", [1, 7, 1000, 10**6])
def test_any_length_can_be_drawn(until: int) -> None:
    assert len(heights(step(0.1, 30).plot(until))) < 1000
    assert len(set(heights(constant(3).plot(until)))) == 1


def test_no_length_is_refused() -> None:
    with pytest.raises(SpaceError, match="until=0: a picture shows at least 1 unit"):
        step(0.1, 30).plot(0)
