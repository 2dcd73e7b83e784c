"""Search methods on real training: the network of ``scripts/digits_search.py``, the same number of epochs for each.

Every method trains on 2 workers from three seeds. A simulation finds the number of trials that uses up the budget; the
search adds trials until the budget is used up, and its curve is cut there. The error is that of the incumbent, the best
value at any epoch of any trial, on the 360 digits on which trials are compared, so it is optimistic, as in every
search; on other digits it is higher.
Figures: ``error_<method>`` is the mean error in percent at the end of the budget; its baseline is that of random search
in the same run.

    python scripts/bench_methods.py            writes docs/methods.md and docs/methods.svg; about 10 minutes on 2 cores
    python scripts/bench_methods.py --quick    one seed and an eighth of the budget: prints, and writes nothing
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import itertools
import math
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from _bench import Figure, show
from _panels import Curve, Panel, draw
from digits_search import SPACE, DigitReader

import asyncsearch
from asyncsearch import Study
from asyncsearch.schedulers import ASHA, FIFO, SHA, Scheduler
from asyncsearch.searchers import RandomSearch, Searcher
from asyncsearch.simulate import Curves, TrainingModel, simulate

DOCS = Path(__file__).resolve().parent.parent / "docs"
WORKERS = 2
ENDS = TrainingModel(report_every=None)
GRID = 9
"""Points of a curve: shares of the budget at which it is read."""


class Size(NamedTuple):
    """The amount of training."""

    budget: int
    """Epochs of all trials of a search together."""
    max_resource: int
    seeds: int


FULL, QUICK = Size(216, 27, 3), Size(27, 9, 1)


class Method(NamedTuple):
    """A search method and its colour; its classes are imported only if they are available."""

    colour: str
    scheduler: Callable[[Size], Scheduler]
    searcher: Callable[[], Searcher] = RandomSearch
    needs: Sequence[str] = ()
    """Public names and packages."""


def public(name: str, *arguments: Any, **options: Any) -> Any:
    """Make an instance of a public class by its name."""
    return getattr(asyncsearch, name)(*arguments, **options)


def population(size: Size) -> Any:
    """PBT of as many trials as the budget trains to the end, over the values that can change during training."""
    numbers = ("lr", "beta_1", "alpha")
    return public("PBT", max_resource=size.max_resource, perturbation_interval=3, perturb=numbers)


def tpe() -> Any:
    """TPE of Optuna, which draws randomly until it has 5 results: of 8 trials that train to the end it guides 3."""
    return public("OptunaSearch", "tpe", options={"n_startup_trials": 5}, min_observations=5)


METHODS: dict[str, Method] = {
    "random": Method("#6e7781", lambda size: FIFO(max_resource=size.max_resource)),
    "SHA": Method("#d9480f", lambda size: SHA(max_resource=size.max_resource, bracket_size=size.max_resource)),
    "ASHA": Method("#2f7fd1", lambda size: ASHA(max_resource=size.max_resource)),
    "Hyperband": Method(
        "#2b8a3e", lambda size: public("Hyperband", max_resource=size.max_resource), needs=["Hyperband"]
    ),
    "PBT": Method("#e8a400", population, needs=["PBT"]),
    "TPE": Method("#9c36b5", lambda size: FIFO(max_resource=size.max_resource), tpe, ["OptunaSearch", "optuna"]),
    "ASHA with TPE": Method(
        "#0b7285", lambda size: ASHA(max_resource=size.max_resource), tpe, ["OptunaSearch", "optuna"]
    ),
}


class Reader(DigitReader):
    """The network, with values that may change during training, as with PBT."""

    def update(self, hp: dict[str, Any]) -> None:
        for name, value in hp.items():
            if name == "alpha":
                self.network.alpha = value
            else:
                # The network used these to make its optimizer; since then only the optimizer's values count.
                setattr(self.network._optimizer, {"lr": "learning_rate_init"}.get(name, name), value)


class Run(NamedTuple):
    """One search."""

    steps: list[tuple[int, float]]
    """(epochs of all trials, error in percent) each time the incumbent changed, within the budget."""
    trained: int
    trials: int
    wall_s: float
    """Seconds from the first record to the last incumbent within the budget."""

    def error_at(self, epochs: float) -> float:
        """Return the incumbent's error after a number of epochs; NaN: nothing was reported yet."""
        return next((error for trained, error in reversed(self.steps) if trained <= epochs), math.nan)


def is_there(method: Method) -> bool:
    """Return whether all requirements of a method are available."""
    return all(name in asyncsearch.__all__ or importlib.util.find_spec(name) is not None for name in method.needs)


def num_trials(scheduler: Scheduler, size: Size) -> int:
    """Return the number of trials that use up the budget, by simulation."""
    if getattr(scheduler, "branches", False):
        return max(2, size.budget // size.max_resource)
    for number in itertools.count(2):
        found = simulate(Curves(), scheduler=scheduler, workers=WORKERS, num_trials=number, training=ENDS)
        if found.trained >= size.budget:
            return number
    raise AssertionError("a larger search trains more")


def search(name: str, seed: int, size: Size, folder: Path) -> Run:
    """Search once."""
    method = METHODS[name]
    scheduler = method.scheduler(size)
    study = Study(
        Reader,
        space=SPACE,
        metric="accuracy",
        mode="max",
        searcher=method.searcher(),
        scheduler=scheduler,
        store=folder / f"{name.replace(' ', '-')}-{seed}",
        seed=seed,
        backend="processes",
    )
    study.run(num_trials(scheduler, size), parallelism=WORKERS, display="none")
    while (trained := sum(trial.trained for trial in study.trials)) < size.budget and not scheduler.branches:
        more = math.ceil((size.budget - trained) * len(study.trials) / trained)
        study.run(len(study.trials) + more, parallelism=WORKERS, display="none")
    found = [one for one in study.incumbents() if one.trained <= size.budget]
    steps = [(one.trained, 100 * (1 - one.value)) for one in found]
    return Run(steps, trained, len(study.trials), found[-1].elapsed_s)


def curve(runs: Sequence[Run], size: Size) -> list[tuple[float, float, float]]:
    """Return (epochs, mean error, its standard deviation) over seeds, where all have reported."""
    points = []
    for step in range(1, GRID + 1):
        epochs = size.budget * step / GRID
        errors = [run.error_at(epochs) for run in runs]
        if all(map(math.isfinite, errors)):
            points.append((round(epochs), statistics.fmean(errors), statistics.pstdev(errors)))
    return points


def table(found: dict[str, list[Run]], size: Size) -> list[str]:
    """Return a row for each method: the mean error at thirds of the budget, and the amount of training."""
    shares = (1 / 9, 1 / 3, 2 / 3, 1)
    heads = ["method", *(f"{round(share * size.budget)} epochs" for share in shares), "trials", "trained", "seconds"]
    rows = [heads, ["---", *["---:"] * (len(heads) - 1)]]
    for name, runs in found.items():
        errors = []
        for share in shares:
            values = [run.error_at(share * size.budget) for run in runs]
            spread = f" ± {statistics.pstdev(values):.2f}" if len(values) > 1 else ""
            errors.append(f"{statistics.fmean(values):.2f}{spread} %")
        means = [statistics.fmean(getattr(run, field) for run in runs) for field in ("trials", "trained", "wall_s")]
        rows.append([name, *errors, *(f"{mean:.0f}" for mean in means)])
    return [f"| {' | '.join(row)} |" for row in rows]


TEXT = """# Methods on real training

![Error of the best network so far over epochs of training, method by method](methods.svg)

The search tunes the 8 hyper-parameters of the network in `scripts/digits_search.py`, which reads handwritten
digits, on {workers} workers, with {budget} epochs for each method and {max_resource} for a trial, from {seeds}
seeds. The curves are the mean error of the best trial so far, the bars its standard deviation over seeds; each curve
is drawn a little to the right of the one before it, since several have equal values.

{table}

The error is that of the best trial so far on the 360 digits on which trials are compared: one digit is 0.28 %. The
search chose the trial by the same digits, so the error on new digits is higher. Epochs beyond the budget are
`trained` but not counted. Most points of this space give a good network: at the end the methods differ by one or
two digits, no more than seeds do, and 8 trials that are all trained to the end are as good. A harder problem
separates the methods: see [how they scale](scale.md), and `tests/simulate/test_convergence.py`, which shows that
each is better than random search.

`seconds` is the time of the last improvement within the budget. A trial of PBT keeps its layers and changes its
learning rate, `beta_1` and `alpha` while it trains; its population is the {population} trials that the budget
trains to the end, a little less where two continue from the same checkpoint. TPE proposes at random until it has 5
results.

`python scripts/bench_methods.py` runs it and writes this page.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed, an eighth of the budget; writes nothing")
    size = QUICK if parser.parse_args().quick else FULL
    methods = [name for name, method in METHODS.items() if is_there(method)]
    for name, method in METHODS.items():
        if name not in methods:
            print(f"{name} is left out: it needs {' and '.join(method.needs)}")
    found: dict[str, list[Run]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for seed, name in itertools.product(range(size.seeds), methods):
            run = search(name, seed, size, Path(folder))
            found.setdefault(name, []).append(run)
            print(f"{name}, seed {seed}: {run.error_at(size.budget):.2f} % after {size.budget} epochs", flush=True)
    lines = table(found, size)
    print("\n".join(lines))
    if size is FULL:
        write(found, size, lines)
    ends = {name: statistics.fmean(run.error_at(size.budget) for run in runs) for name, runs in found.items()}
    show(
        f"Error of the best network after {size.budget} epochs, mean of {size.seeds} seeds",
        [Figure(f"error_{label(name)}", error, "%", ends["random"]) for name, error in ends.items()],
    )


def write(found: dict[str, list[Run]], size: Size, lines: Sequence[str]) -> None:
    """Write the page and its picture."""
    curves = [Curve(name, METHODS[name].colour, curve(runs, size)) for name, runs in found.items()]
    title = "Error of the best network so far, in percent"
    axes = {"x": "epochs of all trials", "y": "error in percent"}
    sizes = {"width": 680, "height": 320, "apart": 5}
    draw(title, [Panel(f"{WORKERS} workers", curves)], DOCS / "methods.svg", y_log=True, **axes, **sizes)
    settings = size._asdict() | {"workers": WORKERS, "population": size.budget // size.max_resource}
    (DOCS / "methods.md").write_text(TEXT.format(table="\n".join(lines), **settings), encoding="utf-8")
    print(f"wrote {DOCS / 'methods.md'}")


def label(name: str) -> str:
    """Return a method's name as part of a figure's name."""
    return name.lower().replace(" ", "_")


if __name__ == "__main__":
    main()
