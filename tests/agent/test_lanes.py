"""A lane of several stages, without any process: present values, checkpoints on the way, cuts, evaluation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.actions import CutWork, SaveAt
from asyncsearch.errors import CannotPauseError, UsageError
from asyncsearch.ids import NodeKey, TrialId
from asyncsearch.runner.context import SearchContext
from asyncsearch.runner.protocol import Amendment
from asyncsearch.sequences import multistep, warmup
from asyncsearch.trainable import TrialPaused, TrialStopped
from asyncsearch.work import Stage
from tests.agent.driver import lease, make_stage
from tests.agent.recorder import Recorder

A, B = NodeKey("a" * 32), NodeKey("b" * 32)
STEPS = multistep(0.1, [2, 4]).to_json()


def save(path: Path) -> None:
    path.write_text("state")


def load(path: Path) -> None:
    assert path.read_text() == "state"


def two_stages(**changes: Any) -> list[Stage]:
    """0 to 3 in one node and 3 to 6 in another; complete at 9."""
    return [
        make_stage(node=A, start=0, stop=3, max_resource=9, **{"save": True, **changes}),
        make_stage(node=B, start=3, stop=6, max_resource=9, **{"save": True, **changes}),
    ]


class Lane:
    """A context, its link, and the amendments in the middle of an epoch."""

    def __init__(
        self, folder: Path, stages: list[Stage], amendments: dict[int, list[Amendment]], start: Path | None
    ) -> None:
        self.link = Recorder(folder)
        self.trial = SearchContext(stages, self.link, start)
        self.epochs: list[int] = []
        self._amendments = amendments

    def train(self, **hooks: Any) -> None:
        for epoch in self.trial.epochs(**({"save": save, "load": load} | hooks)):
            self.epochs.append(epoch)
            self.link.coming += self._amendments.get(epoch, [])
            self.trial.report(accuracy=epoch)


Make = Callable[..., Lane]


@pytest.fixture
def lane(tmp_path: Path) -> Make:
    def make(
        *stages: Stage, amendments: dict[int, list[Amendment]] | None = None, load: Path | None = None, **changes: Any
    ) -> Lane:
        return Lane(tmp_path, list(stages) or two_stages(**changes), amendments or {}, load)

    return make


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save(tmp_path / "loaded")
    return tmp_path / "loaded"


def test_params_show_the_values_of_the_present_epoch(lane: Make) -> None:
    one = lane(make_stage(stop=6, max_resource=6, params={"lr": STEPS, "width": 8}))
    shown = [one.trial.params]
    for _ in one.trial.epochs():
        shown.append(one.trial.params)
        assert one.trial.params is shown[-1]
    assert [values["lr"] for values in shown] == [0.1, 0.1, 0.1, 0.01, 0.01, 0.001, 0.001]
    assert shown[0] == {"lr": 0.1, "width": 8}
    assert one.trial.has_sequences


def test_at_shows_the_values_inside_the_present_epoch(lane: Make) -> None:
    trial = lane(make_stage(stop=6, max_resource=6, params={"lr": warmup(4, 1.0).to_json()})).trial
    shown = [[trial.at(fraction)["lr"] for fraction in (0, 0.5)] for _ in trial.epochs()]
    assert shown == [[0, 0.125], [0.25, 0.375], [0.5, 0.625], [0.75, 0.875], [1, 1], [1, 1]]


@pytest.mark.parametrize("fraction", [-0.1, 1.1, "0.5", True, None, float("nan")])
def test_at_takes_a_share_of_the_epoch(lane: Make, fraction: Any) -> None:
    with pytest.raises(UsageError, match="is not a part of an epoch"):
        lane().trial.at(fraction)


def test_a_function_that_counts_by_itself_sees_the_values_of_its_next_unit(lane: Make) -> None:
    trial = lane(make_stage(params={"lr": STEPS})).trial
    shown = []
    for _ in range(6):
        shown.append(trial.params["lr"])
        trial.report(accuracy=1)
    assert shown == [0.1, 0.1, 0.01, 0.01, 0.001, 0.001]


def test_after_the_last_epoch_its_values_stay(lane: Make) -> None:
    trial = lane(make_stage(stop=4, max_resource=4, params={"lr": STEPS})).trial
    for _ in trial.epochs():
        pass
    assert trial.params["lr"] == 0.01


def test_a_resumed_trial_knows_past_values_and_those_that_follow(lane: Make, saved: Path) -> None:
    trial = lane(make_stage(start=2, stop=4, max_resource=9, params={"lr": STEPS}), load=saved).trial
    assert (trial.saved_params["lr"], trial.params["lr"]) == (0.1, 0.01)
    fresh = lane(make_stage(stop=4, max_resource=9, params={"lr": STEPS})).trial
    assert fresh.saved_params == fresh.params == {"lr": 0.1}


def test_a_lane_has_the_name_of_its_first_trial(lane: Make) -> None:
    first, second = two_stages()
    shared = Stage(A, {}, (TrialId(4), TrialId(2)), 7, stop=3, save=True)
    assert lane(shared, second).trial.name == "trial-4"
    assert lane(first, second).trial.name == "trial-0"


def test_a_checkpoint_is_saved_at_each_wanted_stop_under_its_stage(lane: Make) -> None:
    one = lane()
    with pytest.raises(TrialPaused):
        one.train()
    assert (one.epochs, one.link.saves, one.link.ended_at) == ([1, 2, 3, 4, 5, 6], [(0, 3), (1, 6)], 6)


def test_a_wish_for_a_checkpoint_is_heeded_when_the_unit_ends(lane: Make) -> None:
    """Trap 2.4.8 (i): a lane polls for save points at each unit, the present one's end included."""
    amendments = {2: [SaveAt(lease(0), A, 2)], 4: [SaveAt(lease(0), B, 5), SaveAt(lease(0), B, 4)]}
    one = lane(amendments=amendments)
    with pytest.raises(TrialPaused):
        one.train()
    assert one.link.saves == [(0, 2), (0, 3), (1, 4), (1, 5), (1, 6)]


def test_a_wish_for_a_checkpoint_that_is_passed_is_dropped(lane: Make) -> None:
    """Trap 2.4.8 (ii)."""
    one = lane(
        amendments={3: [SaveAt(lease(0), A, 2), SaveAt(lease(0), A, 1)], 4: [SaveAt(lease(0), A, 3)]}, save=False
    )
    with pytest.raises(TrialPaused):
        one.train()
    assert one.link.saves == []


def test_a_wish_that_comes_while_a_checkpoint_is_written_is_heeded(lane: Make) -> None:
    one = lane()

    def wish_and_save(path: Path) -> None:
        save(path)
        one.link.coming.append(CutWork(lease(0), 3))

    with pytest.raises(TrialPaused):
        one.train(save=wish_and_save)
    assert (one.epochs, one.link.saves, one.link.ended_at) == ([1, 2, 3], [(0, 3)], 3)


def test_a_cut_lane_ends_there_and_saves_under_the_node_in_which_it_ends(lane: Make) -> None:
    """Trap 2.4.9: the worker drops the tail of its batch."""
    one = lane(amendments={1: [CutWork(lease(0), 5)]}, save=False)
    with pytest.raises(TrialPaused):
        one.train()
    assert (one.epochs, one.link.saves, one.link.ended_at) == ([1, 2, 3, 4, 5], [(1, 5)], 5)
    assert (one.trial.is_paused, one.trial.resource) == (True, 5)


def test_a_cut_behind_the_lane_ends_it_after_the_unit_it_reports(lane: Make) -> None:
    one = lane(amendments={4: [CutWork(lease(0), 2)]})
    with pytest.raises(TrialPaused):
        one.train()
    assert (one.link.resources, one.link.saves, one.trial.resource) == ([1, 2, 3, 4], [(0, 3), (1, 4)], 4)


def test_a_cut_before_the_first_unit_trains_nothing_and_saves_nothing(lane: Make, saved: Path) -> None:
    one = lane(make_stage(start=3, stop=6, max_resource=9, save=True), load=saved)
    one.link.coming.append(CutWork(lease(0), 1))
    with pytest.raises(TrialPaused):
        one.train()
    assert (one.epochs, one.link.saves, one.trial.resource) == ([], [], 3)


def test_a_cut_trial_that_cannot_save_ends_all_the_same(lane: Make) -> None:
    one = lane(amendments={2: [CutWork(lease(0), 2)]}, save=False)
    with pytest.raises(TrialPaused):
        one.train(save=None, load=None)
    assert (one.link.resources, one.link.saves) == ([1, 2], [])


def test_a_cut_ends_a_function_that_counts_by_itself_after_its_report(lane: Make) -> None:
    one = lane(make_stage())
    one.trial.report(accuracy=1)
    one.link.coming.append(CutWork(lease(0), 1))
    with pytest.raises(TrialPaused):
        one.trial.report(accuracy=2)
    assert (one.link.resources, one.trial.is_paused) == ([1, 2], True)


def test_a_cut_beyond_the_end_changes_nothing(lane: Make) -> None:
    one = lane(make_stage(stop=3, max_resource=3), amendments={1: [CutWork(lease(0), 3), CutWork(lease(0), 7)]})
    one.train()
    assert (one.epochs, one.trial.is_paused) == ([1, 2, 3], False)


def test_a_save_that_fails_on_the_way_costs_that_checkpoint_only(lane: Make) -> None:
    one = lane()

    def save_the_last(path: Path) -> None:
        if one.trial.resource < 6:
            raise OSError("no space left")
        save(path)

    with pytest.raises(TrialPaused):
        one.train(save=save_the_last)
    assert one.link.failed == [(0, 3, "no space left")]
    assert (one.epochs, one.link.saves) == ([1, 2, 3, 4, 5, 6], [(1, 6)])


@pytest.mark.parametrize("amendments", [{}, {2: [CutWork(lease(0), 4)]}])
def test_a_save_that_fails_where_the_lane_is_to_end_fails_it(
    lane: Make, amendments: dict[int, list[Amendment]]
) -> None:
    one = lane(make_stage(stop=6, max_resource=9, save=True), amendments=amendments)
    with pytest.raises(UsageError, match="save wrote nothing"):
        one.train(save=lambda path: None)
    assert not one.trial.is_paused


def test_a_save_that_fails_where_a_cut_came_too_late_fails_nothing(lane: Make) -> None:
    one = lane(amendments={5: [CutWork(lease(0), 4)]}, save=False)
    with pytest.raises(TrialPaused):
        one.train(save=lambda path: None)
    assert [failed[:2] for failed in one.link.failed] == [(1, 5)]


def test_a_stop_during_a_checkpoint_write_is_raised_before_the_next_unit(lane: Make) -> None:
    one = lane()

    def save_and_stop(path: Path) -> None:
        save(path)
        one.link.reason = "rank 7 of 20"

    with pytest.raises(TrialStopped, match="rank 7"):
        one.train(save=save_and_stop)
    assert (one.epochs, one.link.saves) == ([1, 2, 3], [(0, 3)])


def test_an_evaluation_loads_and_reports_where_it_stands(lane: Make, saved: Path) -> None:
    loaded: list[Path] = []
    one = lane(make_stage(start=4, stop=4, max_resource=9, save=True, params={"lr": STEPS}), load=saved)
    with pytest.raises(TrialPaused):
        one.train(load=loaded.append, evaluate=lambda: {"accuracy": 0.5, "lr": one.trial.params["lr"]})
    assert (loaded, one.epochs, one.link.saves) == ([saved], [], [])
    assert one.link.reports == [(4, {"accuracy": 0.5, "lr": 0.01})]  # as in epoch 4, at time 3
    assert (one.trial.resource, one.trial.is_paused) == (4, True)


def test_an_evaluation_of_a_complete_trial_returns(lane: Make, saved: Path) -> None:
    one = lane(make_stage(start=4, stop=4, max_resource=4), load=saved)
    one.train(evaluate=lambda: {"accuracy": 0.5})
    assert (one.link.resources, one.trial.is_paused) == ([4], False)


def test_a_function_that_cannot_evaluate_alone_is_told_what_to_do(lane: Make, saved: Path) -> None:
    one = lane(make_stage(start=4, stop=4, max_resource=9), load=saved)
    with pytest.raises(CannotPauseError, match=r"evaluated at 4, without training, .* without evaluate=: .* Trainer"):
        one.train()


def test_a_loop_of_its_own_cannot_pass_a_checkpoint_on_its_way(lane: Make) -> None:
    trial = lane().trial
    trial.report(accuracy=1)
    trial.report(accuracy=1, resource=3)
    with pytest.raises(CannotPauseError, match="had to pause at 3, but trained on to 4"):
        trial.report(accuracy=1)


def test_a_lane_that_is_saved_on_its_way_needs_both_hooks(lane: Make) -> None:
    first, second = two_stages()
    last = make_stage(node=B, start=3, stop=6, max_resource=6)
    for stages, where in (((first, second), 3), ((first, last), 3)):
        with pytest.raises(CannotPauseError, match=rf"must pause at {where}, but epochs\(\) was called without"):
            lane(*stages).train(save=None, load=None)
