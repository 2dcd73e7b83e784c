"""What was taken over from another study is known before any trial asks for it, and kept until one uses it."""

from __future__ import annotations

from asyncsearch.actions import Assign, CreateTrial, DeleteCheckpoint, Inherit
from asyncsearch.engine import snapshot
from asyncsearch.engine.handling import replay
from asyncsearch.engine.state import StudyState
from asyncsearch.events import DriverStarted, Imported
from asyncsearch.ids import CheckpointRef
from asyncsearch.journal.format import Header, Record, SegmentReader, encode_header, encode_record
from asyncsearch.plan.keys import path
from asyncsearch.report.tree.reading import TreeReader
from asyncsearch.schedulers import FIFO
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.space import Space, choice
from asyncsearch.testing.recording import restored_from
from tests.engine.player import Player, only
from tests.engine.tools import make_state

SPACE = Space({"x": choice(0.5)})


def fresh() -> StudyState:
    return make_state(FIFO(max_resource=9), GridSearch(), SPACE, share=True)


def imported(player: Player) -> Imported:
    node = path(player.state.root, {"x": 0.5}, 9)[0].node
    return Imported(node, ((1, {"loss": 3.0}), (2, {}), (4, {"loss": 2.0})), None, (4,))


def begun() -> tuple[Player, Imported]:
    player = Player(fresh())
    event = imported(player)
    assert player.tell(event) == []
    return player, event


def test_a_trial_created_later_reads_what_was_imported_and_resumes_from_it() -> None:
    player, event = begun()
    player.begin(1, 1)
    assert [type(action) for action in player.last] == [CreateTrial, Inherit, Inherit, Assign]
    lane = player.last[-1].work.lanes[0]  # type: ignore[union-attr]
    assert (lane.load, lane.stages[0].start) == (CheckpointRef(event.node, 4), 4)
    assert (player.state.trials[0].value, player.state.trials[0].resource) == (2.0, 4)


def test_an_imported_checkpoint_goes_once_its_trial_has_passed_it() -> None:
    player, event = begun()
    player.begin(1, 1)
    assert not player.state.imported
    deleted = only(player.reach(player.state.attempts[0].lease, 9), DeleteCheckpoint)
    assert deleted == [DeleteCheckpoint(CheckpointRef(event.node, 4))]


def test_an_import_told_twice_changes_nothing() -> None:
    player, event = begun()
    once = snapshot.encode(player.state, 1)
    assert player.tell(event) == []
    assert snapshot.encode(player.state, 1) == once


def test_a_snapshot_before_any_trial_keeps_what_was_imported() -> None:
    player, event = begun()
    data = snapshot.encode(player.state, 1)
    restored = restored_from(data, fresh())
    assert snapshot.encode(restored, 1) == data
    other = Player(restored)
    other.begin(1, 1)
    player.begin(1, 1)
    assert other.last == player.last
    assert restored.references == {CheckpointRef(event.node, 4): 2}


def test_its_journal_record_names_the_fact_and_no_decision() -> None:
    player, event = begun()
    line = encode_record(1, 1.0, event, [])
    assert b'"event":{"kind":"imported","node":"' in line
    lines = [encode_header(Header(1, "study", 1)), line]
    (record,) = SegmentReader().read("a segment", lines)
    assert record == Record(1, 1.0, event)
    replayed = fresh()
    replay(replayed, record.event, record.actions, record.t)
    assert snapshot.encode(replayed, 1) == snapshot.encode(player.state, 1)


def test_the_stage_tree_shows_what_was_taken_over_as_trained_elsewhere() -> None:
    player, event = begun()
    reader = TreeReader("loss")
    reader.add(Record(1, 1.0, event))
    player.begin(1, 1)
    reader.add(Record(2, 2.0, DriverStarted("test"), tuple(player.last)))
    tree = reader.tree()
    assert (tree.elsewhere, tree.nodes[event.node].values) == (4, [(1, 3.0), (4, 2.0)])
