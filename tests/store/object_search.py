"""A small search whose store is one of objects, such as S3 and Azure, and what it leaves there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from asyncsearch import ASHA, Checkpoints, GridSearch, Study, choice
from asyncsearch.store.base_store import Store
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.trainable import TrialContext
from asyncsearch.trial import TrialState
from tests.system.trained import Checkpointed


def train(trial: TrialContext) -> None:
    model = Checkpointed()
    for unit in trial.epochs(save=model.save, load=model.load):
        model.train(unit)
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


def files_of(store: FsspecStore) -> list[str]:
    """Return the names of all files of a store."""
    return sorted(store._remote.find(""))


def kept(url: str) -> dict[str, bytes]:
    """Return the content of each file below a URL."""
    store = FsspecStore(url)
    return {name: store._remote.read(name) or b"" for name in store._remote.find("")}


def require_gone_on_with(url: str, *secrets: str) -> None:
    """Search in two runs; require that the second one goes on with the first, and that no secret is in the store."""
    search(url).run(num_trials=2, parallelism=1)
    study = search(url, resume=True)
    study.run(num_trials=4, parallelism=2)
    assert [trial.state for trial in study.trials].count(TrialState.COMPLETED) >= 1
    assert study.best_trial.resource == 4
    assert len(Study.open(url).trials) == 4
    with study.checkpoint() as path:
        assert Path(path).exists()
    files = kept(url)
    assert {"study.json", "bundle.bin", "head.json"} <= {*files}
    assert not [name for name, data in files.items() if any(secret.encode() in data for secret in secrets)]
