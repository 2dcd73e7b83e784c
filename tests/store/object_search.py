"""A small search whose store is one of objects, such as S3 and Azure, and what it leaves there."""

from __future__ import annotations

from typing import Any

from asyncsearch import ASHA, Checkpoints, GridSearch, Study, choice
from asyncsearch.store.base_store import Store
from asyncsearch.store.fsspec_store import FsspecStore
from asyncsearch.trainable import TrialContext
from tests.system.tools import Checkpointed


def train(trial: TrialContext) -> None:
    model = Checkpointed()
    for unit in trial.epochs(save=model.save, load=model.load):
        model.units.append(unit)
        assert model.units == list(range(1, unit + 1)), "a unit was trained twice or left out"
        trial.report(loss=trial.params["x"] / unit)


def search(store: str | Store, **options: Any) -> Study:
    return Study(
        train,
        space={"x": choice(1, 2, 3, 4)},
        metric="loss",
        mode="min",
        searcher=GridSearch(),
        scheduler=ASHA(max_resource=4, reduction_factor=2),
        store=store,
        backend="processes",
        checkpoints=Checkpoints(keep_checkpoints=1),
        **options,
    )


def kept(url: str) -> dict[str, bytes]:
    """Return the content of each file below a URL."""
    store = FsspecStore(url)
    return {name: store._remote.read(name) or b"" for name in store._remote.find("")}
