"""The parts of a program of Optuna's run, each alone: what travels, what is kept, and what is refused."""

from __future__ import annotations

import importlib
import math
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

import asyncsearch.optuna as ours
from asyncsearch import Study, randint, uniform
from asyncsearch.actions import Assign, MoveTrial
from asyncsearch.driver.questions import Response
from asyncsearch.errors import UsageError
from asyncsearch.events import Consulted, StopRequested
from asyncsearch.ids import Lease, TrialId, WorkerId
from asyncsearch.launch.value_pickler import UnsendableError
from asyncsearch.optuna.answering import StudyAnswerer
from asyncsearch.optuna.choices import KnownChoices
from asyncsearch.optuna.drawn_ahead import NOTHING, AskedOrder, DrawnAhead, set_params
from asyncsearch.optuna.driver_line import DriverLine
from asyncsearch.optuna.facts import StudyFacts, trials_of
from asyncsearch.optuna.messages import ValueCodec
from asyncsearch.optuna.objective import sent_study
from asyncsearch.optuna.refusals import require_own_sampler, require_version
from asyncsearch.optuna.returned import end_by_error, end_by_value, error_of
from asyncsearch.optuna.trial_ends import OptimizeOptions
from asyncsearch.optuna.units import ReportedUnits
from asyncsearch.optuna.worker_trial import WorkerStudy, WorkerTrial
from asyncsearch.programs.changes import Watch, here
from asyncsearch.programs.pickles import pickled, unpickled
from asyncsearch.programs.raised import ObjectiveError, raised_by
from asyncsearch.report.explain import fact_words
from asyncsearch.trial import TrialState as State
from asyncsearch.work import Lane, Work
from tests.agent.driver import make_stage


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, (2.5, None)], 3: True},
        math.inf,
        FloatDistribution(1e-5, 1.0, log=True),
        IntDistribution(0, 10, step=2),
        CategoricalDistribution(["a", None, 2]),
        optuna.trial.TrialState.PRUNED,
        np.float32(0.5),
        {1, 2},
        "not text \udcff",
        optuna.create_trial(value=0.5, params={"x": 1}, distributions={"x": IntDistribution(0, 2)}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    codec = ValueCodec()
    back = codec.loads(codec.dumps(value))
    assert back == value
    assert type(back) is type(value)


def test_the_journal_leaves_out_what_is_too_large_for_it() -> None:
    codec = ValueCodec(1_000)
    assert codec.loads(codec.dumps({"small": {1}, "large": np.arange(1_000)})) == {"small": {1}, "large": None}


def test_a_program_finds_its_own_function_again() -> None:
    codec = ValueCodec()
    assert codec.loads(codec.dumps(test_a_program_finds_its_own_function_again)) is (
        test_a_program_finds_its_own_function_again
    )


def test_facts_give_the_trials_and_those_that_were_lost_have_failed() -> None:
    facts, study = StudyFacts(), optuna.create_study()
    trials, events = [study.ask(), study.ask()], []
    for number, trial in enumerate(trials):
        lease, distribution = Lease(number, WorkerId(0), 1), FloatDistribution(0, 1)
        found = [facts.begun(trial._cached_frozen_trial)]
        value = trial.suggest_float("x", 0, 1)
        found += [facts.suggested("x", distribution, value), facts.reported(3, 0.5), facts.judged(False)]
        trial.report(0.5, 3)
        trial.set_user_attr("pair", (1, {"a": np.float64(2)}))
        found.append(facts.attribute("user_attr", "pair", (1, {"a": np.float64(2)})))
        if number == 0:
            study.tell(trial, 0.25)
            found.append(facts.ended(study.trials[0]))
        events += [Consulted(lease, one) for one in found]
    complete, lost = trials_of(events)
    assert complete == study.trials[0]
    assert lost.state is optuna.trial.TrialState.FAIL
    assert (lost.params, lost.intermediate_values) == (study.trials[1].params, study.trials[1].intermediate_values)


def _mixed(trial: Any) -> float:
    trial.suggest_categorical("kind", ["b", "a", "c"])
    trial.suggest_int("width", 1, 500, log=True)
    trial.suggest_float("one", 2.0, 2.0)
    return float(trial.suggest_float("rate", 0.0, 1.0, step=0.05))


@pytest.mark.parametrize("used", [4, 2, 0])
def test_values_drawn_ahead_are_those_that_optuna_draws_one_by_one(used: int) -> None:
    plain, ahead = [optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=3)) for _ in range(2)]
    plain.optimize(_mixed, n_trials=3)
    drawn = DrawnAhead(ahead)
    for count in (0, used, 4):
        trial = ahead.ask()
        assert len(drawn.draw(trial).internals) == (4 if trial.number else 0)
        drawn.use(trial, count) if trial.number else None
        if count < 4:
            drawn.drop(trial)
        value = _mixed(trial)
        drawn.asked(trial)
        ahead.tell(trial, value)
    assert [trial.params for trial in ahead.trials] == [trial.params for trial in plain.trials]


KINDS = CategoricalDistribution(("a", None))


def one_by_one(values: list[Any]) -> Any:
    def sets(storage: Any, number: int) -> None:
        for name, distribution, internal in values:
            storage.set_trial_param(number, name, internal, distribution)

    return sets


@pytest.mark.parametrize("known", [{}, {"x": FloatDistribution(0, 1)}, {"x": FloatDistribution(0, 1), "k": KINDS}])
def test_values_are_set_together_as_one_by_one(known: dict[str, Any]) -> None:
    values = [("x", FloatDistribution(0, 1), 0.25), ("k", CategoricalDistribution(("a", None)), 1.0)]
    found = []
    for sets in (lambda storage, number: set_params(storage, number, values), one_by_one(values)):
        study = optuna.create_study()
        earlier = study.ask()
        one_by_one([(name, one, 0.0) for name, one in known.items()])(study._storage, earlier._trial_id)
        trial = study.ask()
        before = study.get_trials(deepcopy=False)[1]
        sets(study._storage, trial._trial_id)
        found.append((study.trials[1].params, study.trials[1].distributions))
        assert before.params == {}, "who has looked before has what was there"
    assert found[0] == found[1] == ({"x": 0.25, "k": None}, {name: one for name, one, _ in values})


def test_used_values_are_found_by_an_order_told_with_an_earlier_trial() -> None:
    facts, study = StudyFacts(), optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=3))
    drawn, events = DrawnAhead(study), []
    for number in range(3):
        trial = study.ask()
        ahead = drawn.draw(trial)
        found = [facts.begun(trial._cached_frozen_trial, ahead)]
        if ahead.internals:
            found.append(facts.used(drawn.use(trial, 4)))
        value = _mixed(trial)
        if not ahead.internals:
            told = trial.params.items()
            found += [
                facts.suggested(name, one := trial.distributions[name], one.to_internal_repr(v)) for name, v in told
            ]
        drawn.asked(trial)
        study.tell(trial, value)
        events += [Consulted(Lease(number, WorkerId(0), 1), one) for one in [*found, facts.ended(study.trials[-1])]]
    assert ["order" in event.facts for event in events if "begun" in event.facts] == [False, True, False]
    assert [*trials_of(events)] == study.trials
    assert fact_words(events[-2])[0].startswith("suggested kind, value ")


@pytest.mark.parametrize("value", [None, 0.5, math.nan, math.inf, "no", (1, 2), [1.0]], ids=repr)
def test_a_worker_foresees_the_state_that_the_study_gives_its_trial(value: Any) -> None:
    study, ended = optuna.create_study(), end_by_value(value)
    study.optimize(lambda _trial: value, n_trials=1)
    assert ended.state_in(study) is study.trials[0].state


def test_choices_in_another_order_are_the_known_ones() -> None:
    known = KnownChoices(optuna.create_study())
    first, other = CategoricalDistribution(["b", "a", "c"]), CategoricalDistribution(["a", "b", "c"])
    assert known.known("kind", first) is first
    assert known.known("kind", other) is first
    for place, choice in enumerate(first.choices):
        assert other.choices[int(known.index_in(other, first, place))] == choice
    changed = CategoricalDistribution(["a", "d"])
    assert known.known("kind", changed) is changed


def test_returned_values_are_what_optuna_makes_of_them() -> None:
    assert end_by_value(None).value_or_values is None
    assert end_by_value(np.float32(0.5)).value_or_values == 0.5
    assert end_by_value((1, 2)).value_or_values == [1.0, 2.0]
    assert repr(end_by_value("no").value_or_values) == "['n', 'o']".replace("'", "'")
    assert repr(end_by_value({"a": 1}).value_or_values) == "{'a': 1}"


def test_an_exception_that_cannot_be_sent_is_still_caught_by_its_class() -> None:
    end = end_by_error(KeyError("k"), "the text")._replace(error=None)
    found = error_of(end, (LookupError,))
    assert isinstance(found, LookupError)
    assert isinstance(found, ObjectiveError)
    assert not isinstance(error_of(end, (ValueError,)), ValueError)


class CodedError(Exception):
    """Gives its base other arguments than its own, as many do."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


def test_an_exception_with_arguments_of_its_own_is_sent_as_itself() -> None:
    sent = raised_by(CodedError(3, "three"))
    found = unpickled(pickled(sent)).exception()
    assert type(found) is CodedError
    assert (found.code, str(found)) == (3, "three")


def test_a_checkpoint_says_that_it_needs_the_number_of_reports() -> None:
    context = SimpleNamespace(max_resource=None, resource=0)
    with pytest.raises(UsageError, match=r"scheduler=MedianStopping\(max_resource=9\)"):
        ReportedUnits(context, [], must_pause=False).begin(0, {"weights": np.zeros(1)})


counter = 0
found: list[int] = []


class Rows:
    def __init__(self) -> None:
        self.rows: dict[int, int] = {}

    def __call__(self, trial: int) -> None:
        self.rows[trial] = 1


def test_what_an_objective_changes_has_a_name() -> None:
    kept: list[int] = []

    def objective(extra: list[int], trial: int) -> None:
        global counter  # noqa: PLW0603
        counter += 1
        found.append(trial)
        kept.append(trial)
        extra.append(trial)

    bound = partial(objective, [])
    watch = Watch(bound, here())
    bound(1)
    assert sorted(watch.changed()) == ["argument 0", "counter", "found", "kept"]
    rows = Rows()
    watch = Watch(rows, here())
    rows(1)
    assert watch.changed() == ["self.rows"]
    quiet = Watch(partial(max, 1), here())
    assert quiet.changed() == []


@pytest.mark.parametrize(
    ("version", "is_known"), [("4.4.0", False), ("4.5.0", True), ("5.9.1", True), ("6.0.0", False)]
)
def test_only_known_versions_of_optuna_run(version: str, is_known: bool) -> None:
    if is_known:
        require_version(version)
    else:
        with pytest.raises(UsageError, match=r"from 4\.5 on, below 6"):
            require_version(version)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("kind", ["TPE", "CmaEs", "GP", "NSGAII", "QMC"])
def test_a_sampler_that_learned_from_another_study_is_refused(kind: str) -> None:
    sampler = getattr(optuna.samplers, f"{kind}Sampler")()
    require_own_sampler(optuna.create_study(sampler=sampler, study_name="first"))
    with pytest.raises(UsageError, match=rf"learned from 'first'.*sampler={kind}Sampler"):
        require_own_sampler(optuna.create_study(sampler=sampler, study_name="second"))


def test_samplers_that_keep_nothing_of_a_study_serve_several() -> None:
    for sampler in (optuna.samplers.RandomSampler(), optuna.samplers.GridSampler({"x": [0, 1]})):
        for name in ("first", "second"):
            require_own_sampler(optuna.create_study(sampler=sampler, study_name=name))


def test_a_trial_that_is_told_of_its_beginning_begins_once_whoever_asks() -> None:
    codec, study = ValueCodec(), ours.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    answerer = StudyAnswerer(study, codec, OptimizeOptions(3, None, (), (), False, False, False))
    first, second = [Lease(number, WorkerId(0), 1) for number in range(2)]
    assigned = Assign(Work(second, (Lane((make_stage(1),)),)))
    begin, last_word = codec.dumps(["begin", 0]), codec.dumps(["tell", *end_by_value(0.5)])
    assert answerer.followed(StopRequested(""), [assigned]).unasked == [], "its process has begun no trial yet"
    answerer.answer(TrialId(0), first, begin)
    answerer.answer(TrialId(0), first, codec.dumps(["suggest", "x", FloatDistribution(0, 1)]))
    answerer.answer(TrialId(0), first, last_word)
    (told,) = answerer.followed(StopRequested(""), [assigned]).unasked
    assert isinstance(told.answer, Response)
    assert isinstance(told.answer, Response)
    asked = answerer.answer(TrialId(1), second, begin)  # a new process, since that one has died
    assert told.answer == asked._replace(facts=told.answer.facts)
    assert asked.facts is None
    assert len(study.trials) == 2


@pytest.mark.parametrize("n_trials", [None, 2])
@pytest.mark.parametrize("is_lost_again", [False, True])
def test_the_end_of_a_grid_awaits_the_other_try_of_a_lost_trial(n_trials: int | None, is_lost_again: bool) -> None:
    codec, study = ValueCodec(), ours.create_study(sampler=optuna.samplers.GridSampler({"x": [0, 1]}, seed=0))
    answerer = StudyAnswerer(study, codec, OptimizeOptions(n_trials, None, (), (), False, False, True))
    begin, last_word = codec.dumps(["begin", 0]), codec.dumps(["tell", *end_by_value(0.5)])
    leases = [Lease(number, WorkerId(number), 1) for number in range(5)]
    lost = MoveTrial(TrialId(0), State.WAITING, "its worker was lost")

    def begins(trial: int, lease: int) -> None:
        answerer.answer(TrialId(trial), leases[lease], begin)
        answerer.answer(TrialId(trial), leases[lease], codec.dumps(["suggest", "x", IntDistribution(0, 1)]))

    begins(0, 0)
    begins(1, 1)
    answerer.followed(StopRequested(""), [lost])
    if is_lost_again:
        begins(0, 2)
    answerer.answer(TrialId(1), leases[1], last_word)  # to the sampler both points have had their try
    if is_lost_again:
        answerer.followed(StopRequested(""), [lost])
    wanted_more = answerer.wants_more
    begins(0, 3)
    assert (wanted_more, answerer.wants_more) == (True, False), "the grid has no other point"
    too_much = answerer.answer(TrialId(2), leases[4], begin)
    assert isinstance(too_much, Response)
    assert codec.loads(too_much.content)[0] == "unwanted"
    answerer.answer(TrialId(0), leases[3], last_word)
    states = [trial.state.name for trial in study.trials]
    assert states == ["FAIL", "COMPLETE", *(["FAIL"] if is_lost_again else []), "COMPLETE"]
    assert study.trials[-1].params == study.trials[0].params
    assert answerer.is_done


def test_a_process_that_has_missed_an_order_of_questions_asks_for_it() -> None:
    codec, trial = ValueCodec(), ours.create_study().ask()._cached_frozen_trial
    drawn = [("x", FloatDistribution(0, 1), 0.25)]
    context = SimpleNamespace(
        unasked_answer=lambda: codec.dumps(["ok", [trial, 7, None, [0.25]]]),
        ask=lambda content: codec.dumps(["ok", [trial, 7, [one[:2] for one in drawn], [0.25]]]),
    )
    _, ahead = DriverLine(context).begin(AskedOrder(3, (("y", FloatDistribution(0, 9)),)))
    assert ahead.drawn == drawn


@pytest.mark.parametrize("create_study", [ours.create_study, optuna.create_study], ids=["ours", "theirs"])
def test_another_study_is_a_copy_to_be_read_in_an_objective(create_study: Any) -> None:
    study, other = ours.create_study(), create_study(study_name="other")
    other.add_trial(optuna.create_trial(value=0.5, params={"x": 1}, distributions={"x": IntDistribution(0, 2)}))
    other.set_user_attr("scale", 3)
    token = sent_study.set(study)
    try:
        copied = pickle.loads(pickle.dumps(other))
        with pytest.raises(UnsendableError, match=r"trial 1 of study 'other'.*it\.params"):
            pickle.dumps(other.ask())
    finally:
        sent_study.reset(token)
    assert (copied.best_value, copied.best_params, copied.user_attrs) == (0.5, {"x": 1}, {"scale": 3})
    for write in (copied.ask, lambda: copied.set_user_attr("scale", 4), lambda: copied.add_trial(other.trials[0])):
        with pytest.raises(UsageError, match=r"Study 'other' is another one.*write it after optimize"):
            write()
    assert pickle.loads(pickle.dumps(other.ask())).number == 2, "outside it is Optuna's own affair"


class Colour(optuna.distributions.BaseDistribution):  # type: ignore[misc]  # not typed
    """A distribution of the program's own."""

    def to_internal_repr(self, param_value_in_external_repr: Any) -> float:
        return 0.0

    def single(self) -> bool:
        return False

    def _contains(self, param_value_in_internal_repr: float) -> bool:
        return True


def test_a_distribution_of_the_programs_own_is_refused_in_words() -> None:
    frozen = ours.create_study().ask()._cached_frozen_trial
    trial = WorkerTrial(WorkerStudy("s", 0, []), frozen, NOTHING)
    with pytest.raises(UsageError, match=r"Parameter 'x' has a Colour.*make the value of it in the objective"):
        trial._suggest("x", Colour())


@pytest.mark.parametrize("what", ["ask", "distribution", "copy"])
def test_no_objective_makes_a_value_of_a_refusal(what: str, quiet: None) -> None:
    ours.workers(1, backend="inline", display="none")
    study, other = ours.create_study(), optuna.create_study()
    calls: dict[str, Any] = {
        "ask": lambda _: study.ask(),
        "distribution": lambda trial: trial._suggest("x", Colour()),
        "copy": lambda _: other.set_user_attr("a", 1),
    }
    call = calls[what]

    def objective(trial: Any) -> float:
        try:
            call(trial)
        except Exception:
            return -1.0
        return 0.0

    with pytest.raises(UsageError, match=r"on the driver|has a Colour|a copy of it"):
        study.optimize(objective, n_trials=3)
    assert len(study.trials) == 1


def test_the_storage_of_a_dask_cluster_is_refused_before_a_trial() -> None:
    class DaskStorage(optuna.storages.InMemoryStorage):  # type: ignore[misc]  # not typed here
        """As the one that would connect to a cluster."""

    with pytest.raises(UsageError, match=r"DaskStorage is the storage of a Dask cluster.*leave storage= out"):
        ours.create_study(storage=DaskStorage())


def test_a_search_that_makes_its_own_study_is_answered() -> None:
    with pytest.raises(UsageError, match="OptunaSearchCV is a search that makes its own study"):
        ours.integration.OptunaSearchCV  # noqa: B018
    with pytest.raises(UsageError, match=r"optuna.workers\(8"):
        ours.workers(processes=3)
    with pytest.raises(UsageError, match="write sampler=None"):
        ours.create_study(samplr=None)
    with pytest.raises(UsageError, match="write n_trials=3"):
        ours.create_study().optimize(train, trials=3)


def test_all_other_names_are_optunas_own_objects() -> None:
    for name in ("TrialPruned", "samplers", "pruners", "trial", "exceptions", "distributions", "create_trial"):
        assert getattr(ours, name) is getattr(optuna, name)
    assert ours.study.MaxTrialsCallback is optuna.study.MaxTrialsCallback
    assert issubclass(ours.Study, optuna.Study)
    assert ours.study.create_study is ours.create_study
    assert type(pickle.loads(pickle.dumps(ours.create_study()))) is optuna.Study


def test_submodules_have_this_name_and_are_optunas_own() -> None:
    for name in ("samplers", "visualization.matplotlib", "storages.journal", "study.study", "trial._trial"):
        theirs = importlib.import_module(f"optuna.{name}")
        assert importlib.import_module(f"asyncsearch.optuna.{name}") is theirs
        assert theirs.__spec__ is not None
        assert theirs.__spec__.name == f"optuna.{name}"
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("asyncsearch.optuna.sampler")
    from asyncsearch.optuna.study import create_study

    assert create_study is ours.create_study


def test_the_import_brings_optuna_only_when_a_name_is_asked_for() -> None:
    code = "import sys, asyncsearch.optuna; print('optuna' in sys.modules)"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def train(trial: Any) -> None:
    for step in range(1, 4):
        if trial.params["n"] == 3:
            raise ValueError("three")
        trial.report(loss=trial.params["x"] / step)


def test_searches_of_both_go_into_each_other(tmp_path: Path) -> None:
    options: dict[str, Any] = {"space": {"x": uniform(0, 1), "n": randint(1, 3)}, "metric": "loss", "mode": "min"}
    first = Study(train, store=tmp_path / "first", backend="inline", **options).run(8, display="none")
    made = ours.to_optuna(first)
    assert [trial.number for trial in made.trials] == list(range(8))
    assert made.best_params == first.best_trial.params
    assert made.best_value == first.best_trial.value
    complete = made.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
    assert complete[0].intermediate_values.keys() == {1, 2, 3}
    assert any(trial.state is optuna.trial.TrialState.FAIL for trial in made.trials)
    second = Study(train, store=tmp_path / "second", backend="inline", searcher="tpe", warm_start=[made], **options)
    assert second.run(2, display="none").best_trial.value is not None
    with pytest.raises(UsageError, match="directions minimize, and this study has mode='max'"):
        Study(train, store=tmp_path / "third", **{**options, "mode": "max"}, warm_start=[made])
