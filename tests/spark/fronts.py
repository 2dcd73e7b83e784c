"""Programs of four libraries on Spark, whose trials note what they do in a file, and one of which kills a process.

``python -m tests.spark.fronts hyperopt FILE`` runs one on a session of its own, and kills itself once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil

from asyncsearch import Study
from asyncsearch.events import Consulted
from asyncsearch.journal.opening import read_records
from asyncsearch.store import open_store
from asyncsearch.trial import TrialState

TRIALS = 8
_AT = 4
"""The trial that kills."""


class Trace:
    """A file in which trials note that they begin and end."""

    def __init__(self, path: Path, victim: str, driver: int = 0) -> None:
        """Begin.

        Args:
            path: of the file.
            victim: what the fourth trial that begins kills, once: "runner", "agent" or "driver".
            driver: id of the driver's process.
        """
        self.path, self._victim, self._driver = path, victim, driver

    def begin(self, key: object) -> None:
        self._note("begin", key)
        if self.count("begin").total() >= _AT and not self.killed.exists():
            self.killed.write_text(str(key))
            os.kill(self._pid(), signal.SIGKILL)
            threading.Event().wait(60)  # for the end that comes with that of the victim

    def end(self, key: object) -> None:
        self._note("end", key)

    def count(self, kind: str) -> Counter[str]:
        """Return how often each trial has noted this."""
        lines = [line.split() for line in self.path.read_text().splitlines()]
        return Counter(key for noted, key in lines if noted == kind)

    @property
    def killed(self) -> Path:
        return self.path.with_suffix(".killed")

    def _note(self, kind: str, key: object) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{kind} {key}\n".encode())
        os.close(file)

    def _pid(self) -> int:
        if self._victim == "driver":
            return self._driver
        if self._victim == "runner":
            return os.getpid()
        above = psutil.Process().parents()
        java = next(at for at, one in enumerate(above) if one.name() == "java")
        return above[java - 2].pid  # below Java the daemon of its Pythons, and below that the agents


def run_hyperopt(trace: Trace) -> Mapping[str, float | None]:
    import asyncsearch.hyperopt as hyperopt

    def objective(x: float) -> float:
        trace.begin(x)
        trace.end(x)
        return x**2

    hyperopt.workers(2, backend="spark", store="kept", retries_lost=True)
    trials = hyperopt.Trials()
    given = {"algo": hyperopt.rand.suggest, "max_evals": TRIALS, "trials": trials, "verbose": False}
    hyperopt.fmin(objective, hyperopt.hp.uniform("x", 0, 1), **given)
    return {str(one["misc"]["vals"]["x"][0]): one["result"]["loss"] for one in trials.trials}


def run_ray(trace: Trace) -> Mapping[str, float | None]:
    import asyncsearch.ray

    asyncsearch.ray.install()
    try:
        from ray import tune

        def train(config: dict[str, float]) -> None:
            trace.begin(config["x"])
            for step in (1, 2):
                tune.report({"loss": config["x"] ** 2 * step / 2})
            trace.end(config["x"])

        asyncsearch.ray.workers(2, backend="spark", display="none")
        space = {"x": tune.grid_search([0.5 + at for at in range(TRIALS)])}
        config = tune.TuneConfig(metric="loss", mode="min")
        found = tune.Tuner(train, param_space=space, tune_config=config, run_config=tune.RunConfig(name="ray")).fit()
        return {str(one.config["x"]): one.metrics["loss"] for one in found}
    finally:
        asyncsearch.ray.workers()
        asyncsearch.ray.uninstall()


def run_maggy(trace: Trace) -> Mapping[str, float | None]:
    from asyncsearch.maggy import Searchspace, experiment, workers

    def train(x: float, reporter: Any) -> float:
        trace.begin(x)
        reporter.broadcast(-x)
        trace.end(x)
        return x**2

    workers(2, backend="spark", display="none")
    space = Searchspace(x=("DOUBLE", [0, 1]))
    experiment.lagom(
        train, searchspace=space, optimizer="randomsearch", num_trials=TRIALS, es_policy="none", name="maggy"
    )
    return _values(Path("studies"))


def run_wandb(trace: Trace) -> Mapping[str, float | None]:
    import asyncsearch.wandb as wandb

    def train() -> None:
        wandb.init()
        trace.begin(wandb.config.x)
        wandb.log({"loss": wandb.config.x})
        wandb.log({"loss": wandb.config.x**2})
        trace.end(wandb.config.x)

    wandb.workers(2, backend="spark", display="none")
    sweep = {"method": "random", "metric": {"name": "loss"}, "parameters": {"x": {"min": 0.0, "max": 1.0}}}
    wandb.agent(wandb.sweep(sweep), train, count=TRIALS)
    return _values(Path("studies"))


FRONTS: dict[str, Callable[[Trace], Mapping[str, float | None]]] = {
    "hyperopt": run_hyperopt,
    "ray": run_ray,
    "maggy": run_maggy,
    "wandb": run_wandb,
}


def _values(folder: Path) -> Mapping[str, float | None]:
    (place,) = [found.parent for found in folder.rglob("study.json")]
    return {str(trial.params["x"]): trial.value for trial in Study.open(place).trials}


def acknowledged(folder: Path) -> dict[str, float | None]:
    """Return what the journals below a folder have of trials that ended: parameter -> value."""
    from asyncsearch.hyperopt.facts import found_in

    found: dict[str, float | None] = {}
    for place in sorted(one.parent for one in folder.rglob("study.json")):
        events = [record.event for record in read_records(open_store(str(place)))]
        if "kept" in place.parts:
            documents = found_in([event for event in events if isinstance(event, Consulted)]).documents
            ended = [one for one in documents if one["result"].get("status") == "ok"]
            found |= {str(one["misc"]["vals"]["x"][0]): one["result"]["loss"] for one in ended}
        else:
            trials = [one for one in Study.open(place).trials if one.state is TrialState.COMPLETED]
            found |= {str(one.params["x"]): one.value for one in trials}
    return found


def require_whole(
    trace: Trace, values: Mapping[str, float | None], known: Mapping[str, float | None], *, cancelled: int = 0
) -> None:
    """Check a search, of which ``known`` was acknowledged before something was killed.

    At most ``cancelled`` points that ran then may have been given up, as Hyperopt does, for others.
    """
    assert len(values) == TRIALS
    assert all(value == float(x) ** 2 for x, value in values.items())
    assert known.items() <= values.items(), "what was acknowledged is lost"
    begun, ended = trace.count("begin"), trace.count("end")
    assert ended.keys() == values.keys()
    assert values.keys() <= begun.keys()
    assert len(begun.keys() - values.keys()) <= cancelled
    assert trace.killed.exists()
    assert all(begun[x] == 1 for x in known), "what was acknowledged is trained again"
    assert sum(begun.values()) <= TRIALS + 2 + 1, "of those that ran each begins once more at most"


if __name__ == "__main__":
    from tests.spark.cluster import spark_session

    with spark_session("local[2]"):
        name, file = sys.argv[1:]
        mine = Trace(Path(file), "driver", os.getpid())
        for x, value in FRONTS[name](mine).items():
            sys.stdout.write(f"{x} {value}\n")
