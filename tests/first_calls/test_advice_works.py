"""The line that an answer says to write is accepted itself: advice that fails when followed is worse than none."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncsearch
from asyncsearch import ASHA, FIFO, PBT, SHA, Hyperband, MedianStopping, StandaloneTrial, Study, Trainer, uniform
from asyncsearch.errors import AsyncSearchError, UsageError
from asyncsearch.runner.training import name_and_line
from asyncsearch.space import Space
from asyncsearch.study.asked.options import direction_notes
from asyncsearch.trial import Trial
from tests.first_calls.calls import REFUSED
from tests.first_calls.test_first_calls import NAMES, train

FULL = {name: value for name, value in NAMES.items() if name.isidentifier()}
ADVICE = re.compile(r"write (?:Study\(\.\.\., )?(?=(?:mode|store|name|seed|searcher|scheduler|space)=\S)")


def saves(trial: Any) -> None:
    for _ in trial.epochs(state={"w": {}}):
        trial.report(loss=1.0)


def whole_study(trainable: Any = saves, **options: Any) -> Study:
    known = {"space": {"lr": uniform(0.0, 1.0)}, "metric": "loss", "mode": "min", "backend": "processes"}
    return Study(trainable, **(known | options))


def answer(call: Callable[[], object]) -> str:
    with pytest.raises((AsyncSearchError, AttributeError)) as caught:
        call()
    return str(caught.value)


def answer_to_space(form: Any) -> str:
    return answer(lambda: Space({"lr": form}))


def answer_to(scheduler: Any) -> str:
    return answer(lambda: whole_study(scheduler=scheduler))


def advised(text: str) -> str:
    """Return the arguments that an answer says to write."""
    found = ADVICE.search(text.splitlines()[0])
    if found is None:
        return ""
    depth = 0
    rest = text.splitlines()[0][found.end() :]
    for at, char in enumerate(rest):
        depth += (char in "([{") - (char in ")]}")
        if depth < 0 or (depth == 0 and re.match(r"(?:,| and| or| to|\.?$|\. )", rest[at + 1 :])):
            return rest[: at + (depth >= 0)]
    return rest


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


CALLS = [call for call, _ in REFUSED if call.startswith("study(") and ")." not in call]


@settings(max_examples=60, deadline=None)
@given(call=st.sampled_from(CALLS))
def test_arguments_that_an_answer_says_to_write_are_accepted(call: str) -> None:
    line = advised(answer(lambda: eval(call, {**FULL, "study": whole_study, "train": train, "NET": None})))
    if line and "..." not in line and "[" not in line:
        assert isinstance(eval(f"study({line})", {**FULL, "study": whole_study, "searcher": None}), Study), line


URLS = st.sampled_from(["sqlite", "mysql", "postgresql", "postgresql+psycopg2", "redis", "mongodb", "mssql+pyodbc"])
PLACES = st.sampled_from(["/digits.db", "digits.db", "user:secret@host:5432/digits", "//srv/digits.sqlite3?timeout=1"])


@given(scheme=URLS, place=PLACES, argument=st.sampled_from(["storage", "storage_path", "path"]))
def test_a_database_is_answered_by_a_folder_whatever_the_argument(scheme: str, place: str, argument: str) -> None:
    url = f"{scheme}://{place}"
    line = advised(answer(lambda: whole_study(**{argument: url})))
    assert "://" not in line
    assert "secret" not in line
    assert isinstance(eval(f"whole_study({line})", {"whole_study": whole_study}), Study)
    direct = answer(lambda: whole_study(store=url).run(1))
    assert "is a database" in direct
    assert len(direct) < 200
    assert isinstance(eval(f"whole_study({advised(direct)})", {"whole_study": whole_study}), Study)


def other(kind: str, module: str, /, **attributes: Any) -> Any:
    """Return an object of a class of another library."""
    return type(kind, (SimpleNamespace,), {"__module__": module, "__hash__": object.__hash__})(**attributes)


def literal(value: Any) -> Any:
    return other("Literal", "hyperopt.pyll.base", obj=value)


def apply(name: str, *given: Any) -> Any:
    return other("Apply", "hyperopt.pyll.base", name=name, pos_args=list(given), named_args=[])


def hyperopt(draw: str, *bounds: float) -> Any:
    inner = apply(draw, *map(literal, bounds))
    return apply("float", apply("hyperopt_param", literal("lr"), inner))


RAY = "ray.tune.search.sample"
CONFIG = "ConfigSpace.hyperparameters"
FORMS: Mapping[str, Callable[[float, float], Mapping[str, Any]]] = {
    "uniform": lambda low, high: {
        "optuna": other("FloatDistribution", "optuna.distributions", low=low, high=high, log=False, step=None),
        "ray": other("Float", RAY, lower=low, upper=high, sampler=other("_Uniform", RAY)),
        "hyperopt": hyperopt("uniform", low, high),
        "skopt": other("Real", "skopt.space.space", low=low, high=high, prior="uniform"),
        "ConfigSpace": other("UniformFloatHyperparameter", CONFIG, lower=low, upper=high, log=False),
    },
    "loguniform": lambda low, high: {
        "optuna": other("FloatDistribution", "optuna.distributions", low=low, high=high, log=True, step=None),
        "optuna 2": other("LogUniformDistribution", "optuna.distributions", low=low, high=high),
        "ray": other("Float", RAY, lower=low, upper=high, sampler=other("_LogUniform", RAY)),
        "hyperopt": hyperopt("loguniform", math.log(low), math.log(high)),
        "skopt": other("Real", "skopt.space.space", low=low, high=high, prior="log-uniform"),
        "ConfigSpace": other("UniformFloatHyperparameter", CONFIG, lower=low, upper=high, log=True),
    },
    "randint": lambda low, high: {
        "optuna": other("IntDistribution", "optuna.distributions", low=int(low), high=int(high), log=False, step=1),
        "ray": other("Integer", RAY, lower=int(low), upper=int(high) + 1, sampler=other("_Uniform", RAY)),
        "hyperopt": hyperopt("randint", int(low), int(high) + 1),
        "skopt": other("Integer", "skopt.space.space", low=int(low), high=int(high), prior="uniform"),
        "ConfigSpace": other("UniformIntegerHyperparameter", CONFIG, lower=int(low), upper=int(high), log=False),
    },
}


@given(
    kind=st.sampled_from(sorted(FORMS)), low=st.sampled_from([1e-4, 0.5, 1, 2]), times=st.sampled_from([2, 10, 1000])
)
def test_domains_of_other_libraries_are_taken_with_their_own_bounds(kind: str, low: float, times: int) -> None:
    low = max(low, 1) if kind == "randint" else low
    bounds = (int(low), int(low * times)) if kind == "randint" else (low, low * times)
    for library, form in FORMS[kind](low, low * times).items():
        domain = Space({"lr": form}).parameters["lr"]
        assert domain.kind == kind, library
        found = domain.arguments()
        assert (found["low"], found["high"]) == pytest.approx(bounds), library


def test_choices_steps_and_frozen_distributions_are_taken_too() -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    switch = apply("switch", apply("hyperopt_param"), literal("a"), literal("b"))
    whole = other("IntDistribution", "optuna.distributions", low=16, high=128, log=False, step=16)
    cases: list[tuple[str, Any]] = [
        ("choice('a', 'b')", other("Categorical", RAY, categories=["a", "b"])),
        ("choice('a', 'b')", other("CategoricalDistribution", "optuna.distributions", choices=("a", "b"))),
        ("choice('a', 'b')", switch),
        ("loguniform(0.0001, 1.0)", scipy_stats.loguniform(1e-4, 1)),
        ("uniform(1.0, 3.0)", scipy_stats.uniform(1, 2)),
        ("randint(1, 4)", scipy_stats.randint(1, 5)),
        ("normal(0.0, 1.0)", scipy_stats.norm(0, 1)),
        ("normal(0.0, 1.0)", hyperopt("normal", 0, 1)),
        ("lognormal(0.0, 1.0, step=0.5)", hyperopt("qlognormal", 0, 1, 0.5)),
        ("quniform(0.0, 1.0, 0.1)", hyperopt("quniform", 0, 1, 0.1)),
        ("randint(16, 128, step=16)", whole),
        ("quniform(2.0, 8.0, 2.0)", hyperopt("quniform", 1, 9, 2)),
        ("scipy.stats.beta(2, 3)", scipy_stats.beta(2, 3)),
    ]
    for call, form in cases:
        assert repr(Space({"lr": form}).parameters["lr"]) == call
    assert "write choice('a', 'b')" in answer_to_space({"grid_search": ["a", "b"]})


@pytest.mark.parametrize(
    ("form", "words"),
    [
        pytest.param(hyperopt("qloguniform", 0, 1, 0.1), "logarithmic and rounded to steps", id="qloguniform"),
        pytest.param(apply("add", literal(5), hyperopt("uniform", 0, 1)), "it computes by 'add'", id="sum"),
        pytest.param(other("Function", RAY, func=len), "draws by a function", id="sample_from"),
        pytest.param(other("NormalFloatHyperparameter", CONFIG, lower=0, upper=1), "bounded and not uniform", id="cut"),
    ],
)
def test_a_domain_without_a_counterpart_is_refused_with_the_reason(form: Any, words: str) -> None:
    text = answer_to_space(form)
    assert text.startswith("lr: ")
    assert "has no counterpart here" in text
    assert words in text


@given(most=st.integers(2, 500))
def test_schedulers_of_other_libraries_are_answered_with_their_own_numbers(most: int) -> None:
    of_ray = {
        other("AsyncHyperBandScheduler", "ray.tune.schedulers", _max_t=most): ASHA(max_resource=most),
        other("HyperBandScheduler", "ray.tune.schedulers", _max_t=most): Hyperband(max_resource=most),
        other("MedianStoppingRule", "ray.tune.schedulers"): MedianStopping(),
        other("FIFOScheduler", "ray.tune.schedulers"): FIFO(),
        other("HyperbandPruner", "optuna.pruners", _max_resource=most): Hyperband(max_resource=most),
    }
    for scheduler, ours in ((key, value) for key, value in of_ray.items()):
        line = advised(answer_to(scheduler))
        assert eval(f"dict({line})", dict(FULL))["scheduler"] == ours
    pbt = other("PopulationBasedTraining", "ray.tune.schedulers", _perturbation_interval=7)
    line = advised(answer(lambda: whole_study(scheduler=pbt)))
    assert eval(f"dict({line})", dict(FULL))["scheduler"] == PBT(max_resource=100, perturbation_interval=7)


@given(top=st.integers(4, 1000), least=st.integers(1, 50), eta=st.integers(2, 5), kind=st.sampled_from([ASHA, SHA]))
def test_rungs_that_skip_min_resource_are_named_with_one_that_does_not(
    top: int, least: int, eta: int, kind: Callable[..., Any]
) -> None:
    if least >= top:
        return
    scheduler = kind(max_resource=top, min_resource=least, reduction_factor=eta)
    notes = [note for note in scheduler.warnings(10**6) if note.startswith("No rung lies at")]
    if least == 1 or len(scheduler.levels) == 1 or scheduler.levels[0] == least:
        assert notes == []
        return
    [note] = notes
    for better in map(int, re.findall(r"\d+", note.rpartition("use max_resource=")[2])):
        assert kind(max_resource=better, min_resource=least, reduction_factor=eta).levels[0] == least


def test_epochs_with_a_number_are_answered_by_a_scheduler_with_the_loop() -> None:
    text = answer(lambda: StandaloneTrial({"lr": 0.1}, max_resource=2).epochs(10))
    assert advised(text) == "scheduler=FIFO(max_resource=10)"

    def loop(trial: Any) -> None:
        for _ in trial.epochs():
            trial.report(loss=1.0)

    study = whole_study(loop, scheduler=FIFO(max_resource=2), backend="inline")
    study.run(1, display="none")
    assert study.best_trial.resource == 2


def test_completion_offers_only_what_there_is() -> None:
    study = whole_study(backend="inline", scheduler=FIFO(max_resource=1))
    study.run(1, display="none")
    trials: list[Any] = [study.best_trial, study.trials[0], StandaloneTrial({"lr": 0.1}, max_resource=1), study]
    for one in trials:
        for name in dir(one):
            inspect.getattr_static(one, name)
            if not name.startswith("__"):
                try:
                    getattr(one, name)
                except AsyncSearchError:
                    pass  # a property that says what is missing
    assert "accuracy" not in dir(study.best_trial)
    assert "params" in dir(study.best_trial)
    assert issubclass(type(study.best_trial), Trial)


class OwnModel:
    def fit(self, x: Any, y: Any) -> None: ...


@pytest.mark.parametrize(
    ("given_trainable", "line"),
    [
        (OwnModel(), "cross_val_score(OwnModel(**trial.params), x, y).mean()"),
        (OwnModel, "cross_val_score(OwnModel("),
        (other("Module", "torch.nn.modules.module"), "net = Module(**trial.params)"),
        (None, "Study(train, ...)"),
    ],
)
def test_models_are_answered_by_the_function_to_write(given_trainable: Any, line: str) -> None:
    assert line in answer(lambda: whole_study(given_trainable))


def test_a_method_with_wrong_arguments_is_refused_before_any_trial() -> None:
    class Mine(Trainer):
        def setup(self) -> None: ...  # type: ignore[override]

        def train(self) -> None: ...

        def evaluate(self) -> dict[str, float]:
            return {"loss": 1.0}

    text = answer(lambda: whole_study(Mine, scheduler=FIFO(max_resource=1)))
    assert "Mine.setup takes self, and is called with hp: write `def setup(self, hp):`" in text


def returns_nothing(trial: Any) -> None: ...


@pytest.mark.parametrize(
    ("returned", "backend"),
    [(None, "inline"), ((1, 2), "inline"), ({"loss": 1, "status": "ok"}, "inline"), (None, "processes")],
)
def test_a_bad_return_value_is_blamed_on_the_function_not_the_library(returned: Any, backend: str) -> None:
    def gives(trial: Any) -> Any:
        return returned

    study = whole_study(gives, backend=backend)
    with pytest.raises(AsyncSearchError) as caught:
        study.run(1, display="none")
    text = str(caught.value)
    assert f"gives ({__file__}, line {gives.__code__.co_firstlineno})" in text
    assert str(Path(asyncsearch.__file__).parent) not in text


def test_the_line_of_a_function_is_found_in_wrappers_methods_and_objects() -> None:
    import functools

    class Model:
        def __call__(self, trial: Any) -> None: ...

    here = f"returns_nothing ({__file__}, line "
    for function in (
        returns_nothing,
        functools.partial(returns_nothing),
        functools.wraps(returns_nothing)(lambda _: 1),
    ):
        assert name_and_line(function).startswith(here)
    assert "Model" in name_and_line(Model())


@pytest.mark.parametrize(
    ("metric", "mode", "is_said"),
    [
        ("accuracy", "min", True),
        ("val_accuracy", "min", True),
        ("valAUC", "min", True),
        ("loss", "max", True),
        ("test/rmse", "max", True),
        ("accuracy_loss", "min", False),
        ("neg_mse", "max", False),
        ("loss", "min", False),
        ("accuracy", "max", False),
        ("x", "min", False),
    ],
)
def test_a_direction_against_the_name_of_the_metric_is_said(metric: str, mode: str, is_said: bool) -> None:
    assert bool(direction_notes(metric, mode)) is is_said


def test_one_objective_is_all_that_a_study_has() -> None:
    assert "one objective" in answer(lambda: whole_study(mode=["min", "min"]))
    with pytest.raises(UsageError, match=r"perturb=\['lr'\]"):
        PBT(hyperparam_mutations={"lr": [1]})  # type: ignore[call-arg]
