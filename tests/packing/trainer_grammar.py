"""Trainers drawn from a grammar of what users write: models, losses, hooks, data and optimizers, in any combination.

Each piece below does one thing that alone has a meaning of its own, however odd. ``drawn(seed)`` returns a class with
some of them, and a space; ``losses(...)`` runs a search of it. Alone and in packs the values must be the same.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from asyncsearch import FIFO, SHA, GridSearch, Study, TorchTrainer, choice
from asyncsearch.errors import TrialsFailedError
from asyncsearch.sequences import linear, values
from tests.packing.trainer_hooks import (
    CHANGES,
    LOST,
    METRICS,
    OPTIMIZERS,
    RARE_CHANGES,
    SAVED,
    extended,
    with_rate,
    with_value,
)
from tests.packing.trainer_models import (
    LOSSES,
    NET_TRAITS,
    RARE_LOSSES,
    Piece,
    Values,
    arrays,
    plain_net,
    rows,
    tensors,
    written_net,
)


class Drawn(NamedTuple):
    """A trainer that was drawn, and how it is searched."""

    words: str
    """What it is made of."""
    kind: type[Any]
    space: dict[str, Any]
    scheduler: Any
    pack: Any


class Base(TorchTrainer):
    traits: frozenset[str] = frozenset()
    inplace = False
    alpha = 1.0
    looked = 0

    def __init__(self) -> None:
        self.table: dict[str, int] = {}


def drawn(seed: int) -> Drawn:
    """Return the trainer of a seed."""
    draw = random.Random(seed)
    words: list[str] = []

    def chosen(of: Mapping[str, Piece], what: str, names: set[str] | None = None) -> Piece:
        name = draw.choice(sorted(of.keys() if names is None else names))
        words.append(f"{what}: {name}")
        return of[name]

    own: dict[str, Any] = {"batch_size": draw.choice((8, 8, 12))}
    pauses = draw.random() < 0.4
    data: dict[str, Piece] = {"tensors": tensors, "tensors ": tensors, "arrays": arrays, "rows": rows("")}
    data |= {f"rows by {source}": rows(source) for source in ("python", "numpy", "torch")}
    own["data"] = chosen(data, "data")
    if draw.random() < 0.3:
        own["model"], own["inplace"] = plain_net, draw.random() < 0.5
        words.append(f"model: layers, inplace={own['inplace']}")
    else:
        own["model"] = written_net
        traits = draw.sample(NET_TRAITS, draw.choice((0, 1, 1, 2, 3)))
        own["traits"] = frozenset(one for one in traits if not (pauses and one in LOST))
        words.append(f"model: {', '.join(sorted(own['traits']))}")
    own["optimizer"] = chosen(
        OPTIMIZERS, "optimizer", set(OPTIMIZERS) - {"unfreezes"} if own["model"] is plain_net else None
    )
    if draw.random() < 0.65:
        own["loss"] = chosen(
            LOSSES, "loss", set(LOSSES) - ({"counts", "remembers", "keeps a table"} if pauses else set())
        )
    for name in ("update", "evaluate") if pauses else ("update", "evaluate", "save"):
        if draw.random() < 0.35:
            change = chosen(CHANGES, name, SAVED if pauses else None)
            own[name] = extended(name, change, draw.random() < 0.5)
    if draw.random() < 0.35:
        own["metrics"] = chosen(METRICS, "metrics")
    if draw.random() < 0.2:
        own["clip_grad_norm"] = 0.5
    space: dict[str, Any] = {"lr": choice(0.02, 0.1), "cost": choice(0.5, 1.5)}
    kind = draw.choice(("", "width", "p", "batch_size", "v", "v", "lr"))
    if kind == "v":
        space["v"] = values([1.0, 3.0, 2.0], milestones=[1, 2])
        if "update" not in own and draw.random() < 0.7:
            own["update"] = draw.choice((with_rate, with_rate if pauses else with_value))
            words.append(f"update: {own['update'].__name__}")
    elif kind == "lr":
        space = {"lr": linear(0.1, total=4, end=0.02), "cost": choice(0.3, 0.5, 1.2, 1.5)}
    elif kind:
        space[kind] = {"width": choice(4, 5), "p": choice(0.0, 0.3), "batch_size": choice(8, 16)}[kind]
    words.append(f"space: {', '.join(space)}{' inside units' if kind == 'lr' else ''}")
    scheduler = SHA(max_resource=4, reduction_factor=2) if pauses else FIFO(max_resource=3)
    pack = draw.choice((4, 3, "auto"))
    words.append(f"{type(scheduler).__name__}, pack={pack!r}")
    return Drawn("; ".join(words), type(f"Drawn{seed}", (Base,), own), space, scheduler, pack)


PIECES = [
    *(("trait", name) for name in NET_TRAITS),
    *(("loss", name) for name in LOSSES | RARE_LOSSES),
    *(("metrics", name) for name in METRICS),
    *(("optimizer", name) for name in ("by norm", "changes class", "unfreezes")),
    *((hook, name) for hook in ("update", "evaluate", "save") for name in CHANGES),
    *(("evaluate", name) for name in RARE_CHANGES),
]
"""Every piece that may make a trainer in a pack another one than alone."""


def with_piece(what: str, name: str) -> Drawn:
    """Return a plain trainer with one piece, whose values change between units, and for optimizers inside them, too."""
    own: dict[str, Any] = {"batch_size": 8, "data": tensors, "model": written_net, "optimizer": OPTIMIZERS["momentum"]}
    space: dict[str, Any] = {"lr": choice(0.05, 0.1), "cost": choice(0.5, 1.5)}
    space["v"] = values([1.0, 3.0, 2.0], milestones=[1, 2])
    if what == "trait":
        own["traits"] = frozenset((name,))
    elif what == "optimizer":
        own["optimizer"] = OPTIMIZERS[name]
        space = {"lr": linear(0.1, total=4, end=0.02), "cost": choice(0.3, 0.5, 1.2)}
    elif what in ("loss", "metrics"):
        own["traits"] = frozenset(("dropout",) if what == "metrics" else ())
        own[what] = (METRICS if what == "metrics" else LOSSES | RARE_LOSSES)[name]
    else:
        own[what] = extended(what, (CHANGES | RARE_CHANGES)[name], is_before=False)
    pack = "auto" if what == "metrics" else 4
    return Drawn(f"{what}: {name}", type("OnePiece", (Base,), own), space, FIFO(max_resource=3), pack)


def histories(one: Drawn, store: Path, *, is_packed: bool) -> tuple[bool, list[list[tuple[int, Values]]]]:
    """Return whether a search ended since its trials fail, and what each trial has reported."""
    study = Study(
        one.kind,
        space=one.space,
        searcher=GridSearch(),
        metric="loss",
        mode="min",
        scheduler=one.scheduler,
        store=store,
        backend="inline",
        pack=one.pack if is_packed else None,
        save_every=1 if "save" in vars(one.kind) else None,
    )
    is_failed = False
    try:
        study.run(display="none")
    except TrialsFailedError:
        is_failed = True
    return is_failed, [list(study.history(trial)) for trial in study.trials]
