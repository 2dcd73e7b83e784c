"""Samplers of Optuna as searchers: what they are told, what they may propose, and that nothing is lost in a restart."""

from __future__ import annotations

import json
import sys
import threading
import warnings
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import Study
from asyncsearch.actions import CreateTrial
from asyncsearch.errors import SpaceError, UsageError
from asyncsearch.ids import TrialId
from asyncsearch.schedulers import FIFO
from asyncsearch.searchers import OptunaSearch, RandomSearch
from asyncsearch.searchers.base_searcher import SearcherState
from asyncsearch.sequences import exponential
from asyncsearch.simulate import Simulation
from asyncsearch.space import Space, choice, lograndint, loguniform, quniform, randint, uniform
from asyncsearch.testing.recording import Recorded, Steps, make_state
from asyncsearch.trial import Params

optuna = pytest.importorskip("optuna")


def make_space(**more: Any) -> Space:
    return Space(
        {
            "lr": loguniform(1e-4, 1e-1),
            "kind": choice("a", "b"),
            "x": randint(1, 9).when(kind="a"),
            "drop": quniform(0.1, 0.5, 0.1),
            "layers": choice([1, 2], [3], None),
            "n": {"d": uniform(-1, 1), "width": lograndint(1, 300), "fixed": {"any": "thing"}},
        },
        **more,
    )


LINE = Space({"x": uniform(0, 1)})


class Fixed(optuna.samplers.BaseSampler):  # type: ignore[name-defined, misc]
    """Proposes given values, and shows the trials of the study that it was asked for."""

    def __init__(self, values: Mapping[str, Any], look: Callable[[list[Any]], None] = lambda trials: None) -> None:
        self.values, self.look = values, look

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
        return {}

    def sample_relative(self, study: Any, trial: Any, search_space: Any) -> dict[str, Any]:
        self.look(study.get_trials())
        return {}

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
        return self.values[param_name]


def searched(searcher: OptunaSearch, space: Space = LINE, seed: int = 0) -> tuple[SearcherState, list[Params]]:
    """A state after 30 trials of all fates, and their params."""
    state = searcher.begin(space, seed)
    return state, [live(state, number) for number in range(30)]


def live(state: SearcherState, number: int, proposed: Params | None = None) -> Params:
    """Ask for a proposal and let it have the fate of its number."""
    params = state.propose(number) if proposed is None else proposed
    assert params is not None
    notes = {} if proposed is not None else state.notes(number)
    trial = TrialId(number)
    state.created(trial, params)
    if notes:
        state.noted(trial, notes)
    score = (zlib.crc32(json.dumps(params, sort_keys=True).encode()) % 1000) / 1000 if number % 7 else None
    state.reported(trial, 1, score)
    if number % 5 == 1:
        state.failed(trial, 1)
    elif number % 5 == 2:
        state.stopped(trial, 1, score)
    elif number % 5 != 3:
        state.paused(trial, 1, score)
        if number % 2:
            state.promoted(trial, 1, 3)
            state.reported(trial, 3, score)
            state.completed(trial, 3, score)
    return params


class TestTold:
    """What a sampler sees of trials."""

    def seen(self, facts: Callable[[SearcherState], None], enough: int = 2, trials: int = 3) -> list[tuple[Any, ...]]:
        seen: list[Any] = []
        state = OptunaSearch(lambda seed: Fixed({"x": 0.5}, seen.append), min_observations=enough).begin(LINE, 0)
        for number in range(trials):
            state.created(TrialId(number), {"x": number / 10})
        facts(state)
        state.propose(trials)
        # The last one is the trial that is being proposed.
        return [(trial.state.name, trial.values, trial.intermediate_values) for trial in seen[-1][:-1]]

    def test_new_trials_run(self) -> None:
        assert self.seen(lambda state: None) == [("RUNNING", None, {})] * 3

    def test_trials_are_compared_at_the_highest_resource_with_enough_results(self) -> None:
        def facts(state: SearcherState) -> None:
            for number, last in enumerate((2, 9, 3)):
                for resource in range(1, last + 1):
                    state.reported(TrialId(number), resource, resource + number / 10)

        seen = self.seen(facts)
        assert [(state, values) for state, values, _ in seen] == [
            ("RUNNING", None),
            ("COMPLETE", [3.1]),
            ("COMPLETE", [3.2]),
        ]
        assert seen[0][2] == {1: 1.0, 2: 2.0}

    def test_trials_ended_below_that_resource_are_pruned_with_their_reports(self) -> None:
        def facts(state: SearcherState) -> None:
            for number in range(3):
                state.reported(TrialId(number), 1, 0.5)
            state.paused(TrialId(0), 1, 0.5)
            state.stopped(TrialId(1), 1, 0.5)
            state.reported(TrialId(2), 2, 0.4)

        assert self.seen(facts, enough=1) == [
            ("PRUNED", None, {1: 0.5}),
            ("PRUNED", None, {1: 0.5}),
            ("COMPLETE", [0.4], {1: 0.5, 2: 0.4}),
        ]

    def test_promoted_trials_run_again(self) -> None:
        def facts(state: SearcherState) -> None:
            state.reported(TrialId(0), 1, 0.5)
            state.paused(TrialId(0), 1, 0.5)
            state.promoted(TrialId(0), 1, 3)

        assert self.seen(facts)[0] == ("RUNNING", None, {1: 0.5})

    def test_a_trial_with_anothers_weights_counts_as_far_as_its_own_params_led(self) -> None:
        def facts(state: SearcherState) -> None:
            for number in range(3):
                state.reported(TrialId(number), 1, 0.5)
                state.paused(TrialId(number), 1, 0.5)
            state.branched(TrialId(0), TrialId(1), {"x": 0.9}, 1, 3)
            state.reported(TrialId(0), 2, 0.1)
            state.paused(TrialId(0), 2, 0.1)
            state.promoted(TrialId(0), 2, 3)
            state.completed(TrialId(0), 3, 0.1)
            state.reported(TrialId(1), 2, 0.4)

        assert self.seen(facts, enough=1)[:2] == [("PRUNED", None, {1: 0.5}), ("COMPLETE", [0.4], {1: 0.5, 2: 0.4})]

    def test_failed_trials_failed_whatever_they_reported(self) -> None:
        def facts(state: SearcherState) -> None:
            state.reported(TrialId(0), 1, 0.5)
            state.failed(TrialId(0), 1)

        assert self.seen(facts, enough=1)[0] == ("FAIL", None, {1: 0.5})

    def test_trials_are_compared_where_they_were_before_a_failed_one_passed(self) -> None:
        def facts(state: SearcherState) -> None:
            for number in range(3):
                state.reported(TrialId(number), 1, 0.5)
            for number in range(2):
                state.reported(TrialId(number), 2, 0.4)
            state.failed(TrialId(0), 2)

        assert [(state, values) for state, values, _ in self.seen(facts)] == [
            ("FAIL", None),
            ("COMPLETE", [0.5]),
            ("COMPLETE", [0.5]),
        ]

    def test_no_result_is_no_number_and_completes_nothing(self) -> None:
        def facts(state: SearcherState) -> None:
            state.reported(TrialId(0), 1, 0.5)
            state.reported(TrialId(1), 1, None)
            state.completed(TrialId(1), 1, None)

        assert str(self.seen(facts, enough=1)[1]) == "('PRUNED', None, {1: nan})"

    def test_trial_that_returned_early_is_complete_at_every_resource_above(self) -> None:
        def facts(state: SearcherState) -> None:
            for number in range(2):
                state.reported(TrialId(number), 1, 0.5)
            state.completed(TrialId(0), 1, 0.5)
            state.reported(TrialId(1), 2, 0.4)

        assert [seen[:2] for seen in self.seen(facts)[:2]] == [("COMPLETE", [0.5]), ("COMPLETE", [0.4])]

    def test_values_have_their_own_names_and_kinds(self) -> None:
        seen: list[Any] = []
        values = {"lr": 0.01, "kind": "a", "x": 3, "drop": 0.1 + 0.2, "layers": "1: [3]", "n.d": 0.5, "n.width": 7}
        state = OptunaSearch(lambda seed: Fixed(values, seen.append)).begin(make_space(), 0)
        params = state.propose(0)
        assert params == {
            "lr": 0.01,
            "kind": "a",
            "x": 3,
            "drop": 0.3,
            "layers": [3],
            "n": {"d": 0.5, "width": 7, "fixed": {"any": "thing"}},
        }
        state.created(TrialId(0), params)
        state.propose(1)
        assert seen[-1][0].params == {**values, "drop": 0.3}

    def test_what_is_told_has_the_distributions_of_what_is_asked(self) -> None:
        seen: list[Any] = []
        state = OptunaSearch(lambda seed: Asking(seed, seen.append)).begin(make_space(), 0)
        params = state.propose(0) or {}
        state.created(TrialId(0), params)
        state.propose(0)
        # The draft, as it is before the last of its values.
        trial, draft = seen[-1]
        assert draft.params.items() < trial.params.items()
        assert draft.distributions.items() < trial.distributions.items()
        assert len(draft.params) == len(trial.params) - 1 > 3


class Asking(optuna.samplers.RandomSampler):  # type: ignore[name-defined, misc]
    """Draws, and shows the trials of the study before each value."""

    def __init__(self, seed: int, look: Callable[[list[Any]], None]) -> None:
        super().__init__(seed=seed)
        self.look = look

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
        self.look(study.get_trials())
        return super().sample_independent(study, trial, param_name, param_distribution)


class TestProposals:
    def test_gaussian_process_proposes_after_enough_results(self) -> None:
        pytest.importorskip("torch")
        space = Space({"x": uniform(0, 1), "kind": choice("a", "b")})
        state, chance = OptunaSearch("gp").begin(space, 0), RandomSearch().begin(space, 0)
        for number in range(20):
            live(state, number, chance.propose(number))
        space.validate(state.propose(20) or {})

    def test_seeds_and_numbers_give_different_proposals(self) -> None:
        states = [OptunaSearch().begin(LINE, seed) for seed in range(5)]
        assert len({str(state.propose(number)) for state in states for number in range(10)}) == 50

    def test_sampler_learns(self) -> None:
        state = OptunaSearch().begin(LINE, 0)
        errors = []
        for number in range(60):
            params = state.propose(number) or {}
            errors.append(abs(params["x"] - 0.25))
            state.created(TrialId(number), params)
            state.reported(TrialId(number), 1, errors[-1])
            state.completed(TrialId(number), 1, errors[-1])
        assert sum(error < 0.1 for error in errors[10:]) > 25  # 10 are expected by chance

    def test_a_fact_makes_the_last_answer_old(self) -> None:
        asked: list[Any] = []
        state = OptunaSearch(lambda seed: Fixed({"x": 0.5}, asked.append)).begin(LINE, 0)
        state.propose(0)
        state.propose(0)
        count = len(asked)
        state.created(TrialId(0), {"x": 0.5})
        state.propose(0)
        assert len(asked) == count + 1

    def test_whoever_gets_params_may_change_them(self) -> None:
        state = OptunaSearch().begin(make_space(), 0)
        params = state.propose(0) or {}
        params["n"]["fixed"]["any"] = "other"
        assert (state.propose(0) or {})["n"]["fixed"] == {"any": "thing"}

    def test_initial_points_come_first_and_no_sampler_is_asked_for_them(self) -> None:
        space = Space({"x": uniform(0, 1), "y": uniform(0, 1)}, initial=[{"x": 0.5, "y": 0.25}, {"x": 1}])
        state = OptunaSearch(lambda seed: Fixed({"x": 0, "y": 0})).begin(space, 0)
        assert state.propose(0) == {"x": 0.5, "y": 0.25}
        assert (state.propose(1) or {})["x"] == 1
        assert state.propose(2) == {"x": 0, "y": 0}

    def test_parameters_inside_sequences_are_proposed(self) -> None:
        space = Space({"lr": choice(exponential(0.1, gamma=uniform(0.9, 0.99)), 0.01), "m": uniform(0, 1)})
        proposals = searched(OptunaSearch(), space)[1]
        for params in proposals:
            space.validate(params)
        assert {type(params["lr"]) for params in proposals} == {dict, float}

    def test_there_is_no_end(self) -> None:
        assert OptunaSearch().begin(LINE, 0).length() is None


class TestConstraints:
    def test_sampler_that_is_always_rejected_is_asked_a_bounded_number(self) -> None:
        asked: list[Any] = []
        space = Space({"x": uniform(0, 1)}, constraints=[lambda params: params["x"] != 0.5])
        state = OptunaSearch(lambda seed: Fixed({"x": 0.5}, asked.append)).begin(space, 0)
        asked.clear()
        space.validate(state.propose(1) or {})
        assert len(asked) == 20

    def test_rejected_proposal_is_asked_for_again_with_another_seed(self) -> None:
        space = Space({"x": uniform(0, 1)}, constraints=[lambda params: params["x"] < 0.2])
        state = OptunaSearch("random").begin(space, 0)
        assert len({(state.propose(number) or {})["x"] for number in range(20)}) == 20

    def test_constraints_that_reject_everything_are_refused_at_the_beginning(self) -> None:
        space = make_space(constraints=[lambda params: params["lr"] > 1])
        with pytest.raises(SpaceError, match="rejected all of 1000 candidates"):
            OptunaSearch().begin(space, 0)


class TestRestarts:
    def test_notes_of_a_proposal_come_back_through_the_engine(self) -> None:
        state = make_state(FIFO(), OptunaSearch("cmaes"), make_space())
        recorded = Recorded(state)
        Simulation(state, Steps(), workers=1, watch=recorded).run(40)
        created = [action for step in recorded.steps for action in step[2] if isinstance(action, CreateTrial)]
        kept = [trial[1] for trial in state.searcher.snapshot()["trials"]]
        assert [action.notes for action in created] == kept
        assert any(kept)

    def test_what_cma_es_keeps_is_in_the_notes(self) -> None:
        space = Space({"x": uniform(0, 1), "y": uniform(0, 1)})
        state = OptunaSearch("cmaes").begin(space, 0)
        for number in range(30):
            params, notes = state.propose(number) or {}, state.notes(number)
            state.created(TrialId(number), params)
            state.noted(TrialId(number), notes)
            state.reported(TrialId(number), 1, params["x"])
        kept = [trial[1] for trial in state.snapshot()["trials"]]
        assert any("cma:optimizer:0" in note.get("trial", {}) for note in kept)

    def test_a_samplers_notes_count_once_its_proposal_is_a_trial(self) -> None:
        class Counting(Fixed):
            def sample_relative(self, study: Any, trial: Any, search_space: Any) -> dict[str, Any]:
                count = study._storage.get_study_system_attrs(study._study_id).get("count", 0)
                study._storage.set_study_system_attr(study._study_id, "count", count + 1)
                return {}

        searcher = OptunaSearch(lambda seed: Counting({"x": 0.5}))
        state = searcher.begin(LINE, 0)
        assert [state.notes(number) for number in (0, 1, 0)] == [{"study": {"count": 1}}] * 3
        live(state, 0)
        assert state.notes(1) == {"study": {"count": 2}}
        restored_state = searcher.begin(LINE, 0)
        restored_state.restore(json.loads(json.dumps(state.snapshot())))
        assert restored_state.notes(1) == {"study": {"count": 2}}

    def test_tpe_keeps_nothing(self) -> None:
        assert not any(trial[1] for trial in searched(OptunaSearch(), make_space())[0].snapshot()["trials"])


class TestBadInput:
    def test_proposal_outside_the_space_names_sampler_parameter_and_value(self) -> None:
        with pytest.raises(SpaceError, match=r"Fixed proposes what the space does not have. x: 5.* outside uniform"):
            OptunaSearch(lambda seed: Fixed({"x": 5.0})).begin(LINE, 0)

    def test_step_that_is_none_is_outside(self) -> None:
        space = Space({"q": quniform(0, 1, 0.25)})
        with pytest.raises(SpaceError, match=r"q: 0\.4 is not a step"):
            OptunaSearch(lambda seed: Fixed({"q": 0.4})).begin(space, 0)
        with pytest.raises(SpaceError, match=r"q: 7\.0 is outside"):
            OptunaSearch(lambda seed: Fixed({"q": 7.0})).begin(space, 0)

    def test_sampler_that_raises_is_named(self) -> None:
        with pytest.raises(SpaceError, match="Fixed raised KeyError: 'x'"):
            OptunaSearch(lambda seed: Fixed({})).begin(LINE, 0)

    def test_sampler_that_misses_a_package_says_what_installs_it(self) -> None:
        class Bare(optuna.samplers.RandomSampler):  # type: ignore[name-defined, misc]
            def infer_relative_search_space(self, study: Any, trial: Any) -> Any:
                raise ModuleNotFoundError("No module named 'torch'")

        with pytest.raises(UsageError, match=r"not installed: No module named 'torch'\. pip install"):
            OptunaSearch(lambda seed: Bare()).begin(LINE, 0)

    def test_sampler_that_fails_in_the_middle_leaves_nothing_behind(self) -> None:
        values = {"x": 0.5}
        state = OptunaSearch(lambda seed: Fixed(values)).begin(LINE, 0)
        values["x"] = 9.0
        with pytest.raises(SpaceError):
            state.propose(1)
        values["x"] = 0.5
        state.created(TrialId(0), {"x": 0.5})
        state.reported(TrialId(0), 1, 0.5)
        assert state.propose(1) == {"x": 0.5}

    def test_function_that_returns_no_sampler_is_refused(self) -> None:
        with pytest.raises(
            UsageError, match=r"the function returned 5, not a sampler of Optuna\. Write a function of a"
        ):
            OptunaSearch(lambda seed: 5).begin(LINE, 0)

    def test_option_that_the_sampler_does_not_have_is_refused(self) -> None:
        with pytest.raises(
            UsageError, match=r"cannot be made: .*startup.*options that optuna.samplers.TPESampler takes"
        ):
            OptunaSearch("tpe", options={"startup": 3}).begin(LINE, 0)

    def test_point_that_constraints_never_complete_is_refused_at_the_start(self) -> None:
        parameters = {"x": uniform(0, 1), "y": uniform(0, 1)}
        space = Space(parameters, constraints=[lambda params: params["x"] < 0.5], initial=[{"y": 0.5}, {"x": 0.75}])
        with pytest.raises(SpaceError, match=r"candidates that complete \{.x.: 0\.75\}"):
            OptunaSearch().begin(space, 0)

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: OptunaSearch("tpo"), "no sampler of this name; the names are 'cmaes', 'gp'"),
            (lambda: OptunaSearch("qmc"), "Quasi-random points are SobolSearch"),
            (lambda: OptunaSearch(optuna.samplers.GridSampler({"x": [1]})), r"searcher=GridSearch\(\)"),
            (lambda: OptunaSearch(3), "a sampler such as TPESampler"),
            (lambda: OptunaSearch(lambda seed: None, options={"a": 1}), "give them to the sampler itself"),
            (lambda: OptunaSearch(options=3), r"options=3\): write the sampler's arguments by name"),  # type: ignore[arg-type]
            (lambda: OptunaSearch(options={3: 4}), r"options=\{3: 4\}\): write"),  # type: ignore[dict-item]
            (lambda: OptunaSearch(options={"seed": 1}), r"seeds come from Study\(seed=...\)"),
            (lambda: OptunaSearch(min_observations=0), "min_observations=0"),
            (lambda: OptunaSearch(min_observations=True), "min_observations=True"),
        ],
    )
    def test_malformed_arguments_are_refused(self, make: Callable[[], Any], words: str) -> None:
        with pytest.raises(UsageError, match=words):
            make()

    def test_missing_optuna_is_said_with_what_installs_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "optuna", None)
        with pytest.raises(UsageError, match=r"pip install 'asyncsearch\[optuna\]'"):
            OptunaSearch().begin(LINE, 0)

    def test_missing_package_of_a_sampler_is_said_with_what_installs_it(self) -> None:
        def sampler(seed: int) -> Any:
            raise ImportError("Tried to import 'cmaes' but failed.")

        with pytest.raises(UsageError, match=r"Tried to import 'cmaes' but failed.*asyncsearch\[optuna,sobol,torch\]"):
            OptunaSearch(sampler).begin(LINE, 0)


class TestWords:
    def test_description_is_the_call_and_the_same_everywhere(self) -> None:
        assert OptunaSearch().describe() == "OptunaSearch('tpe')"
        searcher = OptunaSearch("tpe", options={"gamma": len, "n_startup_trials": 5}, min_observations=4)
        assert "n_startup_trials': 5}, min_observations=4)" in searcher.describe()
        assert "0x" not in OptunaSearch(options={"weights": lambda n: n}).describe()
        assert OptunaSearch(make_sampler).describe() == "OptunaSearch(make_sampler)"

    def test_nothing_is_printed_and_the_users_setting_stays(self, capfd: pytest.CaptureFixture[str]) -> None:
        optuna.logging.set_verbosity(optuna.logging.INFO)
        searched(OptunaSearch("cmaes"), make_space())
        assert optuna.logging.get_verbosity() == optuna.logging.INFO
        assert capfd.readouterr() == ("", "")


def make_sampler(seed: int) -> Any:
    return optuna.samplers.RandomSampler(seed=seed)


@pytest.mark.parametrize(
    ("searcher", "enough"),
    [
        (OptunaSearch(), 10),
        (OptunaSearch(options={"n_startup_trials": 25}), 25),
        (OptunaSearch(options={"n_startup_trials": 2}), 10),
        (OptunaSearch(min_observations=3), 3),
    ],
)
def test_enough_results_are_those_of_the_sampler_or_of_bohb(searcher: OptunaSearch, enough: int) -> None:
    assert searcher.enough(LINE) == enough
    many = Space({f"p{number}": uniform(0, 1) for number in range(40)} | {"fixed": 3})
    assert searcher.enough(many) == (3 if enough == 3 else 43)


class Waiting(optuna.samplers.RandomSampler):  # type: ignore[name-defined, misc]
    """Says when it is asked, and answers when it may."""

    def __init__(self, seed: int, asked: threading.Event, answer: threading.Event) -> None:
        super().__init__(seed)
        self.asked, self.answer = asked, answer

    def before_trial(self, study: Any, trial: Any) -> None:
        self.asked.set()
        assert self.answer.wait(60)


def test_studies_that_ask_at_once_leave_optunas_warnings_and_log_alone() -> None:
    before = optuna.logging.get_verbosity(), list(warnings.filters)
    first, second = [(threading.Event(), threading.Event()) for _ in range(2)]
    threads = []
    for asked, answer in (first, second):
        searcher = OptunaSearch(partial(Waiting, asked=asked, answer=answer))
        threads.append(threading.Thread(target=searcher.begin, args=(LINE, 0)))
        threads[-1].start()
        assert asked.wait(60)
    assert optuna.logging.get_verbosity() == optuna.logging.ERROR
    for (_, answer), thread in zip((first, second), threads, strict=True):
        answer.set()  # the first to come in is the first to leave
        thread.join()
    assert (optuna.logging.get_verbosity(), list(warnings.filters)) == before


@pytest.mark.parametrize("kind", ["CmaEsSampler", "NSGAIISampler", "RandomSampler", "TPESampler"])
def test_a_sampler_itself_proposes_by_the_seed_and_the_number_alone(kind: str) -> None:
    sampler_class = getattr(optuna.samplers, kind)
    space = Space({"a": uniform(0.0, 1.0), "b": uniform(0.0, 1.0)})
    forward = OptunaSearch(sampler_class(seed=4)).begin(space, 3)
    backward = OptunaSearch(sampler_class()).begin(space, 3)
    first = [forward.propose(number) for number in range(3)]
    assert first == [backward.propose(number) for number in (2, 1, 0)][::-1]
    assert first[0] != first[1] != first[2]


def test_a_study_takes_a_sampler_itself_as_its_searcher(tmp_path: Path) -> None:
    sampler = optuna.samplers.TPESampler(seed=4)
    study = Study(
        lambda trial: trial.report(loss=trial.params["x"]),
        space=LINE,
        metric="loss",
        mode="min",
        searcher=sampler,
        store=tmp_path / "s",
        backend="inline",
    )
    study.run(num_trials=3, display="none")
    proposed = OptunaSearch(sampler).begin(LINE, study.config.seed)
    assert [trial.params for trial in study.trials] == [proposed.propose(number) for number in range(3)]
