"""Workers that report seldom leap over units; whatever meets them on the way must find them where they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from asyncsearch.actions import AnyAction, Assign, CutWork, SaveAt
from asyncsearch.engine.invariants import check
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, CheckpointCommitted, StopRequested, TrainingEnded
from asyncsearch.ids import TrialId
from asyncsearch.schedulers import FIFO
from asyncsearch.searchers import GridSearch
from asyncsearch.sequences import multistep
from asyncsearch.simulate import Simulation, TrainingModel
from asyncsearch.space import Space, choice
from asyncsearch.testing.recording import Histories
from asyncsearch.trial import Params
from tests.engine.tools import make_state

SPACE = Space.of({"lr": multistep(0.1, milestones=choice([20], [9], [14], [4]), gamma=choice(0.1, 0.5))})
EVERY = [1, 7, None]


class Seen:
    """Checks the state at each step, and keeps what concerns units."""

    def __init__(self, state: StudyState) -> None:
        self.state = state
        self.commits: list[tuple[float, int]] = []
        self.ends: list[tuple[float, int]] = []
        self.told: Counter[str] = Counter()

    def __call__(self, now: float, event: AnyEvent, actions: Sequence[AnyAction]) -> None:
        check(self.state)
        if isinstance(event, CheckpointCommitted):
            self.commits.append((now, event.checkpoint.resource))
        if isinstance(event, TrainingEnded):
            self.ends.append((now, event.resource))
        self.told.update(type(action).__name__ for action in actions)


def run(
    report_every: int | None, *, at_s: float = 0.0, then: Callable[[Simulation], None] = lambda simulation: None
) -> tuple[Simulation, Seen]:
    state = make_state(FIFO(max_resource=30), GridSearch(), SPACE, look_ahead=0)
    seen = Seen(state)
    simulation = Simulation(
        state, Histories(unit_s=0.5), workers=3, training=TrainingModel(report_every=report_every), watch=seen
    )
    simulation.clock.after(at_s, lambda: then(simulation))
    simulation.run(None)
    return simulation, seen


@pytest.mark.parametrize("report_every", EVERY[1:])
def test_a_save_that_is_asked_for_on_the_way_is_made_in_its_unit(report_every: int | None) -> None:
    (fine, each), (coarse, seldom) = run(1), run(report_every)
    assert each.told[SaveAt.__name__] > 0
    assert seldom.commits == each.commits
    assert coarse.busy_s == fine.busy_s
    assert [trial.value for trial in coarse.state.trials] == [trial.value for trial in fine.state.trials]


@pytest.mark.parametrize("report_every", EVERY)
@pytest.mark.parametrize(("at_s", "wish", "end"), [(3.3, 9, 9), (3.3, 3, 7), (15.0, 40, 30)])
def test_work_that_is_cut_on_the_way_ends_there_or_after_its_present_unit(
    report_every: int | None, at_s: float, wish: int, end: int
) -> None:
    def cut(simulation: Simulation) -> None:
        lease = simulation.state.attempts[0].lease
        simulation._carry_out(CutWork(lease, wish))

    _, seen = run(report_every, at_s=at_s, then=cut)
    assert seen.ends[0] == (end * 0.5, end)


@pytest.mark.parametrize("report_every", EVERY[1:])
def test_a_worker_that_is_stopped_on_the_way_has_done_its_whole_units(report_every: int | None) -> None:
    def stop(simulation: Simulation) -> None:
        simulation.tell(StopRequested("enough"))

    (fine, each), (coarse, seldom) = (run(every, at_s=6.3, then=stop) for every in (1, report_every))
    assert (6.3, 12) in each.ends
    assert sorted(seldom.ends) == sorted(each.ends)
    assert coarse.busy_s == fine.busy_s


@pytest.mark.parametrize("report_every", EVERY)
def test_each_stage_of_a_batch_takes_what_its_own_units_take(report_every: int | None) -> None:
    class Slower(Histories):
        def seconds(self, trial: TrialId, params: Params) -> float:
            return 1.0 + trial

    expected = []

    def watch(now: float, event: AnyEvent, actions: Sequence[AnyAction]) -> None:
        for action in actions:
            if isinstance(action, Assign):
                stages = action.work.lanes[0].stages
                expected.append(sum(((stage.stop or 0) - stage.start) * (1.0 + stage.trials[0]) for stage in stages))

    state = make_state(FIFO(max_resource=30), GridSearch(), SPACE, look_ahead=100)
    simulation = Simulation(state, Slower(), workers=2, training=TrainingModel(report_every=report_every), watch=watch)
    simulation.run(None)
    assert simulation.busy_s == pytest.approx(sum(expected))
