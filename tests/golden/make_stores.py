"""Makes whole stores with the present version, which every later version must open and resume.

``python -m tests.golden.make_stores`` makes the cases that ``stores/<version>`` lacks. A store that was released is
never changed. Run it for each release, with the Python that made the released stores: bundles hold bytecode.

A case is a folder with the stores of one or more studies, the last of which is unfinished, and ``expected.json``: its
trials as they stand in the store, its trials after ``resume`` and ``run``, and the units that were trained by then. A
resumed search must end as one without an interruption does.

Bundles and ``study.json`` hold absolute paths. Here these lie below ``/proc/self/cwd``, which is the working directory
of the process that reads them, so the stores work wherever they are copied to.

Each run is a process of its own, with the trainables in ``__main__`` as those of a script are. A trainable presses
Ctrl-C or kills the process at a certain unit of training, which an environment variable names.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from asyncsearch import (
    ASHA,
    FIFO,
    PBT,
    SHA,
    GridSearch,
    Hyperband,
    MedianStopping,
    OptunaSearch,
    SobolSearch,
    Space,
    Study,
    Trainer,
    __version__,
    choice,
    constant,
    lograndint,
    loguniform,
    quniform,
    randint,
    uniform,
)
from asyncsearch.sequences import (
    chain,
    cosine,
    cosine_restarts,
    custom,
    cyclic,
    exponential,
    linear,
    multistep,
    polynomial,
    step,
    values,
    warmup,
)

STORES = Path(__file__).parent / "stores"
HERE = Path("/proc/self/cwd")
"""The working directory, by an absolute path that is the same everywhere."""
LOG, AT, SIGNAL = "GOLDEN_LOG", "GOLDEN_AT", "GOLDEN_SIGNAL"
"""Environment variables: the log of units of training, the number of its line at which the process is interrupted, and
the signal that interrupts it."""


def tell(line: str) -> None:
    """Append a line to the log, and interrupt the process if this is the line to do so."""
    if LOG not in os.environ:
        return
    with open(os.environ[LOG], "a+") as file:
        file.write(line + "\n")
        file.seek(0)
        count = len(file.readlines())
    if str(count) == os.environ.get(AT):
        time.sleep(0.5)  # until the reports before this unit are in the journal
        os.kill(os.getpid(), int(os.environ[SIGNAL]))


def train(trial: Any) -> None:
    """Fit a weight. Its value depends on every unit of training, so a wrong checkpoint leads to other results."""
    net = {"units": 0, "weight": 1.0}

    def load(path: Path) -> None:
        net.update(json.loads(path.read_text()))
        tell(f"{trial.name} loads {net['units']}")

    for epoch in trial.epochs(save=lambda path: path.write_text(json.dumps(net)), load=load):
        tell(f"{trial.name} trains {epoch}")
        net.update(units=epoch, weight=net["weight"] * (1 - trial.params["lr"]) + 0.01)
        trial.report(loss=abs(net["weight"]))


class Net(Trainer):
    """The same as a class, with values that change."""

    def setup(self, hp: dict[str, Any]) -> None:
        self.hp, self.units, self.weight = dict(hp), 0, 1.0
        sys.stdout.write(f"begins with {self.hp['lr']:.3f}\n")

    def update(self, hp: dict[str, Any]) -> None:
        self.hp.update(hp)

    def train(self) -> None:
        self.units += 1
        tell(f"{self.trial.name} trains {self.units} with {self.hp['lr']:.3f}")
        self.weight = self.weight * (1 - self.hp["lr"]) + 0.01

    def evaluate(self) -> dict[str, float]:
        return {"loss": abs(self.weight), "units": self.units}

    def save(self, path: Path) -> None:
        path.mkdir()
        (path / "net.json").write_text(json.dumps([self.units, self.weight]))

    def load(self, path: Path) -> None:
        self.units, self.weight = json.loads((path / "net.json").read_text())
        tell(f"{self.trial.name} loads {self.units}")


def sawtooth(time: float, height: float) -> float:
    """A function of the user's own, sent by value."""
    return height * (1 - time % 2 / 4)


sawtooth.__module__ = "__main__"  # as in the bundles: two functions of one name and of different homes are refused


def fifo(store: Path, **options: Any) -> Study:
    """Every kind of domain, a condition, a constraint and an initial point; running trials are saved at each unit."""
    space = Space(
        {
            "lr": loguniform(1e-3, 0.5),
            "optimizer": choice("sgd", "adam"),
            "momentum": uniform(0, 0.9).when(optimizer="sgd"),
            "model": {"layers": randint(1, 4), "width": lograndint(4, 64), "act": "relu", "pads": constant([1, 2])},
            "dropout": quniform(0, 0.5, 0.1),
        },
        constraints=[lambda params: params["model"]["layers"] * params["model"]["width"] <= 128],
        initial=[{"lr": 0.1, "optimizer": "adam"}],
    )
    return Study(
        train,
        space=space,
        metric="loss",
        mode="min",
        scheduler=FIFO(max_resource=3),
        save_every=1,
        **script(store, options),
    )


def asha(store: Path, **options: Any) -> Study:
    return Study(train, space=LR, metric="loss", mode="min", scheduler=ASHA(max_resource=9), **script(store, options))


def stopping(store: Path, **options: Any) -> Study:
    scheduler = ASHA(max_resource=4, reduction_factor=2, variant="stopping")
    searcher = OptunaSearch("tpe", options={"n_startup_trials": 2}, min_observations=2)
    return Study(
        train, space=LR, metric="loss", mode="min", searcher=searcher, scheduler=scheduler, **script(store, options)
    )


def sha(store: Path, **options: Any) -> Study:
    """Trains in processes, and goes on after an orderly end with more trials."""
    options = {"backend": "processes", **options}
    space = {"lr": uniform(0.1, 0.9), "width": choice(1, 2, 3)}
    return Study(
        Net, space=space, metric="loss", mode="min", searcher=GridSearch(points=3),
        scheduler=SHA(max_resource=4, reduction_factor=2, bracket_size=4), **script(store, options),
    )  # fmt: skip


def hyperband(store: Path, **options: Any) -> Study:
    return Study(
        Net, space=LR, metric="loss", mode="min", searcher=SobolSearch(), scheduler=Hyperband(max_resource=9),
        **script(store, options),
    )  # fmt: skip


def median(store: Path, **options: Any) -> Study:
    scheduler = MedianStopping(max_resource=4, min_trials=2)
    return Study(train, space=LR, metric="loss", mode="min", scheduler=scheduler, **script(store, options))


def warm_median(store: Path, **options: Any) -> Study:
    """Warm-started from the first study of the case."""
    return median(store, **options) if options.get("resume") else median(store, warm_start=[HERE / "first"], **options)


def pbt(store: Path, **options: Any) -> Study:
    scheduler = PBT(max_resource=10, perturbation_interval=2, population=5)
    return Study(
        Net,
        space={"lr": loguniform(1e-3, 0.9)},
        metric="loss",
        mode="min",
        scheduler=scheduler,
        **script(store, options),
    )


def sequences(store: Path, **options: Any) -> Study:
    """Trials share stages up to where their sequences part."""
    lr = choice(
        0.1,
        multistep(0.1, milestones=[2]),
        multistep(0.1, milestones=[2, 4], gamma=2.0),
        warmup(2, exponential(0.2, gamma=choice(0.5, 0.9))),
        values([0.1, 0.3], milestones=[4]),
        chain([0.1, step(0.4, 3)], boundaries=[2]),
    )
    return Study(
        Net, space={"lr": lr}, metric="loss", mode="min", searcher=GridSearch(),
        scheduler=ASHA(max_resource=8, min_resource=2, reduction_factor=2), **script(store, options),
    )  # fmt: skip


def curves(store: Path, **options: Any) -> Study:
    """The remaining kinds of sequence, and a function of the user's own."""
    lr = choice(
        custom(sawtooth, height=choice(0.2, 0.4)),
        linear(0.5, total=4),
        polynomial(0.5, total=4, power=2),
        cosine(0.5, total=4),
        cosine_restarts(0.5, T_0=2),
        cyclic(0.1, 0.5, up=2),
    )
    return Study(
        train, space={"lr": lr}, metric="loss", mode="min", searcher=GridSearch(), scheduler=FIFO(max_resource=4),
        save_every=1, **script(store, options),
    )  # fmt: skip


def shared_first(store: Path, **options: Any) -> Study:
    """Finished. It leaves the reports of both trials, and the checkpoint of the better one, in the folder ``plan``."""
    return Study(
        train, space={"lr": choice(0.1, 0.2)}, metric="loss", mode="min", searcher=GridSearch(),
        scheduler=FIFO(max_resource=2), version="v1", **script(store, options),
    )  # fmt: skip


def shared_second(store: Path, **options: Any) -> Study:
    """Has one configuration of its own, and continues those of the first study."""
    return Study(
        train, space={"lr": choice(0.3, 0.2, 0.1)}, metric="loss", mode="min", searcher=GridSearch(),
        scheduler=FIFO(max_resource=4), version="v1", **script(store, options),
    )  # fmt: skip


def script(store: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that all studies have, those given here last."""
    return {"store": store, "backend": "inline", "seed": 3, **options}


LR = {"lr": loguniform(1e-3, 0.9), "decay": uniform(0, 1)}


class Part(NamedTuple):
    """A study of a case."""

    make: Callable[..., Study]
    totals: tuple[int, ...]
    """``num_trials`` of each run; the last run of a case is the one to be resumed."""


class Case(NamedTuple):
    """The studies of a folder, and where the last run of the last one is interrupted."""

    parts: dict[str, Part]
    at: int | None = None
    """Number of a line in the log of that run. None if the run has not begun."""
    how: signal.Signals = signal.SIGKILL
    needs: str = ""
    """An optional package that it needs."""
    stops: bool = False
    """Whether the scheduler stops trials: they may train some units more before the stop reaches the worker."""

    @property
    def unfinished(self) -> str:
        """Name of the study to be resumed."""
        return list(self.parts)[-1]


CASES = {
    "fifo": Case({"study": Part(fifo, (6,))}, at=8),
    "asha": Case({"study": Part(asha, (4, 9))}, at=7),
    "stopping": Case({"study": Part(stopping, (8,))}, at=13, how=signal.SIGINT, needs="optuna", stops=True),
    "sha": Case({"study": Part(sha, (3, 8))}),
    "hyperband": Case({"study": Part(hyperband, (9,))}, at=14, how=signal.SIGINT, needs="scipy"),
    "median": Case({"first": Part(asha, (4,)), "study": Part(warm_median, (8,))}, at=6, how=signal.SIGINT, stops=True),
    "pbt": Case({"study": Part(pbt, (5,))}, at=51, how=signal.SIGINT),
    "sequences": Case({"study": Part(sequences, (3, 7))}, at=4),
    "curves": Case({"study": Part(curves, (7,))}, at=10, how=signal.SIGINT),
    "shared": Case({"first": Part(shared_first, (2,)), "second": Part(shared_second, (3,))}, at=3),
}
EVALUATED = {"asha": (1, 2)}
"""A paused trial, and where it is evaluated after the first run. That leaves a study inside the study's store."""


def summary(study: Study) -> list[dict[str, Any]]:
    """Return the trials of a study as JSON values."""
    return [
        {"id": t.id, "params": t.params, "state": t.state.value, "resource": t.resource, "value": t.value}
        for t in study.trials
    ]


def evaluated(study: Study, case: str) -> dict[str, float] | None:
    """Return the result of a case's evaluation, if it has one."""
    if case not in EVALUATED:
        return None
    number, resource = EVALUATED[case]
    return dict(study.evaluate(study.trials[number].params, resource))


def logs(study: Study) -> list[list[str]]:
    """Return the lines that each trial printed itself."""
    return [[line for line in study.logs(trial) if "begins with" in line] for trial in study.trials]


def runs(case: str) -> Iterator[tuple[str, int]]:
    """Yield name and total of each run of a case."""
    for name, part in CASES[case].parts.items():
        for total in part.totals:
            yield name, total


def work(case: str, name: str, total: int) -> None:
    """Do one run of a study in the working directory."""
    study = CASES[case].parts[name].make(HERE / name, resume=(HERE / name / "study.json").exists())
    study.run(total, parallelism=1, display="none")
    if case in EVALUATED and total == CASES[case].parts[name].totals[0]:
        evaluated(study, case)


def make(case: str) -> None:
    """Make the stores of a case, and ``expected.json``."""
    *before, last = runs(case)
    with tempfile.TemporaryDirectory() as place:
        whole, made, again = (Path(place) / name for name in ("whole", "made", "again"))
        for name, total in (*before, last):
            start(whole, case, name, total)
        for name, total in before:
            start(made, case, name, total)
        at, how, log = CASES[case].at, CASES[case].how, made / "log"
        if at is not None:
            start(made, case, *last, environment={LOG: str(log), AT: str(at), SIGNAL: str(int(how))})
        log.unlink(missing_ok=True)
        shutil.copytree(made, again)
        log = again / "log"
        start(again, case, *last, resume=True, environment={LOG: str(log)})
        name = CASES[case].unfinished
        expected = {
            "python": f"{sys.version_info.major}.{sys.version_info.minor}",
            "opened": summary(Study.open(made / name)),
            "best": Study.open(made / name).best_trial.id,
            "evaluated": evaluated(Study.open(made / name), case),
            "logs": logs(Study.open(made / name)),
            "resumed": summary(Study.open(again / name)),
            "trained": log.read_text().splitlines(),
        }
        assert expected["resumed"] == summary(Study.open(whole / name)), f"{case} ends otherwise when interrupted"
        assert expected["opened"] != expected["resumed"], f"{case} is finished already"
        (made / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
        shutil.copytree(made, STORES / __version__ / case)


def start(
    folder: Path,
    case: str,
    name: str,
    total: int,
    resume: bool = False,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Do one run in a process of its own, which may be interrupted."""
    folder.mkdir(exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "tests.golden.make_stores",
        case,
        name,
        str(total),
        *(["resume"] if resume else []),
    ]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(root), **environment}, check=False)
    interrupted = int(environment[SIGNAL]) if SIGNAL in environment else 0
    assert done.returncode == -interrupted, f"{' '.join(command)} ended with {done.returncode}"


def main(arguments: list[str]) -> None:
    if not arguments:
        for case in CASES:
            if not (STORES / __version__ / case).exists():
                make(case)
    elif arguments[3:]:
        Study.resume(HERE / arguments[1]).run(int(arguments[2]), parallelism=1, display="none")
    else:
        work(arguments[0], arguments[1], int(arguments[2]))


if __name__ == "__main__":
    main(sys.argv[1:])
