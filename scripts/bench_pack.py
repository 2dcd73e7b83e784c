"""Packed training against the same members one after the other, on one core, in the same run.

``pack_mlp_32`` is the number of steps of a member in a second of CPU time, of 32 MLPs 64-32-10 with batches of 32
samples; ``pack_cnn_16`` that of 16 small CNNs with 8 and 16 channels on 8 x 8 pixels. Each has momentum, weight decay
and a learning rate of its own; the baseline trains the same ones by torch's optimizers, one after the other.
``pack_written_32`` is the first one with a ``forward`` that is written out, which ``vmap`` computes. ``pad`` is that of
8 MLPs whose batches have 16, 32 and 64 samples, padded. ``switch_ms`` is the time to take 32 MLPs into a pack and out
again; its baseline is a packed step. Each figure is from the fastest of several rounds in which both take turns.

The table has the time of a step for each member, and the bytes of weights, optimizer state and buffers, by K; a pack
of one trains as it would alone.

    python scripts/bench_pack.py      needs torch
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from _bench import Figure, show
from torch import nn

from asyncsearch.packing import Member, Pack, pack

ROUNDS = 7
ROUND_S = 0.15
SIZES = (1, 2, 4, 8, 16, 32)
X = torch.randn(256, 64, generator=torch.Generator().manual_seed(0))
Y = torch.randint(0, 10, (256,), generator=torch.Generator().manual_seed(1))


class Written(nn.Module):
    """An MLP whose forward is written out."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        return self.two(torch.relu(self.one(x)))


def mlp(width: int = 32) -> Any:
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


def cnn(channels: int = 8) -> Any:
    few, many = channels, 2 * channels
    return nn.Sequential(
        *(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, few, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(few, many, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * many, 10)),
    )


def members(make: Callable[[], Any], count: int, batch_sizes: tuple[int, ...] = ()) -> list[Member]:
    found = []
    for number in range(count):
        torch.manual_seed(number)
        model = make()
        optimizer = torch.optim.SGD(model.parameters(), 0.01 + 0.001 * number, momentum=0.9, weight_decay=1e-4)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    torch.set_num_threads(1)
    figures = [
        compared("pack_mlp_32", mlp, 32),
        compared("pack_cnn_16", cnn, 16),
        compared("pack_written_32", Written, 32),
        compared("pad", mlp, 8, 64, (16, 32, 64)),
        switch(),
    ]
    by_size()
    show("Packed training, and the same members one after the other", figures)


if __name__ == "__main__":
    main()
