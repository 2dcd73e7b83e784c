"""A grid of small models, each searched with ``pack="auto"`` and unpacked in turns, in one process."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from _bench import Figure
from _pack_searches import cnn, mlp
from torch import nn

from asyncsearch import FIFO, Study, TorchTrainer, choice, loguniform

KINDS = ("mlp", "cnn", "transformer")
WIDTHS = {"mlp": (32, 128, 512), "cnn": (4, 8, 16), "transformer": (8, 16, 32)}
BATCHES = (16, 32, 128)
PAIRS = 9
UPPER = 8
"""Of the sorted ratios of 9 pairs this one is above the median with a probability of 98 %."""
STEPS, UNITS = 6, 4
TRIALS = 16
"""Trials of each search of a pair."""
PROBED = 42
"""Trials of the search before the pairs, in which ``auto`` times 1 to 16 trials together."""


class Encoder(nn.Module):
    """One block of self-attention over the 8 lines of a digit."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inside, self.norm = nn.Linear(8, width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.rest = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, 10))

    def forward(self, x: Any) -> Any:
        lines = self.inside(x.unflatten(1, (8, 8)))
        normed = self.norm(lines)
        lines = lines + self.attention(normed, normed, normed, need_weights=False)[0]
        return self.rest(lines.mean(1))


class Residual(nn.Module):
    """Two convolutions with batch norms, and a way round them, as in ResNet56."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        stride = 1 if before == width else 2
        self.first = nn.Sequential(nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width))
        self.past = nn.Identity() if stride == 1 else nn.Conv2d(before, width, 1, stride, bias=False)

    def forward(self, x: Any) -> Any:
        return nn.functional.relu(self.second(self.first(x)) + self.past(x))


def resnet(width: int) -> Any:
    """Return a ResNet of two blocks, of which the second has half as many pixels and twice as many channels."""
    first = [
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
    ]
    blocks = [Residual(width, width), Residual(width, 2 * width)]
    return nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 10))


def build(kind: str, width: int) -> Any:
    """Return a model of 64 numbers and 10 classes."""
    return {"mlp": mlp, "cnn": cnn, "transformer": Encoder, "resnet": resnet}[kind](width)


class GridTrainer(TorchTrainer):
    """A unit is a few steps, so that a cell takes seconds."""

    def model(self, hp: Mapping[str, Any]) -> Any:
        return build(hp["kind"], hp["width"])

    def optimizer(self, hp: Mapping[str, Any], model: Any) -> Any:
        return torch.optim.SGD(model.parameters(), hp["lr"], momentum=0.9)

    def data(self, hp: Mapping[str, Any]) -> Any:
        samples = STEPS * hp["batch_size"]
        x = torch.randn(samples, 64, generator=torch.Generator().manual_seed(0))
        y = (x[:, 0] > 0).long()
        return (x, y), (x[:32], y[:32])


class Cell(NamedTuple):
    """One model and batch size."""

    kind: str
    width: int
    batch: int

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.width}:{self.batch}"


class Measured(NamedTuple):
    """The times of a cell."""

    ratios: list[float]
    """CPU time unpacked, divided by that with ``auto``, of each pair, sorted."""
    first_s: tuple[float, float]
    """CPU time of the search before the pairs, with ``auto``, which times packs in it, and unpacked."""
    together: int
    """How many ``auto`` trains together."""

    @property
    def median(self) -> float:
        return self.ratios[len(self.ratios) // 2]

    @property
    def upper(self) -> float:
        """A bound that the median does not exceed with a probability of 95 % or more."""
        return self.ratios[min(UPPER, len(self.ratios)) - 1]


def cells(only: str | None) -> list[Cell]:
    """Return the cells whose names begin with ``only``, or all if it is None."""
    found = [Cell(kind, width, batch) for kind in KINDS for width in WIDTHS[kind] for batch in BATCHES]
    return [cell for cell in found if cell.name.startswith(only or "")]


def measure(cell: Cell, pairs: int = PAIRS) -> Measured:
    """Search with and without packs in turns, in this process; which of them begins changes with each pair."""
    with tempfile.TemporaryDirectory() as folder:
        searches = {pack: _searching(cell, Path(folder), pack) for pack in ("auto", None)}
        first = {pack: next(search) for pack, search in searches.items()}
        ratios = []
        for number in range(pairs):
            order = sorted(searches, key=lambda pack: (pack is None) == (number % 2 == 0))
            taken = {pack: next(searches[pack])[0] for pack in order}
            ratios.append(taken[None] / taken["auto"])
        together = next(searches["auto"])[1]
    return Measured(sorted(ratios), (first["auto"][0], first[None][0]), together)


def _searching(cell: Cell, folder: Path, pack: str | None) -> Iterator[tuple[float, int]]:
    """Go on with a search at each call; yield its CPU time, and how many train fastest together."""
    space = {
        "lr": loguniform(0.001, 0.1),
        "kind": choice(cell.kind),
        "width": choice(cell.width),
        "batch_size": choice(cell.batch),
    }
    study = Study(
        GridTrainer,
        space=space,
        metric="accuracy",
        mode="max",
        scheduler=FIFO(max_resource=UNITS),
        store=folder / str(pack),
        backend="inline",
        pack=pack,
    )
    trials = PROBED
    while True:
        began = time.process_time()
        study.run(num_trials=trials, display="none")
        spent = time.process_time() - began
        known = study._read_state().packs
        yield spent, max((packs.best for packs in known.values()), default=1)
        trials += TRIALS


def grid(only: str | None = None, pairs: int = PAIRS) -> list[Figure]:
    """Measure cells, print a line of each, and return the smallest bound and what timing took in all."""
    found = []
    print(f"{'cell':<22}{'together':>9}{'median':>9}{'upper':>8}{'first auto':>12}{'unpacked':>10}", flush=True)
    for cell in cells(only):
        one = measure(cell, pairs)
        found.append(one)
        first = f"{one.first_s[0]:>10.2f} s{one.first_s[1]:>8.2f} s"
        print(f"{cell.name:<22}{one.together:>9}{one.median:>9.2f}{one.upper:>8.2f}{first}", flush=True)
    auto, alone = (sum(one.first_s[at] for one in found) for at in (0, 1))
    return [
        Figure("pack_never_slower", min(one.upper for one in found), "times", 1.0),
        Figure("pack_probe", auto, "s CPU", alone),
    ]
