"""Packed training against the same members one after the other, in the same run.

``pack_mlp_32`` is the number of steps of a member in a second of CPU time in a whole search: 32 trials of an MLP
64-32-10 with batches of 32 digits, each with a learning rate, momentum and weight decay of its own. ``Study.run`` runs
it on one worker, with ``pack=32`` and without; the CPU time is that of the driver, the worker and the process that
trains, reports, evaluation and checkpoints included. What begins a search, above all to import torch, is taken off by
a search of one unit. ``pack_mlp_32_cold`` is the same without taking it off. ``pack_cnn_16`` is that of 16 small CNNs
with 8 and 16 channels.

``steps_mlp_32`` and ``steps_cnn_16`` are those of the library, without a search; ``steps_written_32`` is the first one
with a ``forward`` that is written out, which ``vmap`` computes. ``hand_mlp_32`` and
``hand_cnn_16`` are the first two, and the baseline is the same models fused by hand, as HFTA does it: in batched
products and grouped convolutions, with the same SGD. ``pad`` is that of 8 MLPs whose batches have 16, 32 and
64 samples, padded. ``switch_ms`` is the time to take 32 MLPs into a pack and out again; its baseline is a packed step.
``memory_32`` is what 32 MLPs hold in a pack, against 32 times what one holds. Each figure is from the fastest of
several rounds in which both take turns.

The table has the time of a step for each member, and the bytes of weights, optimizer state and buffers, by K; a pack
of one trains as it would alone.

``pack_never_slower`` compares ``pack="auto"`` with unpacked searches over a grid of widths, batch sizes and kinds:
MLPs, CNNs and a small transformer, 9 pairs of searches a cell, in turns, in one process, by CPU time. A pair goes on
with two studies of which the first has timed packs already; what that took stands beside it, and in ``pack_probe``. The
ratio of a pair is the time unpacked divided by that of ``auto``, ``upper`` an upper bound of the cell's median at 95 %.
The figure is the smallest of these bounds over all cells: below 0.97, packing costs time somewhere.

    python scripts/bench_pack.py [--only searches|steps|grid] [--cell mlp:32:16]

It needs torch and scikit-learn.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from _bench import Figure, show
from _hand_fused import MOMENTUM, WEIGHT_DECAY, HandFused, cnn_outputs, mlp_outputs
from _pack_grid import PAIRS, cells, grid
from _pack_searches import DigitsCNN, DigitsMLP, cnn, mlp, run_search
from torch import nn

from asyncsearch import FIFO, loguniform, uniform
from asyncsearch.packing import Member, Pack, pack

ROUNDS = 7
ROUND_S = 0.15
SIZES = (1, 2, 4, 8, 16, 32)
UNITS = 57
"""So many that what they take is far above what a search needs to begin, which varies by a second."""
SEARCH_ROUNDS = 2
SPACE = {
    "lr": loguniform(0.003, 0.1),
    "momentum": uniform(0.5, 0.95),
    "weight_decay": loguniform(1e-6, 1e-3),
}
STEPS = 45
"""Batches of 32 in 1,437 digits."""
X = torch.randn(256, 64, generator=torch.Generator().manual_seed(0))
Y = torch.randint(0, 10, (256,), generator=torch.Generator().manual_seed(1))


class Written(nn.Module):
    """An MLP whose forward is written out."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        return self.two(torch.relu(self.one(x)))


def rate(number: int) -> float:
    return 0.01 + 0.001 * number


def members(make: Callable[[], Any], count: int, batch_sizes: tuple[int, ...] = ()) -> list[Member]:
    found = []
    for number in range(count):
        torch.manual_seed(number)
        model = make()
        optimizer = torch.optim.SGD(model.parameters(), rate(number), momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)
        size = batch_sizes[number % len(batch_sizes)] if batch_sizes else None
        found.append(Member(model, optimizer, batch_size=size))
    return found


def alone(found: list[Member], x: Any, y: Any) -> Callable[[], None]:
    """Return a step of each member, as a training loop is written."""

    def step() -> None:
        for one in found:
            one.optimizer.zero_grad()
            nn.functional.cross_entropy(one.model(x[: one.batch_size]), y[: one.batch_size]).backward()
            one.optimizer.step()

    return step


def fastest(*steps: Callable[[], Any]) -> list[float]:
    """Return the CPU seconds of each step: the fastest of rounds in which they take turns."""
    counts = []
    for step in steps:
        step()
        began = time.thread_time()
        step()
        counts.append(max(1, int(ROUND_S / max(time.thread_time() - began, 1e-6))))
    best = [float("inf")] * len(steps)
    for _ in range(ROUNDS):
        for at, (step, count) in enumerate(zip(steps, counts, strict=True)):
            began = time.thread_time()
            for _ in range(count):
                step()
            best[at] = min(best[at], (time.thread_time() - began) / count)
    return best


def compared(name: str, make: Callable[[], Any], count: int, size: int = 32, sizes: tuple[int, ...] = ()) -> Figure:
    x, y = X[:size], Y[:size]
    packed = pack(members(make, count, sizes))
    together, apart = fastest(lambda: packed.step((x, y)), alone(members(make, count, sizes), x, y))
    return Figure(name, count / together, "member steps/s", count / apart)


def by_hand(name: str, make: Callable[[], Any], outputs: Callable[[list[Any], Any], Any], count: int) -> Figure:
    """Return member steps of a pack; the baseline is the same models fused by hand."""
    x, y = X[:32], Y[:32]
    found = members(make, count)
    fused = HandFused([one.model for one in found], [rate(number) for number in range(count)], outputs)
    packed = pack(found)
    for _ in range(5):
        torch.testing.assert_close(packed.step((x, y)), fused.step(x, y))
    together, alone_s = fastest(lambda: packed.step((x, y)), lambda: fused.step(x, y))
    print(f"asyncsearch packed : hand-fused, {name}: {alone_s / together:.2f} : 1", flush=True)
    return Figure(name, count / together, "member steps/s", count / alone_s)


def searched(name: str, trainable: type[Any], count: int) -> list[Figure]:
    """Return member steps in a second of CPU time of whole searches, without and with what begins them."""
    found: dict[tuple[int | None, int], float] = {}
    for _ in range(SEARCH_ROUNDS):
        for size in (None, count):
            for units in (1, UNITS):
                scheduler = FIFO(max_resource=units)
                cost = run_search(trainable, trials=count, space=SPACE, scheduler=scheduler, pack=size)
                found[size, units] = min(cost.cpu_s, found.get((size, units), float("inf")))
                print(f"{name}: pack={size}, {units} units: {cost.cpu_s:.1f} s CPU, {cost.wall_s:.1f} s", flush=True)
    steps = count * STEPS
    apart, together = (steps * (UNITS - 1) / (found[size, UNITS] - found[size, 1]) for size in (None, count))
    cold = (steps * UNITS / found[size, UNITS] for size in (None, count))
    return [
        Figure(name, together, "member steps/s", apart),
        Figure(f"{name}_cold", baseline=next(cold), value=next(cold), unit="member steps/s"),
    ]


def switch() -> Figure:
    found = members(mlp, 32)
    packed = pack(members(mlp, 32))
    move, step = fastest(lambda: pack(found).free(), stepping(packed))
    return Figure("switch_ms", move * 1e3, "ms", step * 1e3)


def held_bytes(found: list[Member]) -> int:
    """Return the bytes of all tensors that a pack of these members allocates."""
    tensors = [tensor for one in found for tensor in (*one.model.parameters(), *one.model.buffers())]
    states = [value for one in found for state in one.optimizer.state.values() for value in state.values()]
    return sum(t.numel() * t.element_size() for t in (*tensors, *states) if isinstance(t, torch.Tensor))


def memory() -> Figure:
    many, one = ([*members(mlp, count)] for count in (32, 1))
    for found in (many, one):
        packed = pack(found)
        packed.step((X[:32], Y[:32]))
        packed.sync()
    return Figure("memory_32", held_bytes(many) / 1e6, "MB", 32 * held_bytes(one) / 1e6)


def stepping(packed: Pack) -> Callable[[], Any]:
    return lambda: packed.step((X[:32], Y[:32]))


def by_size() -> None:
    print(f"{'K':>4}{'MLP us/member':>16}{'CNN us/member':>16}{'MLP state, bytes':>20}")
    for count in SIZES:
        mlps, cnns = pack(members(mlp, count)), pack(members(cnn, count))
        times = fastest(stepping(mlps), stepping(cnns))
        mlps.sync()
        row = f"{times[0] / count * 1e6:>16.0f}{times[1] / count * 1e6:>16.0f}{held_bytes(mlps.members):>20}"
        print(f"{count:>4}{row}", flush=True)


def steps() -> list[Figure]:
    """Return the figures of the library without a search; prints the table by K."""
    by_size()
    return [
        compared("steps_mlp_32", mlp, 32),
        compared("steps_cnn_16", cnn, 16),
        compared("steps_written_32", Written, 32),
        by_hand("hand_mlp_32", mlp, mlp_outputs, 32),
        by_hand("hand_cnn_16", cnn, cnn_outputs, 16),
        compared("pad", mlp, 8, 64, (16, 32, 64)),
        switch(),
        memory(),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("searches", "steps", "grid"))
    parser.add_argument("--cell", metavar="mlp:32:16", help="a cell of the grid, or the beginning of names of some")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"pairs of searches in a cell (default: {PAIRS})")
    options = parser.parse_args()
    only = "grid" if options.cell else options.only
    if options.cell and not cells(options.cell):
        parser.error(f"--cell {options.cell} is none of {', '.join(cell.name for cell in cells(None))}")
    torch.set_num_threads(1)
    figures: list[Figure] = []
    if only in (None, "searches"):
        figures += [*searched("pack_mlp_32", DigitsMLP, 32), *searched("pack_cnn_16", DigitsCNN, 16)]
    if only in (None, "steps"):
        figures += steps()
    if only in (None, "grid"):
        figures += grid(options.cell, options.pairs)
    show("Packed training, and the same members one after the other", figures)


if __name__ == "__main__":
    main()
