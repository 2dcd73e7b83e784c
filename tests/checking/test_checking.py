"""``check`` proves what resumes bit by bit, and names what was forgotten: each ingredient of a checkpoint in turn."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import pickle
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncsearch
from asyncsearch import cli
from asyncsearch.checking import CheckResult, check
from asyncsearch.errors import CannotPauseError, UsageError
from asyncsearch.sequences import custom, multistep
from asyncsearch.trainable import Trainer, TrialContext
from tests.shares import first, takes_long

SIZE = 40
UNIT = 24
"""Samples in a unit: less than an epoch, so that there is an offset to lose."""
INGREDIENTS = {
    "weights": "weights",
    "optimizer": "momentum",
    "buffers": "running_mean",
    "order": "order",
    "offset": "offset",
    "counter": "steps",
    "scaler": "grad_scale",
    "generator": "noise_rng",
}
"""What a checkpoint holds, and the attribute that holds it here."""
GENERATORS = ("python generator", "numpy generator")


class Net(Trainer):
    """A regression that depends on every ingredient there is, and saves all of them by hand."""

    forgotten: tuple[str, ...] = ()

    def setup(self, hp: dict[str, Any]) -> None:
        random.seed(self.trial.seed)
        np.random.seed(self.trial.seed)  # noqa: NPY002
        self.noise_rng = np.random.default_rng(self.trial.seed)
        data = np.random.default_rng(1)
        self.x = data.normal(size=(SIZE, 3))
        self.y = self.x @ np.array([1.0, -2.0, 0.5])
        self.lr = hp["lr"]
        self.weights = np.zeros(3)
        self.momentum = np.zeros(3)
        self.running_mean = np.zeros(3)
        self.order = np.arange(SIZE)
        self.offset = SIZE
        self.steps = 0
        self.grad_scale = 1.0
        self.cache: list[float] = []

    def train(self) -> None:
        left = UNIT
        while left:
            if self.offset == SIZE:
                self.offset = 0
                self.order = self.order[np.random.default_rng(self.steps + 3).permutation(SIZE)]
            batch = self.order[self.offset : self.offset + min(8, left)]
            self.offset += len(batch)
            left -= len(batch)
            self.step(batch)

    def step(self, batch: Any) -> None:
        noise = self.noise_rng.normal() + random.random() + np.random.rand()  # noqa: NPY002
        x = self.x[batch] + 0.01 * noise
        self.running_mean = 0.9 * self.running_mean + 0.1 * x.mean(0)
        gradient = (x - self.running_mean).T @ (x @ self.weights - self.y[batch]) / len(batch)
        self.momentum = 0.9 * self.momentum + gradient * self.grad_scale
        self.grad_scale = 0.5 + self.grad_scale / 3
        self.steps += 1
        self.weights = self.weights - self.lr / self.steps * self.momentum

    def evaluate(self) -> dict[str, float]:
        self.cache.append(1.0)
        return {"loss": float(((self.x @ self.weights - self.y) ** 2).mean())}

    def save(self, path: Path) -> None:
        state = {name: getattr(self, name) for name in INGREDIENTS.values()}
        shared = {"python generator": random.getstate(), "numpy generator": np.random.get_state()}  # noqa: NPY002
        path.write_bytes(pickle.dumps((state, shared)))

    def load(self, path: Path) -> None:
        state, shared = pickle.loads(path.read_bytes())
        for name, value in state.items():
            if name not in self.forgotten:
                setattr(self, name, value)
        if "python generator" not in self.forgotten:
            random.setstate(shared["python generator"])
        if "numpy generator" not in self.forgotten:
            np.random.set_state(shared["numpy generator"])  # noqa: NPY002


def forgetting(*names: str) -> type[Net]:
    return type("Forgetful", (Net,), {"forgotten": names})


def checked(trainable: Any, **options: Any) -> CheckResult:
    return check(trainable, {"lr": 0.1}, processes=False, **options)


def test_what_saves_everything_is_proved() -> None:
    result = checked(Net)
    assert result.ok
    assert bool(result)
    assert result.names == ()
    assert "NO" not in str(result)


@pytest.mark.parametrize("kind", [*INGREDIENTS, *GENERATORS])
def test_each_ingredient_that_is_forgotten_is_named_and_nothing_else(kind: str) -> None:
    result = checked(forgetting(INGREDIENTS.get(kind, kind)))
    assert not result
    assert result.names == (kind,)
    assert result.forgotten is not None
    assert result.forgotten[0].is_proved
    assert result.forgotten[0].places == ((f"self.{INGREDIENTS[kind]}",) if kind in INGREDIENTS else ())
    assert f"forgotten {kind}" in str(result)


def test_several_ingredients_that_are_forgotten_are_all_named() -> None:
    assert set(checked(forgetting("momentum", "python generator", "steps")).names) == {
        "optimizer",
        "python generator",
        "counter",
    }


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_the_cut_may_be_anywhere(cut: int) -> None:
    assert checked(Net, cut=cut)
    assert checked(forgetting("offset"), cut=cut).names == ("offset",)


def test_a_generator_reseeded_by_setup_and_not_restored_is_named() -> None:
    """It does not depend on what the process drew before, so that another seed there would not show it."""
    assert checked(forgetting("numpy generator")).names == ("numpy generator",)


def test_the_first_difference_is_said() -> None:
    assert "loss at unit 3 is " in str(checked(forgetting("momentum")))


class Coarse(Net):
    """Its metric hides what is in the checkpoint."""

    def evaluate(self) -> dict[str, float]:
        return {"accuracy": 1.0}


class CoarseAndForgetful(Coarse):
    forgotten = ("momentum",)


def test_a_difference_that_no_metric_shows_is_found_in_the_checkpoint() -> None:
    result = checked(CoarseAndForgetful)
    assert result.names == ("optimizer",)
    assert "the metrics are the same, the last checkpoints differ in self." in str(result)
    assert checked(Coarse)


class Unseeded(Net):
    def setup(self, hp: dict[str, Any]) -> None:
        super().setup(hp)
        np.random.seed()  # noqa: NPY002
        self.start = np.random.rand()  # noqa: NPY002


class UnseededPython(Net):
    def setup(self, hp: dict[str, Any]) -> None:
        before = random.random()
        super().setup(hp)
        self.weights = self.weights + before


class Clock(Net):
    def train(self) -> None:
        super().train()
        self.weights = self.weights + time.perf_counter() * 1e-9


def test_a_training_that_depends_on_an_unseeded_generator_is_said_first() -> None:
    result = checked(UnseededPython)
    assert result.names == ("python generator",)
    assert "NO: two runs of the same differ" in str(result)
    assert "cannot be told" in str(result)


@pytest.mark.parametrize("trainable", [Unseeded, Clock])
def test_a_training_that_depends_on_the_clock_is_said_first(trainable: type[Net]) -> None:
    result = checked(trainable)
    assert result.random is not None
    assert "none of its generators" in result.random[0].kind


class Drawing(Net):
    def evaluate(self) -> dict[str, float]:
        random.random()
        return super().evaluate()


class Marking(Net):
    def evaluate(self) -> dict[str, float]:
        self.running_mean = self.running_mean * 0.99
        return super().evaluate()


@pytest.mark.parametrize(("trainable", "kind"), [(Drawing, "python generator"), (Marking, "buffers")])
def test_an_evaluation_that_changes_training_is_named_with_what_it_changes(trainable: type[Net], kind: str) -> None:
    """Trap 5 of notes/stages.md, section 2.4: metrics that one trial asks for change another trial."""
    result = checked(trainable)
    assert result.forgotten is None
    assert result.disturbed is not None
    assert kind in result.names
    assert f"changes {kind}" in str(result)


class Guessing(Net):
    def evaluate(self) -> dict[str, float]:
        self.calls = getattr(self, "calls", 0) + 1
        return super().evaluate() | {"calls": self.calls - self.steps}


def test_an_evaluation_that_gives_something_else_the_second_time_is_said() -> None:
    assert checked(Guessing).disturbed is not None


class SavingSpoils(Net):
    def save(self, path: Path) -> None:
        super().save(path)
        self.weights = self.weights * 0.5


def test_a_save_that_changes_the_training_is_named() -> None:
    """It shows only where the training goes on after it: what was saved is right."""
    result = checked(SavingSpoils)
    assert result.forgotten is None
    assert result.names == ("weights",)
    assert "save changes nothing      NO" in str(result)


_remembered: list[int] = []


class Iterating(Net):
    """Goes through its data by an iterator, which no checkpoint can hold."""

    def setup(self, hp: dict[str, Any]) -> None:
        super().setup(hp)
        self.stream = (step * 0.01 for step in itertools.count())

    def train(self) -> None:
        super().train()
        self.weights = self.weights + next(self.stream)


def test_an_iterator_is_suspected_where_nothing_else_explains_it() -> None:
    result = checked(Iterating)
    assert result.forgotten is not None
    found = {finding.kind: finding for finding in result.forgotten}
    assert found["order"].places == ("self.stream (an iterator: where it stands cannot be seen)",)
    assert not found["order"].is_proved


def whole(trial: TrialContext) -> None:
    train(trial, True)


def forgetful(trial: TrialContext) -> None:
    train(trial, False)


def train(trial: TrialContext, saves_all: bool) -> None:
    weights, momentum, steps = np.zeros(2), np.zeros(2), 0

    def save(path: Path) -> None:
        path.write_bytes(pickle.dumps((weights, momentum, steps)))

    def load(path: Path) -> None:
        nonlocal weights, momentum, steps
        weights, found, steps = pickle.loads(path.read_bytes())
        if saves_all:
            momentum = found

    for _ in trial.epochs(save=save, load=load):
        steps += 1
        momentum = 0.9 * momentum + (weights - [1.0, 2.0]) / steps
        weights = weights - trial.params["lr"] * momentum
        trial.report(loss=float((weights**2).sum()))


def test_a_function_with_save_and_load_is_checked_except_its_evaluation() -> None:
    result = checked(whole)
    assert result
    assert "not checked" in str(result)


def test_what_a_function_forgets_is_named_by_its_variable() -> None:
    result = checked(forgetful)
    assert result.names == ("optimizer",)
    assert result.forgotten is not None
    assert result.forgotten[0].places == ("momentum",)


class Scheduled(Net):
    def update(self, hp: dict[str, Any]) -> None:
        self.lr = hp["lr"]


class ScheduledByHand(Net):
    """Steps its learning rate in a variable of its own, and does not save it."""

    def train(self) -> None:
        self.lr *= 0.9
        super().train()


def decayed(time: float, height: float) -> float:
    return height / (1 + time)


@pytest.mark.parametrize(
    "rate",
    [pytest.param(multistep(0.1, [2]), marks=takes_long), custom(decayed, height=0.1)],
    ids=["steps", "my own"],
)
def test_values_that_change_are_checked_as_they_are_in_a_search(rate: Any) -> None:
    assert check(Scheduled, {"lr": rate}, units=3, processes=False)
    assert check(Scheduled, {"lr": rate}, units=3)


def test_a_schedule_of_ones_own_that_is_not_saved_is_found() -> None:
    result = checked(ScheduledByHand)
    assert result.forgotten is not None
    assert result.forgotten[0].places == ("self.lr",)


@pytest.mark.parametrize(("attribute", "kind"), first([("_optimizer", "optimizer"), ("_random_state", "generator")]))
def test_what_scikit_learn_hides_in_its_networks_is_named(attribute: str, kind: str) -> None:
    pytest.importorskip("sklearn")
    from tests.scripts.tools import imported

    reader: Any = imported("digits_search").DigitReader

    class Forgetful(reader):  # type: ignore[misc]
        def load(self, path: Path) -> None:
            super().load(path)
            delattr(self.network, attribute)
            if attribute == "_random_state":
                self.network.random_state = self.network._random_state = np.random.RandomState(0)

    params = {
        "width": 16,
        "layers": 1,
        "activation": "relu",
        "alpha": 1e-4,
        "batch_size": 128,
        "lr": 1e-3,
        "beta_1": 0.9,
    }
    assert check(reader, params, units=2, processes=False)
    assert check(Forgetful, params, units=2, processes=False).names == (kind,)


def test_what_cannot_be_paused_is_an_error() -> None:
    def once(trial: TrialContext) -> float:
        return 0.5

    with pytest.raises(CannotPauseError):
        checked(once)
    with pytest.raises(CannotPauseError):
        checked(lambda trial: [trial.report(x=1) for _ in trial.epochs()])


@pytest.mark.parametrize(
    ("units", "cut", "words"),
    [
        (4, 0, "must lie between 1 and units - 1"),
        (4, 4, "must lie between 1 and units - 1"),
        (1, None, "write units=2 or more"),
    ],
)
def test_a_cut_that_leaves_nothing_on_one_side_is_an_error(units: int, cut: int | None, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        checked(Net, units=units, cut=cut)


def test_the_generators_of_whoever_checks_are_left_as_they_were() -> None:
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    expected = random.Random(3).random(), np.random.RandomState(3).rand()
    checked(Net)
    assert (random.random(), np.random.rand()) == expected  # noqa: NPY002


def test_check_is_a_public_name() -> None:
    assert asyncsearch.check is check


SCRIPT = '''
import pickle, random
from asyncsearch import ASHA, Study, Trainer, uniform

seen = []  # what a process remembers

class Good(Trainer):
    def setup(self, hp):
        self.weight, self.lr = 1.0, hp["lr"]

    def train(self):
        self.weight -= self.lr * self.weight

    def evaluate(self):
        return {"loss": self.weight}

    def save(self, path):
        path.write_text(repr(self.weight))

    def load(self, path):
        self.weight = float(path.read_text())

class Forgets(Good):
    def load(self, path):
        pass

class Remembers(Good):
    """Its weight survives in the process only, so that only another process shows what is forgotten."""

    def train(self):
        super().train()
        seen.append(self.weight)

    def load(self, path):
        self.weight = seen[-1] if seen else 0.5

def make_study():
    space = {"lr": uniform(0, 1)}
    return Study(Good, space=space, metric="loss", mode="min", scheduler=ASHA(max_resource=4), store="s")

if __name__ == "__main__":
    raise SystemExit("the script was run, not imported")
'''


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    import sys

    import asyncsearch.study.study  # noqa: F401 - before the copy, in which half of a module may be imported

    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = sys.modules.copy()  # with another dictionary in its place, imports inside packages would fail
    path = tmp_path / "search.py"
    path.write_text(SCRIPT, encoding="utf-8")
    yield str(path)
    sys.modules.update(before)


def test_the_trainable_of_a_scripts_study_is_checked_from_the_shell(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", script]) == 0
    assert "Good: 4 units at one go, and 2 + 2 with a checkpoint between them" in capsys.readouterr().out


def test_what_is_forgotten_has_exit_code_1(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", f"{script}:Forgets", "--params", '{"lr": 0.5}', "--units", "2", "--in-process"]) == 1
    assert "forgotten weights: self.weight" in capsys.readouterr().out


def test_what_only_a_process_remembers_is_lost_with_it(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", f"{script}:Remembers"]) == 1
    assert "resumes bit by bit        NO" in capsys.readouterr().out


def test_a_check_says_its_steps_as_it_takes_them(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []

    @contextlib.contextmanager
    def announced(sentence: str) -> Iterator[None]:
        said.append(sentence)
        yield

    monkeypatch.setattr("asyncsearch.checking.resume_proof.announced", announced)
    assert cli.main(["check", f"{script}:Good", "--in-process"]) == 0
    assert [sentence.split(":")[1].strip() for sentence in said] == ["1 of 3", "2 of 3", "3 of 3"]


@pytest.mark.parametrize(
    ("trainer", "arguments", "words"),
    [
        ("{script}:Nobody", [], "has no Nobody"),
        ("{script}:seen", [], "is not a trainable"),
        ("no.such.module:Net", [], "No module named"),
        ("{script}:Good", ["--params", "{lr: 1}"], "is not JSON"),
        ("{script}:Good", ["--params", "[1]"], "is not a JSON object"),
        ("{script}.txt:Good", [], "is not a file"),
        ("Good", [], "script.py:Class"),
    ],
)
def test_what_cannot_be_checked_is_one_line_and_exit_code_2(
    trainer: str, arguments: list[str], words: str, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", trainer.format(script=script), *arguments]) == 2
    *steps, error = capsys.readouterr().err.splitlines()
    assert words in error
    assert all(step.startswith("check of ") for step in steps), "what it does while it takes its time"


class Hidden(Trainer):
    """Its state is inside an object of a library, where nobody can look; a counter of its own differs, too."""

    def setup(self, hp: dict[str, Any]) -> None:
        self.inside = hashlib.sha256()
        self.calls = 0

    def train(self) -> None:
        self.inside.update(b"x")
        self.calls += 1

    def evaluate(self) -> dict[str, float]:
        return {"loss": float(int(self.inside.hexdigest()[:6], 16))}

    def save(self, path: Path) -> None:
        path.write_text("")

    def load(self, path: Path) -> None:
        self.inside.update(path.read_bytes())


def test_what_was_restored_in_vain_is_not_blamed() -> None:
    result = check(Hidden, processes=False)
    assert result.forgotten is not None
    assert result.names == ("something that cannot be seen: a file, a module's variable, a state inside of a library",)
