"""How a trial reads where people print it."""

from __future__ import annotations

import copy
import pickle

import pytest

from asyncsearch.ids import NodeKey, TrialId
from asyncsearch.sequences import multistep
from asyncsearch.trial import Params, Trial, TrialState


def trial_with(state: TrialState, value: float | None = None, at: int = 0, reason: str = "", **params: object) -> Trial:
    trial = Trial(TrialId(7), params, NodeKey("a"), state)
    trial.value, trial.value_resource, trial.reason = value, at, reason
    return trial


@pytest.mark.parametrize(
    ("trial", "text"),
    [
        (trial_with(TrialState.WAITING, x=1), "trial-7: no value yet, waiting; x=1"),
        (trial_with(TrialState.PAUSED, None, 1, x=1), "trial-7: no finite value, paused; x=1"),
        (trial_with(TrialState.RUNNING, 0.5, 1, x=1), "trial-7: 0.5 after 1 unit, running; x=1"),
        (
            trial_with(TrialState.STOPPED, 0.123456, 1000, "rank 7 of 20"),
            "trial-7: 0.12346 after 1,000 units, stopped early; no parameters",
        ),
        (
            trial_with(TrialState.FAILED, 0.5, 3, "CUDA \x1b[2J", x=1),
            "trial-7: 0.5 after 3 units, failed: CUDA ?[2J; x=1",
        ),
    ],
    ids=lambda one: one.state.name if isinstance(one, Trial) else "",
)
def test_a_trial_reads_as_its_value_its_state_and_its_parameters(trial: Trial, text: str) -> None:
    assert str(trial) == text


def test_a_trial_reads_as_a_person_writes_it() -> None:
    lr = multistep(0.1, milestones=[8, 16])
    params: Params = {"lr": lr.to_json(), "model": {"width": 128}}
    trial = trial_with(TrialState.COMPLETED, 0.98, 27, **params)
    assert str(trial) == f"trial-7: 0.98 after 27 units, trained to the end; lr={lr} model.width=128"
    assert repr([trial]) == f"[<{trial}>]"


def test_completion_offers_only_the_names_that_a_trial_has() -> None:
    trial = Trial(TrialId(0), {}, NodeKey("n"))
    for one in (trial, trial.seen_in("running", {"loss": 1.0})):
        offered = dir(one)
        assert {"params", "value", "metrics", "state", "best", "name"} <= set(offered)
        assert [name for name in offered if not hasattr(one, name)] == []
        with pytest.raises(AttributeError, match=r"write trial\.params"):
            one.config  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("accuracy", "A trial has no 'accuracy': write trial.metrics['accuracy']."),
        ("nnz", "A trial has no 'nnz': write trial.metrics['nnz']."),
        ("lr", "A trial has no 'lr': write trial.params['lr']."),
        ("loss", "A trial has no 'loss': write trial.metrics."),
        ("score", "A trial has no 'score': write trial.value."),
        ("user_attrs", "A trial has no 'user_attrs'."),
    ],
)
def test_a_name_that_a_trial_lacks_is_sent_to_where_its_value_is(name: str, words: str) -> None:
    trial = trial_with(TrialState.RUNNING, lr=0.1).seen_in("running", {"accuracy": 0.5, "nnz": 3.0})
    with pytest.raises(AttributeError) as caught:
        getattr(trial, name)
    assert str(caught.value) == words
    assert pickle.loads(pickle.dumps(trial)) == copy.deepcopy(trial) == trial
