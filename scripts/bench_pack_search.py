"""What packing saves in whole searches: packed Hyperband in five ways, and stages and packs with ASHA.

*Hyperband*: the packed Hyperband of "Understanding and Optimizing Packed Neural Network Training for Hyper-Parameter
Tuning", with R = 81 and eta = 3, on MLPs 64-32-10 and the digits: 143 trials of a learning rate, a momentum, a batch
size and an optimizer, halved synchronously, so that each way trains the same trials to the same places. It runs
unpacked and with each ``pack_opt``, with at most 8 trials in a pack, on one worker. ``hyperband_X`` is the device time
in seconds of way X and ``hyperband_X_wall`` its time from the first work to the end; the baseline is that of the
unpacked search in the same run. The paper's own figure is 2.7 times, on a GPU.

*Stages and packs*: ASHA on the schedules of ResNet56 in tests/sequences/spaces.py, with MLPs 64-32-10 on the digits.
``stages_x_packs`` is the device time with shared stages and packs; its baseline trains trial by trial: ``share=False``
and no pack, each trial to the place that it has reached in the first search, by the same promotions. ``packs_alone``
has no shared stages, ``stages_alone`` no packs; they go to the same places. ``stages_x_packs_cnn`` is that of a small
CNN and a part of the trials. ``stages_x_packs_values`` is the share of trials whose accuracy at their last place is
within 0.02 of that of the baseline: training is in single precision, and some schedules diverge.

Device time is CPU time of the process that trains, of the worker around it and of the driver, less what a search of one
unit takes: the start of the processes, above all to import torch. Workers have one core. Times of one run can be
compared with each other.

    python scripts/bench_pack_search.py [--only hyperband|stages|cnn] [--trials 448]      needs torch and scikit-learn
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from _bench import Figure, show
from _pack_searches import DigitsCNN, DigitsMLP, SearchCost, run_search
from _same_places import SamePlaces

from asyncsearch import ASHA, FIFO, GridSearch, Hyperband, choice, loguniform, uniform

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.sequences.spaces import RESNET56_EPOCHS, resnet56_space

HYPERBAND_TRIALS = 143
HYPERBAND_SPACE = {
    "lr": loguniform(0.003, 0.1),
    "momentum": uniform(0.5, 0.95),
    "batch_size": choice(32, 64, 128),
    "optimizer": choice("sgd", "adam"),
}
WAYS = ("random", "batch_size", "nearest", "plan")
STAGES_TRIALS, CNN_TRIALS = 448, 32
LIMIT, STAGES_LIMIT = 8, 32
PAPERS_GAIN = 2.7
"""How many times as fast packed Hyperband is in the paper, on a GPU."""
TOLERANCE = 0.02
"""Of the accuracy on 360 digits."""


class Chosen(DigitsMLP):
    """Its optimizer is a hyper-parameter."""

    def optimizer(self, hp: Mapping[str, Any], model: Any) -> Any:
        return chosen(hp, model)


class ChosenCNN(DigitsCNN):
    """Its optimizer is a hyper-parameter."""

    def optimizer(self, hp: Mapping[str, Any], model: Any) -> Any:
        return chosen(hp, model)


def chosen(hp: Mapping[str, Any], model: Any) -> Any:
    decay = hp.get("weight_decay", 0.0)
    if hp["optimizer"] == "adam":
        return torch.optim.Adam(model.parameters(), hp["lr"] / 10, weight_decay=decay)
    return torch.optim.SGD(model.parameters(), hp["lr"], momentum=hp["momentum"], weight_decay=decay)


def start_s(trainable: type[Any], space: Any, **settings: Any) -> float:
    """Return the CPU seconds of a search of one unit."""
    # The first search of a program pays for what the system has not read yet, and the measured ones do not.
    searches = (run_search(trainable, trials=1, space=space, scheduler=FIFO(max_resource=1), **settings) for _ in "12")
    return min(search.cpu_s for search in searches)


def told(name: str, cost: SearchCost) -> SearchCost:
    asked = sum(trial.resource for trial in cost.study.trials)
    print(f"{name:<24}{cost.cpu_s:8.1f} s CPU{cost.wall_s:8.1f} s wall{asked:8} units asked", flush=True)
    return cost


def hyperband() -> list[Figure]:
    start = start_s(Chosen, HYPERBAND_SPACE)
    print(f"{start:.1f} s CPU of these to start", flush=True)
    costs = {}
    for way in ("unpacked", *WAYS):
        pack: dict[str, Any] = {} if way == "unpacked" else {"pack": LIMIT, "pack_opt": way}
        scheduler = Hyperband(max_resource=81, reduction_factor=3, variant="synchronous")
        costs[way] = told(
            f"hyperband {way}",
            run_search(Chosen, trials=HYPERBAND_TRIALS, space=HYPERBAND_SPACE, scheduler=scheduler, **pack),
        )
    alone = costs["unpacked"]
    for way in WAYS:
        gain = (alone.cpu_s - start) / (costs[way].cpu_s - start)
        print(f"hyperband {way}: {gain:.2f} times less device time; the paper's figure is {PAPERS_GAIN}", flush=True)
    return [
        figure
        for way in WAYS
        for figure in (
            Figure(f"hyperband_{way}", costs[way].cpu_s - start, "s", alone.cpu_s - start),
            Figure(f"hyperband_{way}_wall", costs[way].wall_s, "s", alone.wall_s),
        )
    ]


def stages(trainable: type[Any], trials: int, suffix: str = "", *, alone: bool = True) -> list[Figure]:
    """Return the device time in three ways, against trial by trial, all to the places that the first has reached."""
    start = start_s(trainable, resnet56_space())
    print(f"{start:.1f} s CPU of these to start", flush=True)
    settings: dict[str, Any] = {"space": resnet56_space(), "searcher": GridSearch()}
    asha = ASHA(max_resource=RESNET56_EPOCHS, min_resource=15, reduction_factor=4)
    first = run_search(trainable, trials=trials, scheduler=asha, pack=STAGES_LIMIT, **settings)
    found = {"stages_x_packs": told("stages_x_packs" + suffix, first)}
    places = tuple(trial.resource for trial in first.study.trials)
    ways: dict[str, dict[str, Any]] = {
        "trial_by_trial": {"share": False},
        "packs_alone": {"share": False, "pack": STAGES_LIMIT},
        "stages_alone": {},
    }
    for way in list(ways)[: 3 if alone else 1]:
        same = SamePlaces(levels=tuple(sorted(set(places))), places=places)
        found[way] = told(way + suffix, run_search(trainable, trials=trials, scheduler=same, **settings, **ways[way]))
        assert tuple(trial.resource for trial in found[way].study.trials) == places
    baseline = found.pop("trial_by_trial")
    figures = [Figure(way + suffix, cost.cpu_s - start, "s", baseline.cpu_s - start) for way, cost in found.items()]
    return [*figures, Figure(f"stages_x_packs_values{suffix}", like(first.study, baseline.study), "of the trials", 1.0)]


def like(one: Any, other: Any) -> float:
    """Return the share of trials whose last accuracies are within a tolerance."""
    gaps = [abs(mine.value - its.value) for mine, its in zip(one.trials, other.trials, strict=True)]
    print(
        f"accuracies differ by {max(gaps):.3f} at most, {sum(gap > 0 for gap in gaps)} of {len(gaps)} at all",
        flush=True,
    )
    return sum(gap <= TOLERANCE for gap in gaps) / len(gaps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("hyperband", "stages", "cnn"))
    parser.add_argument("--trials", type=int, default=STAGES_TRIALS, help="trials of the schedules, at most 448")
    options = parser.parse_args()
    figures: list[Figure] = []
    if options.only in (None, "hyperband"):
        figures += hyperband()
    if options.only in (None, "stages"):
        figures += stages(Chosen, options.trials)
    if options.only in (None, "cnn"):
        figures += stages(ChosenCNN, CNN_TRIALS, "_cnn", alone=False)
    show("Packing in whole searches", figures)


if __name__ == "__main__":
    main()
