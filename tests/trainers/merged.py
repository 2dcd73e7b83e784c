"""Whole searches with and without sharing, and all that users see of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from asyncsearch import FIFO, GridSearch, Study
from asyncsearch.space import Space


def searched(trainable: Any, space: Space, epochs: int, store: Path, **options: Any) -> Study:
    """Search a grid on two workers, in processes of their own."""
    settings: dict[str, Any] = {
        "metric": "accuracy",
        "mode": "max",
        "searcher": GridSearch(),
        "scheduler": FIFO(max_resource=epochs),
        "name": "merged",
        "store": store,
        "backend": "processes",
    }
    study = Study(trainable, space=space, **(settings | options))
    return study.run(parallelism=2, display="none")


def seen(study: Study) -> list[tuple[Any, ...]]:
    """Return of each trial its configuration, its end and every metric after every unit."""
    return [(t.params, t.state, t.resource, t.value, study.history(t)) for t in study.trials]


def require_told_apart(study: Study, epochs: int) -> None:
    """Require that each trial reported each unit, and ended with weights that no other trial has."""
    histories = [study.history(trial) for trial in study.trials]
    assert all([resource for resource, _ in history] == list(range(1, epochs + 1)) for history in histories)
    assert len({history[-1][1]["weights"] for history in histories}) == len(histories)
