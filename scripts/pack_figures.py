"""The figures of the paper on packed training, measured on this machine's processor: writes docs/packing_figures.md.

"Understanding and Optimizing Packed Neural Network Training for Hyper-Parameter Tuning" (Liu, Krishnan, Elmore and
Franklin, 2021) asks how much packing gains by number of models and batch size, which of five factors matter (data,
batch size, optimizer, kind and depth of the models), what memory a pack needs, and what switching between models costs.

A step of a pack is compared with a step of each of the same members one after the other. Both take turns in rounds, and
the fastest round of each counts. Times are CPU times of one thread.

    python scripts/pack_figures.py            writes docs/packing_figures.md and .svg; some minutes
    python scripts/pack_figures.py --fast     few rounds, to see that it runs
    python scripts/pack_figures.py --to DIR   writes them there
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import bench_pack
import torch
from _pack_grid import build
from _panels import Curve, Panel, draw
from bench_pack import X, Y, fastest, held_bytes
from torch import nn

from asyncsearch.packing import Member, load, pack

ROOT = Path(__file__).resolve().parent.parent
KINDS = {"mlp": 32, "cnn": 8, "transformer": 16, "resnet": 8}
"""Kind -> width."""
COUNTS = (1, 2, 4, 8, 16, 32, 64)
BATCHES = (16, 32, 128)
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c")
BATCH = 32
STEPS = 45
"""Steps of a unit, after which models are switched."""


class Times(NamedTuple):
    """Seconds of CPU time of a step of each member."""

    packed: float
    alone: float

    @property
    def gain(self) -> float:
        """How many times as much the pack trains."""
        return self.alone / self.packed

    @property
    def impv(self) -> str:
        """The share of the time that packing saves."""
        return f"{1 - self.packed / self.alone:.0%}"


def member(model: Any, number: int, optimizer: type[Any] = torch.optim.SGD, batch: int | None = None) -> Member:
    return Member(model, optimizer(model.parameters(), 0.01 + 0.001 * number), batch_size=batch)


def alike(kind: str, count: int) -> list[Member]:
    return [member(build(kind, KINDS[kind]), number) for number in range(count)]


def compared(make: Callable[[], list[Member]], batches: Sequence[Any]) -> Times:
    """Return the times of members of which each trains on its batch."""
    together, apart = pack(make()), make()

    def step() -> None:
        for one, (x, y) in zip(apart, batches, strict=True):
            one.optimizer.zero_grad()
            nn.functional.cross_entropy(one.model(x), y).backward()
            one.optimizer.step()

    return Times(*fastest(lambda: together.step_each(batches), step))


def batch_of(size: int, start: int = 0) -> Any:
    return X[start : start + size], Y[start : start + size]


def by_number() -> dict[tuple[str, int, int], Times]:
    """Return times by kind, batch size and number of models."""
    found = {}
    for kind in KINDS:
        for size in BATCHES:
            for count in COUNTS:
                batch = batch_of(size)
                found[kind, size, count] = compared(partial(alike, kind, count), [batch] * count)
            row = "  ".join(f"{found[kind, size, count].gain:.2f}" for count in COUNTS)
            print(f"{kind} {size:>4}: {row}", flush=True)
    return found


def deep() -> Any:
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))


def factors() -> list[tuple[str, Times, Times]]:
    """Return the difference between the members, and the times of two and of eight members."""
    same, apart = batch_of(BATCH), [batch_of(BATCH, 16 * number) for number in range(8)]
    sizes = [batch_of(size) for size in (16, 32, 64, 32, 16, 64, 32, 32)]

    def mlps(others: Callable[[int], Member] | None = None) -> Callable[[int], list[Member]]:
        """Return a function that makes members, of which every other one is of another sort."""

        def make(count: int) -> list[Member]:
            first = alike("mlp", count)
            return first if others is None else [others(n) if n % 2 else one for n, one in enumerate(first)]

        return make

    rows: list[tuple[str, Callable[[int], list[Member]], Sequence[Any]]] = [
        ("nothing but numbers of the optimizer", mlps(), [same] * 8),
        ("data", mlps(), apart),
        ("batch size: 16, 32 or 64", mlps(), sizes),
        ("optimizer: SGD or Adam", mlps(lambda n: member(build("mlp", 32), n, torch.optim.Adam)), [same] * 8),
        ("kind: MLP or CNN", mlps(lambda n: member(build("cnn", 8), n)), [same] * 8),
        ("depth: 1 or 2 hidden layers", mlps(lambda n: member(deep(), n)), [same] * 8),
    ]
    found = []
    for name, make, batches in rows:
        two, eight = (compared(partial(make, count), batches[:count]) for count in (2, 8))
        print(f"{name}: {two.gain:.2f}  {eight.gain:.2f}", flush=True)
        found.append((name, two, eight))
    return found


def memory() -> list[tuple[int, list[float]]]:
    """Return MB of weights, buffers and optimizer state by number of members, for each kind."""
    found = []
    for count in COUNTS:
        row = []
        for kind in KINDS:
            packed = pack(alike(kind, count))
            packed.step(batch_of(BATCH))
            packed.sync()
            row.append(held_bytes(packed.members) / 1e6)
        found.append((count, row))
    return found


def switching() -> list[tuple[str, int, float, float]]:
    """Return the share of time that switching takes, of a pack and of its members one after the other, by kind."""
    found, batch = [], batch_of(BATCH)
    for kind, width in KINDS.items():
        for count in (2, 8, 32):
            apart, together = alike(kind, count), pack(alike(kind, count))
            into, step = fastest(partial(_into_and_out, apart), partial(together.step, batch))
            loaded, alone = fastest(partial(load, build(kind, width)), bench_pack.alone(apart[:1], *batch))
            row = (into / (into + STEPS * step), loaded / (loaded + STEPS * alone))
            found.append((kind, count, *row))
            print(f"{kind} {count}: switching {row[0]:.1%} of a pack, {row[1]:.1%} alone", flush=True)
    return found


def _into_and_out(members: list[Member]) -> None:
    pack(members).free()


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


TEXT = """# Packing: the figures of the paper, on a processor

`scripts/pack_figures.py` wrote this page. It asks the questions of "Understanding and Optimizing Packed Neural Network
Training for Hyper-Parameter Tuning" (Liu, Krishnan, Elmore and Franklin, 2021) of [packs](packing.md) of small models.
The text of the paper could not be looked up where the script was written, so no number of it stands here, and its two
metrics are defined as follows.

- **IMPV**, the improvement: the time of a step of each member one after the other, less the time of a step of the pack,
  as a share of the former. 50 % means that the pack trains twice as much in the same time; below 0 packing costs time.
- **SwOH**, the switching overhead: the share of time that goes into switching models where a unit of {steps} steps of
  one pack, or of one model, follows another. A pack is formed and dissolved; a model that trains alone is copied to the
  device.

Times are CPU times of one thread, {machine}. The models have 64 inputs and 10 classes: an MLP with {mlp} hidden units,
a CNN with {cnn} and {cnn2} channels, one block of a transformer of width {transformer}, and a ResNet of two blocks
with batch norms, of {resnet} and {resnet2} channels. Batches have {batch} samples where nothing else is said.

## Improvement by number of models and batch size

![times as much in the same time](packing_figures.svg)

{numbers}

## Which differences matter

IMPV of packs of MLPs of which every other member differs:

{factors}

On a processor, members of unlike structure or with another class of optimizer share the input only.

## Memory

MB of weights, buffers and optimizer state:

{memory}

## Switching overhead

{switching}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fast", action="store_true", help="few rounds, to see that it runs")
    parser.add_argument("--to", type=Path, default=ROOT / "docs", metavar="DIR")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.fast:
        bench_pack.ROUNDS, bench_pack.ROUND_S = 1, 0.01
    found = by_number()
    rows = [
        [kind, str(size), *(found[kind, size, count].impv for count in COUNTS)] for kind in KINDS for size in BATCHES
    ]
    text = TEXT.format(
        steps=STEPS,
        machine=f"torch {torch.__version__}, {platform.machine()}",
        batch=BATCH,
        cnn2=2 * KINDS["cnn"],
        resnet2=2 * KINDS["resnet"],
        **KINDS,
        numbers=table(["IMPV", "batch", *(f"K = {count}" for count in COUNTS)], rows),
        factors=table(
            ["what differs", "2 models", "8 models"], [[name, two.impv, eight.impv] for name, two, eight in factors()]
        ),
        memory=table(["models", *KINDS], [[str(count), *(f"{mb:.3f}" for mb in row)] for count, row in memory()]),
        switching=table(
            ["SwOH", "models", "packed", "one after the other"],
            [[kind, str(count), f"{packed:.1%}", f"{alone:.1%}"] for kind, count, packed, alone in switching()],
        ),
    )
    panels = [
        Panel(
            kind,
            [
                Curve(f"batch {size}", colour, [(count, found[kind, size, count].gain, 0.0) for count in COUNTS])
                for size, colour in zip(BATCHES, COLOURS, strict=True)
            ],
        )
        for kind in KINDS
    ]
    picture = options.to / "packing_figures.svg"
    draw(
        "Packed against one after the other",
        panels,
        picture,
        x="models",
        y="times as much in the same time",
        x_log=True,
    )
    (options.to / "packing_figures.md").write_text(text, encoding="utf-8")
    print(f"wrote {options.to / 'packing_figures.md'} and {picture.name}")


if __name__ == "__main__":
    main()
