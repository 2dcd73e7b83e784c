"""Programs of Hyperopt, as people write them: each takes the module ``hyperopt``, and returns what it found.

They have local data only, and a few points each, so that Hyperopt's own run and ours can be compared point by point.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Program = Callable[[Any, Path], list[Any]]
"""Returns pairs of what ``fmin`` has returned, and its trials."""
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


_GENERATOR = np.random.default_rng(5)
X = _GENERATOR.normal(size=(60, 3))
Y = X @ np.array([1.0, -2.0, 0.5]) + 0.1 * _GENERATOR.normal(size=60)


class Ridge:
    """A regression that is kept in the results."""

    def __init__(self, decay: float) -> None:
        self.weights = np.linalg.solve(X.T @ X + decay * np.eye(3), X.T @ Y)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ridge) and bool(np.all(self.weights == other.weights))

    __hash__ = None  # type: ignore[assignment]  # it is compared only


@program
def a_model_is_chosen_by_each_algo(hyperopt: Any, folder: Path) -> list[Any]:
    hp = hyperopt.hp
    space = {
        "scale": hp.uniform("scale", -3, 3),
        "model": hp.choice(
            "model",
            [
                {"kind": "linear", "decay": hp.loguniform("decay", -9, 2)},
                {"kind": "tree", "depth": hp.quniform("tree_depth", 1, 9, 1), "seed": hp.randint("seed", 5)},
                None,
            ],
        ),
    }

    def objective(point: dict[str, Any]) -> float:
        model = point.pop("model")  # the point is the objective's own to change
        if model is None:
            return 9.0
        model["cost"] = model["decay"] if model.pop("kind") == "linear" else int(model["depth"]) / 9
        return float((point["scale"] - 1) ** 2 + model["cost"])

    found = []
    algos = [hyperopt.tpe.suggest, hyperopt.rand.suggest]
    if hyperopt.__version__ != "0.2.7":  # its ``anneal`` fails with numpy 2.4
        algos.append(hyperopt.anneal.suggest)
    for algo in algos:
        trials = hyperopt.Trials()
        rstate = np.random.default_rng(3)
        best = hyperopt.fmin(
            objective, space, algo=algo, max_evals=25, trials=trials, rstate=rstate, show_progressbar=False
        )
        found.append((best, trials))
    return found


@program
def results_hold_what_each_point_has_made(hyperopt: Any, folder: Path) -> list[Any]:
    def objective(decay: float) -> dict[str, Any]:
        model = Ridge(decay)
        loss = float(np.mean((X @ model.weights - Y) ** 2))
        return {
            "loss": loss,
            "status": hyperopt.STATUS_OK,
            "model": model,
            "shape": X.shape,
            "attachments": {"weights": pickle.dumps(model.weights.tolist())},
        }

    trials = hyperopt.Trials()
    space = hyperopt.hp.lognormal("decay", 0, 2)
    rstate = np.random.default_rng(4)
    best = hyperopt.fmin(
        objective, space, algo=hyperopt.tpe.suggest, max_evals=5, trials=trials, rstate=rstate, verbose=False
    )
    weights = trials.trial_attachments(trials.best_trial)["weights"]
    assert pickle.loads(weights) == trials.best_trial["result"]["model"].weights.tolist()
    return [(best, trials), (weights, trials)]


@program
def a_loop_goes_on_by_one_from_a_file(hyperopt: Any, folder: Path) -> list[Any]:
    path = folder / "trials.pickle"
    rstate = np.random.default_rng(5)
    space = [hyperopt.hp.quniform("x", -9, 9, 3), hyperopt.hp.normal("y", 0, 1)]
    best: Any = None
    trials = hyperopt.Trials()
    for turn in range(6):
        if turn == 3:
            trials = pickle.loads(path.read_bytes())
        best = hyperopt.fmin(
            lambda point: float(abs(point[0]) + point[1] ** 2),
            space,
            algo=hyperopt.tpe.suggest,
            max_evals=len(trials) + 1,
            trials=trials,
            rstate=rstate,
            show_progressbar=False,
        )
        path.write_bytes(pickle.dumps(trials))
    return [(best, trials)]


@program
def known_points_come_first_and_it_stops_early(hyperopt: Any, folder: Path) -> list[Any]:
    seen: list[Any] = []

    def stop(trials: Any, best: float = math.inf, count: int = 0) -> tuple[bool, list[Any]]:
        loss = trials.trials[-1]["result"]["loss"]
        seen.append((trials.trials[-1]["tid"], loss, count))
        count = 0 if loss < best else count + 1
        return count >= 4, [min(best, loss), count]

    path = str(folder / "saved.pickle")
    best = hyperopt.fmin(
        lambda point: (point["x"] - 2) ** 2 + point["y"],
        {"x": hyperopt.hp.uniform("x", -5, 5), "y": hyperopt.hp.choice("y", [4, 1, 0])},
        algo=hyperopt.tpe.suggest,
        max_evals=40,
        points_to_evaluate=[{"x": 0.5, "y": 0}, {"x": 2.5, "y": 2}],
        rstate=np.random.default_rng(6),
        early_stop_fn=stop,
        trials_save_file=path,
        return_argmin=False,
        show_progressbar=False,
    )
    with open(path, "rb") as file:
        trials = pickle.load(file)
    assert 4 < len(trials) < 40
    return [(best, trials), (seen, trials)]


@program
def failures_are_kept(hyperopt: Any, folder: Path) -> list[Any]:
    def objective(point: dict[str, Any]) -> Any:
        x = point["x"]
        if x < -3:
            raise ValueError(f"no root of {x}")
        if x < 0:
            return {"status": hyperopt.STATUS_FAIL, "why": "negative"}
        return {"loss": math.sqrt(x), "status": hyperopt.STATUS_OK} if x < 4 else {"status": hyperopt.STATUS_OK}

    trials = hyperopt.Trials()
    best = hyperopt.fmin(
        objective,
        {"x": hyperopt.hp.uniform("x", -5, 5)},
        algo=hyperopt.rand.suggest,
        max_evals=14,
        trials=trials,
        catch_eval_exceptions=True,
        rstate=np.random.default_rng(7),
        show_progressbar=False,
    )
    return [(best, trials)]


@program
def the_expression_is_evaluated_by_the_objective(hyperopt: Any, folder: Path) -> list[Any]:
    @hyperopt.fmin_pass_expr_memo_ctrl  # type: ignore[untyped-decorator]  # not typed there
    def objective(expr: Any, memo: Any, ctrl: Any) -> dict[str, Any]:
        width = hyperopt.pyll.rec_eval(expr, memo=memo)["width"]
        ctrl.attachments["note"] = f"width {width}"
        ctrl.checkpoint({"status": "running", "loss": 0.0})
        return {"loss": abs(width - 7), "status": hyperopt.STATUS_OK, "note": ctrl.attachments["note"]}

    trials = hyperopt.Trials()
    space = {
        "width": 5 + hyperopt.hp.randint("width", 6),
        "depth": hyperopt.pyll.scope.int(hyperopt.hp.uniform("d", 1, 9)),
    }
    best = hyperopt.fmin(
        objective,
        space,
        algo=hyperopt.tpe.suggest,
        max_evals=6,
        trials=trials,
        rstate=np.random.default_rng(8),
        max_queue_len=4,
        show_progressbar=False,
    )
    return [(best, trials)]


@program
def an_algo_of_its_own_reads_the_trials(hyperopt: Any, folder: Path) -> list[Any]:
    asked: list[Any] = []

    def suggest(new_ids: list[int], domain: Any, trials: Any, seed: int) -> Any:
        """Draw around the best point, in turns with random ones."""
        asked.append((list(new_ids), seed, [one for one in trials.losses() if one is not None]))
        documents = hyperopt.rand.suggest(new_ids, domain, trials, seed)
        if len(trials.trials) % 2:
            near = trials.best_trial["misc"]["vals"]["x"][0]
            documents[0]["misc"]["vals"]["x"] = [(near + documents[0]["misc"]["vals"]["x"][0]) / 2]
        return documents if len(trials.trials) < 9 else []

    trials = hyperopt.Trials()
    best = trials.fmin(
        lambda point: point["x"] ** 2,
        {"x": hyperopt.hp.uniform("x", -5, 5)},
        algo=suggest,
        max_evals=50,
        loss_threshold=1e-9,
        rstate=np.random.default_rng(9),
        show_progressbar=False,
    )
    assert len(trials) == 9
    return [(best, trials), (asked, trials)]


@program
def arguments_are_annotated(hyperopt: Any, folder: Path) -> list[Any]:
    hp = hyperopt.hp

    def objective(x, y):  # type: ignore[no-untyped-def]  # its annotations are the space
        return (x - 1) ** 2 + y

    objective.__annotations__ = {"x": hp.uniform("x", -2, 2), "y": hp.qloguniform("y", 0, 2, 1)}
    trials = hyperopt.Trials()
    best = hyperopt.fmin(
        objective,
        space="annotated",
        max_evals=60,
        loss_threshold=1.2,
        trials=trials,
        rstate=np.random.default_rng(2),
        show_progressbar=False,
    )
    assert len(trials) < 60
    return [(best, trials)]
