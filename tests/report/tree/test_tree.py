"""The stage tree shows what was trained, for whom, and what is still to come; in a picture and in words."""

from __future__ import annotations

import itertools
import random
import re
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.actions import Assign, CreateTrial, CutWork, MoveTrial, StopTraining
from asyncsearch.cli import main
from asyncsearch.errors import NoTrialsError
from asyncsearch.events import (
    DriverStarted,
    Learned,
    NodeFreed,
    Outcome,
    Reported,
    TrainingEnded,
    WorkerLost,
    WorkRefused,
)
from asyncsearch.ids import Lease, NodeKey, PathStep, TrialId, WorkerId
from asyncsearch.journal.format import Record
from asyncsearch.report.tree.drawing import Layout
from asyncsearch.report.tree.reading import read_tree
from asyncsearch.report.tree.tree import Tree, text_tree, tree
from asyncsearch.report.tree.view import Kind, TreeView
from asyncsearch.schedulers import ASHA, FIFO, SHA
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.sequences import multistep
from asyncsearch.simulate import Faults, Loss, Simulation
from asyncsearch.space import Space, choice
from asyncsearch.study.study import Study
from asyncsearch.testing.recording import Histories
from asyncsearch.trial import TrialState
from asyncsearch.work import Lane, Stage, Work
from tests.engine.others import Beside, Facts
from tests.engine.tools import make_state, record
from tests.report.tools import simulated, store_of
from tests.sequences.spaces import RESNET56_EPOCHS, RESNET56_TRIALS, RESNET56_UNIQUE, resnet56_space

SVG = "{http://www.w3.org/2000/svg}"
SPACE = Space(
    {"lr": multistep(0.1, milestones=choice([4, 8], [4, 6], [6, 8])), "kind": choice("small", "<b>large</b>")}
)


def searched(
    space: Space, scheduler: Scheduler, *, workers: int = 2, until: float = float("inf"), **options: Any
) -> tuple[Simulation, list[Record]]:
    state = make_state(scheduler, GridSearch(), space, look_ahead=1_000)
    records: list[Record] = []
    simulation = Simulation(
        state,
        workload=Histories(),
        workers=workers,
        watch=lambda now, event, actions: records.append(Record(len(records) + 1, now, event, tuple(actions))),
        **options,
    )
    simulation.run(None, until)
    return simulation, records


def shown(records: list[Record]) -> Tree:
    return tree(records, name="digits", metric="loss", mode="min")


def words(picture: Tree) -> list[str]:
    return ["".join(element.itertext()) for element in ET.fromstring(picture.svg).iter(f"{SVG}text")]


def tips(picture: Tree) -> list[str]:
    root = ET.fromstring(picture.svg)
    return [element.findtext(f"{SVG}title") or "" for element in root.iter(f"{SVG}path")]


def units(stages: TreeView) -> Counter[Kind]:
    count: Counter[Kind] = Counter()
    for node in stages.nodes.values():
        for interval in node.intervals:
            count[interval.kind] += interval.stop - interval.start
    return count


@pytest.mark.parametrize(
    "scheduler",
    [FIFO(max_resource=9), SHA(max_resource=9), ASHA(max_resource=9)],
    ids=lambda scheduler: type(scheduler).__name__,
)
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("until", [3.5, 11.5, float("inf")])
def test_it_counts_what_the_engine_counts(scheduler: Scheduler, until: float, workers: int) -> None:
    simulation, records = searched(SPACE, scheduler, until=until, workers=workers)
    stages = read_tree(records, "loss")
    assert stages.trained == sum(trial.trained for trial in simulation.state.trials)
    assert stages.served == sum(trial.resource for trial in simulation.state.trials)
    assert [path.state for path in stages.paths] == [trial.state for trial in simulation.state.trials]
    assert [path.reached for path in stages.paths] == [trial.resource for trial in simulation.state.trials]
    assert [path.value for path in stages.paths] == [trial.value for trial in simulation.state.trials]


def beside_others(seed: int) -> tuple[Simulation, list[Record]]:
    """Return a search of which others have trained parts, or train them meanwhile, as chance says."""
    facts = Facts()
    alone = Simulation(
        make_state(FIFO(max_resource=9), GridSearch(), SPACE, look_ahead=1_000, shared_as="train"),
        workload=Histories(),
        workers=2,
        watch=facts,
    )
    alone.run(None)
    state = make_state(FIFO(max_resource=9), GridSearch(), SPACE, look_ahead=1_000, shared_as="train")
    records: list[Record] = []
    simulation = Beside(
        state,
        facts,
        random.Random(seed),
        workload=Histories(),
        workers=2,
        watch=lambda now, event, actions: records.append(Record(len(records) + 1, now, event, tuple(actions))),
    )
    simulation.run(None)
    return simulation, records


@pytest.mark.parametrize("seed", range(12))
def test_what_another_study_trained_is_counted_apart_and_every_unit_once(seed: int) -> None:
    simulation, records = beside_others(seed)
    trials = simulation.state.trials
    stages = read_tree(records, "loss")
    count = units(stages)
    reported = {(r.event.lease.number, r.event.resource) for r in records if isinstance(r.event, Reported)}
    assert stages.trained == len(reported)
    assert stages.elsewhere == count[Kind.ELSEWHERE]
    assert sum(count.values()) == 2 * (4 + 2 + 2 + 3 + 3 + 3)
    assert count[Kind.SHARED] + count[Kind.TRAINED] + count[Kind.ELSEWHERE] == sum(count.values())
    assert count[Kind.SHARED] + count[Kind.TRAINED] <= stages.trained, "or trained again, which counts as ours"
    assert [path.reached for path in stages.paths] == [trial.resource for trial in trials]
    assert [path.value for path in stages.paths] == [trial.value for trial in trials]


def test_what_another_study_trained_has_a_colour_and_words_of_its_own() -> None:
    picture = next(shown(beside_others(seed)[1]) for seed in range(12) if _is_mixed(beside_others(seed)[1]))
    trained, elsewhere = picture.stages.trained, picture.stages.elsewhere
    assert f"{trained} trained and {elsewhere} taken from other studies: each unit serves" in picture.summary
    assert "trained by another study" in words(picture)
    assert any("trained by another study, for" in tip for tip in tips(picture))
    assert "trained by another study" in str(picture)
    alone = shown(searched(SPACE, FIFO(max_resource=9))[1])
    assert "another study" not in alone.svg + str(alone)


def _is_mixed(records: list[Record]) -> bool:
    stages = read_tree(records, "loss")
    return bool(stages.trained and stages.elsewhere)


def learned(*events: Learned, end: int = 6) -> TreeView:
    """Return the tree of one trial of ``end`` units that hears of others."""
    node = NodeKey("a")
    created = CreateTrial(TrialId(0), {"x": 1}, node, end, proposal=0)
    records = [Record(1, 0.0, DriverStarted("test"), (created,))]
    records += [Record(n, 0.0, event, ()) for n, event in enumerate(events, 2)]
    return read_tree(records, "loss")


def test_what_others_trained_further_than_anybody_wants_is_left_out() -> None:
    further = Learned(NodeKey("a"), tuple((at, {"loss": 1.0 / at}) for at in range(1, 31)), None, (30,))
    stages = learned(further)
    assert (stages.horizon, stages.elsewhere, stages.paths[0].reached) == (6, 6, 6)
    assert units(stages) == {Kind.ELSEWHERE: 6}
    assert stages.paths[0].value == 1.0 / 6
    assert (
        "0 trained and 6 taken from other studies: each unit serves 1.00 trial"
        in Tree(stages, "d", "loss", "min").summary
    )


def test_what_is_heard_twice_or_grows_counts_once() -> None:
    def upto(resource: int) -> Learned:
        return Learned(NodeKey("a"), tuple((at, {}) for at in range(1, resource + 1)))

    stages = learned(upto(2), upto(2), upto(4), upto(3))
    assert units(stages) == {Kind.ELSEWHERE: 4, Kind.WAITING: 2}
    assert stages.paths[0].reached == 4
    assert learned(Learned(NodeKey("a"), ((2, {"loss": 0.5}),), ended=5)).paths[0].reached == 5


def test_what_is_trained_here_again_counts_as_trained_here() -> None:
    node, lease = NodeKey("a"), Lease(0, WorkerId(0), 1)
    created = CreateTrial(TrialId(0), {"x": 1}, node, 6, proposal=0)
    work = Work(lease, (Lane((Stage(node, {"x": 1}, (TrialId(0),), 0, 2, 6, 6),)),))
    others = Learned(node, tuple((at, {}) for at in range(1, 5)), checkpoints=(2,))
    records = [
        Record(1, 0.0, DriverStarted("test"), (created,)),
        Record(2, 0.0, others, (Assign(work),)),
        *[Record(at, 0.0, Reported(lease, at, {"loss": 1.0}), ()) for at in range(3, 6)],
    ]
    stages = read_tree(records, "loss")
    assert (stages.trained, stages.elsewhere) == (3, 2)
    assert units(stages) == {Kind.ELSEWHERE: 2, Kind.TRAINED: 3, Kind.RUNNING: 1}


def test_work_that_was_refused_does_not_run() -> None:
    _, records = beside_others(3)
    at = next(n for n, record in enumerate(records) if isinstance(record.event, WorkRefused))
    lease = records[at].event.lease  # type: ignore[union-attr]
    others = {r.event.lease for r in records[:at] if isinstance(r.event, Reported)}
    assert lease not in others
    reassigned = any(isinstance(action, Assign) for action in records[at].actions)
    running = units(read_tree(records[: at + 1], "loss"))[Kind.RUNNING]
    before = units(read_tree(records[:at], "loss"))[Kind.RUNNING]
    assert running < before or reassigned


@pytest.mark.parametrize("until", [3.5, 11.5, float("inf")])
def test_every_unit_that_somebody_wants_is_drawn_once(until: float) -> None:
    simulation, records = searched(SPACE, FIFO(max_resource=9), until=until)
    count = units(read_tree(records, "loss"))
    running = {number: attempt.resource for number, attempt in simulation.state.attempts.items()}
    assert count[Kind.SHARED] + count[Kind.TRAINED] == sum(trial.trained for trial in simulation.state.trials)
    assert bool(count[Kind.RUNNING]) == bool(running)
    assert sum(count.values()) == 2 * (4 + 2 + 2 + 3 + 3 + 3)


def test_the_448_trials_are_drawn_in_as_many_lanes_with_their_saving() -> None:
    _, records = searched(resnet56_space(), FIFO(max_resource=RESNET56_EPOCHS), workers=4)
    picture = shown(records)
    said = "448 trials, 53,760 units of training asked for, 21,960 trained: each unit serves 2.45 trials"
    assert picture.summary == said
    assert picture.stages.trained == RESNET56_UNIQUE
    assert Layout(picture.stages).size == RESNET56_TRIALS
    assert said in words(picture)
    assert len(str(picture).splitlines()) < 80


def test_a_picture_names_trials_values_and_the_best_one_and_escapes_them() -> None:
    _, records = searched(SPACE, FIFO(max_resource=9))
    picture = shown(records)
    best = min(picture.stages.paths, key=lambda path: path.value or 0.0)
    assert any(line.startswith(f"trial-{best.trial} ") and line.endswith(", the best") for line in words(picture))
    assert "3 trials" in words(picture)
    assert len([line for line in words(picture) if line.startswith("trial-")]) == 6
    assert any("kind=<b>large</b>" in tip and "trained once, for 3 trials" in tip for tip in tips(picture))
    assert any("lr=multistep(0.1, milestones=[6, 8])" in tip for tip in tips(picture))
    assert "<b>large" not in picture._repr_html_()


HOSTILE = "\x1b[2J\0\x0b\x7f\x85\ufffe"
"""Characters of which XML forbids most, and which no one sees."""


def test_a_picture_is_whole_whatever_characters_names_and_values_have() -> None:
    space = Space({f"kind{HOSTILE}": choice(f"small{HOSTILE}", "large")})
    _, records = searched(space, FIFO(max_resource=9))
    picture = tree(records, name=f"digits{HOSTILE}", metric="loss", mode="min")
    assert any(r"digits\x1b[2J\x00\x0b\x7f\x85\ufffe" in line for line in words(picture))
    assert tips(picture)
    assert not set(HOSTILE.replace("[2J", "")) & set(picture.svg)


def test_a_failed_trial_is_marked_and_its_wanted_stages_are_not_awaited() -> None:
    _, records = searched(SPACE, FIFO(max_resource=9), workers=1, faults=Faults(failures={TrialId(0): 7}))
    stages = read_tree(records, "loss")
    failed = [path for path in stages.paths if path.state is TrialState.FAILED]
    assert failed
    assert not units(stages)[Kind.WAITING]
    assert any("failed at" in tip for tip in tips(shown(records)))


def test_retraining_after_a_loss_counts_as_training_and_is_drawn_once() -> None:
    _, whole = searched(SPACE, FIFO(max_resource=9))
    _, lossy = searched(SPACE, FIFO(max_resource=9), faults=Faults(losses=[Loss(WorkerId(0), 3.5)]))
    assert read_tree(lossy, "loss").trained > read_tree(whole, "loss").trained
    assert sum(units(read_tree(lossy, "loss")).values()) == sum(units(read_tree(whole, "loss")).values())


@pytest.mark.parametrize("until", [6.5, 8.5, float("inf")])
def test_a_loss_takes_no_value_away(until: float) -> None:
    simulation, records = searched(
        SPACE, FIFO(max_resource=9), faults=Faults(losses=[Loss(WorkerId(0), 3.5)]), until=until
    )
    stages = read_tree(records, "loss")
    assert stages.trained == sum(trial.trained for trial in simulation.state.trials)
    assert [path.value for path in stages.paths] == [trial.value for trial in simulation.state.trials]


def chain(depth: int, trials: int = 1) -> list[Record]:
    """Return the journal of trials whose paths have a node a unit; the second one parts at the last."""
    records = []
    for trial in range(trials):
        keys = [NodeKey(f"{start}" if start < depth - 1 else f"{start}/{trial}") for start in range(depth)]
        path = tuple(PathStep(start, key) for start, key in enumerate(keys))
        actions = (CreateTrial(TrialId(trial), {"x": trial}, keys[-1], depth, 0, path),)
        records.append(Record(trial + 1, 0.0, DriverStarted("1"), actions))
    return records


def test_a_tree_of_ten_thousand_nodes_in_a_row_is_drawn_and_printed() -> None:
    picture = shown(chain(10_000, trials=2))
    assert len(picture.stages.nodes) == 10_001
    assert Layout(picture.stages).size == 2
    assert len(list(ET.fromstring(picture.svg).iter(f"{SVG}path"))) == 10_001
    assert max(map(len, str(picture).splitlines())) <= 110


def comb(size: int) -> list[Record]:
    """Return the journal of trials that part from one trunk, one a unit."""
    return [
        Record(
            trial + 1,
            0.0,
            DriverStarted("1"),
            (
                CreateTrial(
                    TrialId(trial),
                    {"x": trial},
                    NodeKey(f"leaf{trial}"),
                    size + 1,
                    0,
                    (PathStep(0, NodeKey("trunk")), PathStep(trial + 1, NodeKey(f"leaf{trial}"))),
                ),
            ),
        )
        for trial in range(size)
    ]


def test_a_trunk_with_ten_thousand_branches_is_drawn_and_printed() -> None:
    picture = shown(comb(10_000))
    assert Layout(picture.stages).size == 10_000
    assert picture.svg
    assert "... and 9,971 more" in str(picture)


@pytest.mark.parametrize("records", [comb(9), searched(SPACE, FIFO(max_resource=9))[1], chain(5, 2)])
def test_no_way_to_a_child_crosses_another_line(records: list[Record]) -> None:
    stages = read_tree(records, "loss")
    at = Layout(stages).at
    for node in stages.nodes.values():
        if node.parent is None:
            continue
        low, high = sorted((at[node.parent], at[next(k for k, n in stages.nodes.items() if n is node)]))
        for other, its in stages.nodes.items():
            if low < at[other] < high:
                assert not its.start < node.start < its.intervals[-1].stop, (other, node)


def assigned(stop: int | None = 8) -> list[Record]:
    lease = Lease(0, WorkerId(0), 1)
    stage = Stage(NodeKey("a"), {"x": 1}, (TrialId(0),), 0, 0, stop)
    first = (CreateTrial(TrialId(0), {"x": 1}, NodeKey("a"), stop), Assign(Work(lease, (Lane((stage,)),))))
    return [
        Record(1, 0.0, DriverStarted("1"), first),
        Record(2, 1.0, Reported(lease, 3, {"loss": 0.5})),
    ]


LEASE = Lease(0, WorkerId(0), 1)
NOTHING = DriverStarted("1")


@pytest.mark.parametrize(
    ("last", "running"),
    [
        (None, 5),
        (Record(3, 2.0, Reported(LEASE, 4, {"loss": 0.5}), (CutWork(LEASE, 6),)), 2),
        (Record(3, 2.0, Reported(LEASE, 4, {"loss": 0.5}), (StopTraining(LEASE, "enough"),)), 0),
        (Record(3, 2.0, TrainingEnded(LEASE, Outcome.STOPPED, 4)), 0),
        (Record(3, 2.0, WorkerLost(WorkerId(0), 1, "gone")), 0),
        (Record(3, 2.0, DriverStarted("1")), 0),
    ],
    ids=["report", "cut", "stop", "end", "loss", "restart"],
)
def test_what_a_worker_still_has_to_train_runs(last: Record | None, running: int) -> None:
    assert units(read_tree([*assigned(), *([last] if last else [])], "loss"))[Kind.RUNNING] == running


@pytest.mark.parametrize("told", [CutWork(LEASE, 4), StopTraining(LEASE, "it was interrupted")], ids=["cut", "stop"])
def test_what_a_worker_trains_before_its_stop_reaches_it_is_trained(told: CutWork | StopTraining) -> None:
    late = [Record(3, 2.0, NodeFreed(NodeKey("b")), (told,)), Record(4, 3.0, Reported(LEASE, 5, {"loss": 0.5}))]
    stages = read_tree([*assigned(), *late], "loss")
    assert units(stages) == {Kind.TRAINED: 5, Kind.WAITING: 3}
    assert stages.paths[0].reached == stages.trained == 5


def test_a_trial_without_an_end_is_drawn_a_little_further_than_it_is() -> None:
    picture = shown(assigned(stop=None))
    assert picture.stages.horizon == 4
    assert units(picture.stages) == {Kind.TRAINED: 3, Kind.RUNNING: 1}
    assert picture.summary == "1 trial, 3 units of training asked for, 3 trained: each unit serves 1.00 trial"


def test_a_trial_that_has_ended_keeps_what_it_had_then() -> None:
    records = [*assigned(), Record(3, 2.0, NOTHING, (MoveTrial(TrialId(0), TrialState.STOPPED, "enough"),))]
    path = read_tree(records, "loss").paths[0]
    assert (path.end, path.reached, path.value) == (3, 3, 0.5)


def test_functions_that_are_not_here_are_named_and_not_called() -> None:
    lr = {"sequence": "custom", "function": "nowhere", "parameters": {}}
    record = Record(1, 0.0, NOTHING, (CreateTrial(TrialId(0), {"lr": lr, "x": 1}, NodeKey("a"), 3),))
    assert "x=1" in tips(shown([record]))[0]


def test_text_says_first_what_most_trials_share_and_counts_the_rest() -> None:
    _, records = searched(SPACE, FIFO(max_resource=9))
    text = text_tree(read_tree(records, "loss"), lines=3).splitlines()
    assert text[0].startswith("6 trials, 54 units of training asked for, 34 trained")
    assert len([line for line in text if re.match(r" *\d+-\d+ ", line)]) == 3
    assert text[1].startswith("0-6 trained for trial-0, trial-1, trial-2, from 4 trial-0: lr=0.1 kind=small")
    assert any(line.strip().startswith("... and ") for line in text)


def test_a_study_without_trials_has_no_tree() -> None:
    with pytest.raises(NoTrialsError, match="has no trial yet"):
        shown([Record(1, 0.0, NOTHING)])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    state = make_state(FIFO(max_resource=9), GridSearch(), SPACE, look_ahead=100)
    recorded = record(state, num_trials=6, workers=2, workload=Histories())
    return store_of(recorded, tmp_path_factory.mktemp("study") / "study")


def test_a_study_shows_its_tree(store: Path) -> None:
    picture = Study.open(store).tree()
    assert "6 trials, 54 units of training asked for, 34 trained: each unit serves 1.59 trials" in repr(picture)
    assert "<svg" in picture._repr_html_()


def test_the_command_prints_the_tree_or_draws_it(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tree", str(store)]) == 0
    assert "0-6 trained for trial-0, trial-1, trial-2" in capsys.readouterr().out
    assert main(["tree", str(store), "--output", str(tmp_path / "tree.svg")]) == 0
    assert "each unit serves 1.59 trials" in capsys.readouterr().out
    assert ET.parse(tmp_path / "tree.svg").getroot().tag == f"{SVG}svg"
    assert main(["tree", str(store), "--output", str(tmp_path / "no" / "tree.svg")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_search_without_sequences_has_a_tree_in_which_nothing_is_shared(tmp_path: Path) -> None:
    picture = Study.open(store_of(simulated(), tmp_path / "study")).tree()
    assert not units(picture.stages)[Kind.SHARED]
    assert Layout(picture.stages).size == len(picture.stages.paths)
    assert all(one.intervals[-1].stop >= one.start for one in picture.stages.nodes.values())
    assert len(set(itertools.chain(picture.stages.roots))) == 20
