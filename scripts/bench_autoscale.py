"""Autoscaling: what more workers for the trials of the last rungs gain, and what they cost.

Real gangs first: successive halving of a convolutional network on digits, on two processes of this machine, without
autoscaling and with it, in turns. Its last rung has one trial, so that a worker is free for it. ``real_wall_s`` is the
time of the search, ``real_last_rung_s`` the time from the first assignment of the last rung to the end of its last
training, ``real_worker_s`` the seconds of all workers that trained; the baselines are without autoscaling.
``real_speedup_2`` is how many times as fast two workers train, measured by the study itself; 1: no two did. Units take
so long with 192 channels that the last rung, of 18 units, pays for the start of a gang, which is supposed to take 2 s.

Then the simulator, with the curve that was measured there for two workers, carried on by the same overhead, on 16
workers: ``sim_wall_s``, ``sim_last_rung_s`` and ``sim_worker_s`` are virtual. The worker-seconds may be at most
1 / efficiency times those of the baseline.

    python scripts/bench_autoscale.py [--repeats 3] [--efficiency 0.75] [--channels 192]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

from _bench import Figure, show

from asyncsearch import ASHA, SHA, Autoscale, Study, TorchTrainer, loguniform
from asyncsearch.actions import Assign
from asyncsearch.events import TrainingEnded
from asyncsearch.journal.format import Record
from asyncsearch.journal.opening import read_records
from asyncsearch.report.what_if.recorded_units import recorded_units
from asyncsearch.simulate import Curves, Delays, TrainingModel, simulate
from asyncsearch.sizing.autoscale import KnownSpeed, seconds_at

REAL_WORKERS, VIRTUAL_WORKERS = 2, 16
MAX_RESOURCE = 27


def trainer(channels: int) -> type[TorchTrainer]:
    """Return a trainer of a network with so many channels: much to compute for a small gradient."""

    class Digits(TorchTrainer):
        batch_size = 256
        threads = 1

        def data(self, hp: Any) -> Any:
            import torch
            from sklearn.datasets import load_digits

            x, y = load_digits(return_X_y=True)
            images = torch.tensor(x / 16.0, dtype=torch.float32).reshape(-1, 1, 8, 8)
            tensors = images, torch.tensor(y)
            return tuple(part[:1280] for part in tensors), tuple(part[1280:] for part in tensors)

        def model(self, hp: Any) -> Any:
            from torch import nn

            first, second = nn.Conv2d(1, channels, 3, padding=1), nn.Conv2d(channels, channels, 3, padding=1)
            return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), nn.Linear(64 * channels, 10))

        def optimizer(self, hp: Any, model: Any) -> Any:
            import torch

            return torch.optim.SGD(model.parameters(), hp["lr"], momentum=0.9)

    return Digits


class Searched(NamedTuple):
    """The times of a search, in seconds."""

    wall_s: float
    last_rung_s: float
    worker_s: float
    speedup: float
    """Of two workers; 1: none trained together."""


def searched(scale: Autoscale | None, channels: int) -> Searched:
    """Search on two workers."""
    with tempfile.TemporaryDirectory() as folder:
        study = Study(
            trainer(channels),
            space={"lr": loguniform(1e-3, 1e-1)},
            metric="loss",
            mode="min",
            scheduler=SHA(max_resource=MAX_RESOURCE),
            store=f"{folder}/study",
            backend="processes",
            autoscale=scale,
        )
        study.run(MAX_RESOURCE, parallelism=REAL_WORKERS, display="none")
        records = list(read_records(study.store))
    spent = spans(records)
    wall_s = records[-1].t - records[0].t
    speedup = recorded_units(records).gang_speedup.get(2, 1.0)
    return Searched(wall_s, last_rung_s(spent), sum(one.seconds * one.workers for one in spent), speedup)


class Span(NamedTuple):
    """A training."""

    began_s: float
    ended_s: float
    workers: int
    start: int
    """Resource at which it began."""

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended_s - self.began_s


def spans(records: Sequence[Record]) -> list[Span]:
    """Return the trainings of a journal."""
    begun: dict[int, tuple[float, int, int]] = {}
    found = []
    for record in records:
        if isinstance(record.event, TrainingEnded):
            began_s, workers, start = begun[record.event.lease.number]
            found.append(Span(began_s, record.t, workers, start))
        for action in record.actions:
            if isinstance(action, Assign):
                work = action.work
                begun[work.lease.number] = record.t, 1 + len(work.followers), work.lanes[0].stages[0].start
    return found


def last_rung_s(spent: Sequence[Span]) -> float:
    """Return the seconds from the first assignment of the last rung to the end of its last training."""
    last = [one for one in spent if one.start >= MAX_RESOURCE // 3]
    return max(one.ended_s for one in last) - min(one.began_s for one in last)


def simulated(scale: Autoscale | None, curve: dict[int, float]) -> Searched:
    """Search on a virtual cluster."""
    result = simulate(
        Curves(seed=1, unit_s=30.0, spread=0.3),
        scheduler=ASHA(max_resource=81),
        workers=VIRTUAL_WORKERS,
        num_trials=100,
        delays=Delays(start_s=3.0, setup_s=1.0, meet_s=1.0, commit_s=1.0, message_s=0.01),
        training=TrainingModel(gang_speedup=curve),
        autoscale=scale,
    )
    began_s = min(one.at_s for one in result.arrivals if one.resource == 27)
    return Searched(
        result.wall_s, max(one.at_s for one in result.completed) - began_s, result.busy_s, curve.get(2, 1.0)
    )


def curve_of(speedup: float) -> dict[int, float]:
    """Return the curve for many workers that has this speed-up with two, by the engine's own reckoning."""
    known = KnownSpeed({1: [1.0], 2: [1.0 / speedup]})
    return {size: 1.0 / (seconds_at(known, 1, size) or 1.0) for size in range(1, VIRTUAL_WORKERS + 1)}


def figures(prefix: str, alone: Sequence[Searched], together: Sequence[Searched]) -> list[Figure]:
    """Return the medians of both ways."""
    return [
        Figure(
            f"{prefix}_{name}",
            statistics.median(getattr(one, name) for one in together),
            "s",
            statistics.median(getattr(one, name) for one in alone),
        )
        for name in ("wall_s", "last_rung_s", "worker_s")
    ]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="searches of each way (default: 3)")
    parser.add_argument("--efficiency", type=float, default=0.75, help="least efficiency (default: 0.75)")
    parser.add_argument("--channels", type=int, default=192, help="channels (default: 192)")
    options = parser.parse_args()
    scale = Autoscale(options.efficiency)
    alone, together = [], []
    for _ in range(options.repeats):
        alone.append(searched(None, options.channels))
        together.append(searched(scale, options.channels))
    speedup = statistics.median(one.speedup for one in together)
    found = figures("real", alone, together)
    found.append(Figure("real_speedup_2", speedup, "times", 1.0))
    curve = curve_of(speedup)
    found += figures("sim", [simulated(None, curve)], [simulated(scale, curve)])
    show(f"Autoscaling at an efficiency of {options.efficiency:g}", found)


if __name__ == "__main__":
    main()
