"""A whole search whose packs hold unlike trials: alike ones train as one, and each as it does alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from asyncsearch import FIFO, PackOutcome, Study, choice
from asyncsearch.actions import Assign
from asyncsearch.events import PackMeasured
from asyncsearch.journal.opening import read_records
from tests.packing.joined_searches import require_results
from tests.packing.test_torch_units import Blobs

nn: Any = torch.nn
pytestmark = pytest.mark.usefixtures("torch_workers")


def telling(folder: Path) -> type[Any]:
    """Return trainers that write down what trains as one computation."""
    path = str(folder / "groups")

    class Varied(Blobs):
        def model(self, hp: Mapping[str, Any]) -> Any:
            return nn.Sequential(nn.Linear(6, hp["width"]), nn.Tanh(), nn.Linear(hp["width"], 2)).double()

        def optimizer(self, hp: Mapping[str, Any], model: Any) -> Any:
            return super().optimizer({**hp, "adam": hp["optimizer"] == "adam"}, model)

        @classmethod
        def train_pack(cls, trainers: Sequence[Any]) -> PackOutcome:
            outcome = super().train_pack(trainers)
            with open(path, "a") as file:
                file.write("\n".join(trainers[0]._pack.describe()) + "\n")
            return outcome

    return Varied


def test_a_search_of_unlike_trials_in_random_packs_reports_as_trials_alone(
    tmp_path: Path,
) -> None:
    kind = telling(tmp_path)
    space = {"lr": choice(0.01, 0.02), "optimizer": choice("sgd", "adam"), "width": choice(4, 6)}
    found = Study(
        kind, space=space, metric="loss", mode="min", searcher="grid", scheduler=FIFO(max_resource=2), pack=8,
        pack_opt="random", store=tmp_path / "s", backend="processes",
    ).run(8, parallelism=1, display="none")  # fmt: skip
    records = list(read_records(found.store))
    works = [action.work for record in records for action in record.actions if isinstance(action, Assign)]
    assert [len(work.lanes) for work in works] == [8]
    assert not [event for one in records if isinstance(event := one.event, PackMeasured) and event.refusal]
    assert (tmp_path / "groups").read_text().count("train as one computation") == 2 * 4, "4 groups in each unit"
    require_results(found, kind, works[0].lanes[0].stages[0].seed, tmp_path, units=2)
