"""Names, values and errors of trials are text in a page or a picture, never a part of it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

from asyncsearch.report.live.status import BestSeen, TrialRow
from asyncsearch.report.live.table import html
from asyncsearch.simulate import Faults
from asyncsearch.space import Space, choice, uniform
from asyncsearch.study.results import open_results
from asyncsearch.trial import TrialState
from tests.engine.tools import make_state, record
from tests.report.tools import SCHEDULER, make_status, store_of

INJECTIONS = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "</svg></div><iframe src=//x>",
    "<![CDATA[<a href='javascript:x'>]]>",
    "&lt;b&gt;&#60;script&#62;",
)
SHAPES = {"svg", "g", "rect", "line", "path", "text", "title", "tspan", "circle", "polyline", "style", "desc"}
TAGS = {"div", "span", "pre", "table", "thead", "tbody", "tr", "th", "td"}


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_live_table_has_its_own_elements_alone() -> None:
    for text in INJECTIONS:
        row = TrialRow(text, TrialState.FAILED, 1, 3, 0.5, {text: text}, text)
        status = make_status(
            name=text,
            metric=text,
            scheduler=text,
            rows=(row,),
            best=row,
            incumbent=BestSeen(text, 0.1, 1),
            last_failure=text,
            stopping=text,
            store=text,
            place=text,
        )
        page = Tags()
        page.feed(html(status))
        assert page.tags <= TAGS
        assert page.attributes <= {"style", "title"}
        assert text in page.text


def test_a_stage_tree_is_well_formed_and_has_its_own_elements_alone(tmp_path: Path) -> None:
    state = make_state(SCHEDULER, space=Space.of({"x": uniform(0.0, 1.0), "name": choice(*INJECTIONS)}))
    study = open_results(store_of(record(state, 12, workers=3, faults=Faults()), tmp_path / "study"))
    elements = list(ElementTree.fromstring(study.tree().svg).iter())
    assert {element.tag.rpartition("}")[2] for element in elements} <= SHAPES
    assert not {name for element in elements for name in element.attrib if name.startswith("on") or "href" in name}
