"""Trainers that are evaluated only where a value decides anything, alone and in packs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from asyncsearch.actions import CutWork, SaveAt
from asyncsearch.runner.context import SearchContext
from asyncsearch.runner.packs.packed_training import PackRun
from asyncsearch.trainable import PackOutcome, Trainer, as_function
from tests.agent.driver import NODE, lease, make_stage
from tests.agent.recorder import Recorder
from tests.runner.test_packed_training import NoInterrupts


class Counted(Trainer):
    """Counts its units, and says what was evaluated together."""

    evaluate_every = "judged"
    together: ClassVar[list[int]] = []

    def setup(self, hp: Any) -> None:
        self.units = 0

    def train(self) -> None:
        self.units += 1

    @classmethod
    def train_pack(cls, trainers: Sequence[Any]) -> PackOutcome | None:
        for trainer in trainers:
            trainer.train()
        return None

    @classmethod
    def evaluate_pack(cls, trainers: Sequence[Any]) -> Sequence[Mapping[str, Any] | Exception]:
        cls.together.append(len(trainers))
        return [trainer.evaluate() for trainer in trainers]

    def evaluate(self) -> dict[str, float]:
        return {"accuracy": float(self.units)}

    def save(self, path: Path) -> None:
        path.write_text("")

    def load(self, path: Path) -> None:
        """Begin anew."""


class Stairs(Recorder):
    """Is judged next at the given places."""

    def __init__(self, folder: Path, *places: int) -> None:
        super().__init__(folder)
        self.places = places

    def await_verdict(self, resource: int, timeout_s: float) -> int | None:
        return next((place for place in self.places if place > resource), None)


def trial(link: Stairs, number: int = 0, stop: int = 9) -> SearchContext:
    first = link.places[0] if link.places else None
    stage = make_stage(number, stop=stop, max_resource=9, save=True)
    return SearchContext((stage,), link, judged=first)


def reports_alone(link: Stairs, trainer_class: type[Trainer]) -> list[int]:
    as_function(trainer_class)(trial(link))
    return link.resources


@pytest.mark.parametrize(
    ("every", "resources"), [("judged", [1, 3, 9]), (4, [1, 3, 4, 8, 9]), (1, [1, 2, 3, 4, 5, 6, 7, 8, 9])]
)
def test_a_value_is_reported_where_it_decides_and_as_often_as_asked(
    tmp_path: Path, every: int | str, resources: list[int]
) -> None:
    kind = type("Asked", (Counted,), {"evaluate_every": every})
    assert reports_alone(Stairs(tmp_path, 1, 3), kind) == resources


@pytest.mark.parametrize("amendment", [SaveAt(lease(0), NODE, 2), CutWork(lease(0), 2, 0)])
def test_what_is_asked_for_while_a_unit_trains_counts_at_its_end(tmp_path: Path, amendment: SaveAt | CutWork) -> None:
    link = Stairs(tmp_path)

    class Told(Counted):
        def train(self) -> None:
            super().train()
            if self.units == 2:
                link.coming = [amendment]

    PackRun(Told, {0: trial(link)}, NoInterrupts(), "accuracy", lambda message: None).run()
    assert link.resources[0] == 2


def test_a_pack_is_evaluated_at_once_where_any_lane_is_judged(tmp_path: Path) -> None:
    Counted.together.clear()
    links = [Stairs(tmp_path / "0", 3), Stairs(tmp_path / "1", 4)]
    for link in links:
        link._folder.mkdir()
    contexts = {number: trial(link, number) for number, link in enumerate(links)}
    PackRun(Counted, contexts, NoInterrupts(), "accuracy", lambda message: None).run()
    assert [link.reports for link in links] == [[(at, {"accuracy": float(at)}) for at in (3, 4, 9)]] * 2
    assert Counted.together == [2, 2, 2]
