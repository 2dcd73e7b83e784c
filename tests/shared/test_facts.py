"""The published facts of a node: durable, complete, and merged from all publishers."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from asyncsearch.errors import StoreError, UsageError
from asyncsearch.ids import CheckpointRef, NodeKey, PathStep
from asyncsearch.shared.folder import NodeFacts, SharedFolder
from asyncsearch.shared.membership import FolderMembership, Publication
from asyncsearch.store import LocalStore
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.store.manifest import Manifest, PackedWith, packed_with_beside
from asyncsearch.testing.store_checkpoints import together
from asyncsearch.trial import Metrics
from tests.shared.tools import NODE, NODES, Rival, commit, content, interrupted, plan_at


def losses(*resources: int, of: float = 1.0) -> list[tuple[int, Metrics]]:
    return [(resource, {"loss": of / resource}) for resource in resources]


def at(facts: NodeFacts) -> list[int]:
    return [resource for resource, _ in facts.reports]


def test_what_was_published_is_read_by_others(plan: SharedFolder, url: str) -> None:
    assert plan.read(NODE) == NodeFacts()
    published = plan.publish(NODE, losses(1, 2, 5), ended=5)
    assert published == NodeFacts(tuple(losses(1, 2, 5)), 5, ())
    assert plan_at(url).read(NODE) == published


def test_numbers_that_json_does_not_have_are_kept(plan: SharedFolder, url: str) -> None:
    plan.publish(NODE, [(1, {"loss": "NaN", "size": 3}), (2, {"loss": math.inf, "size": 0.1})])
    reports = plan_at(url).read(NODE).reports
    assert reports == ((1, {"loss": "NaN", "size": 3.0}), (2, {"loss": "Infinity", "size": 0.1}))


def test_committed_checkpoints_are_facts_and_staged_ones_are_not(plan: SharedFolder) -> None:
    commit(plan, NODE, 3)
    commit(plan, NODE, 27)
    commit(plan, NODE, 27)
    commit(plan, NODES[0], 5)
    plan.store.stage(commit(plan, NODE, 9))
    plan.store.delete(commit(plan, NODE, 10))
    assert plan.read(NODE).checkpoints == (3, 9, 27)


def test_the_longer_list_wins(plan: SharedFolder) -> None:
    plan.publish(NODE, losses(1, 2, 3))
    assert at(plan.publish(NODE, losses(1, 2))) == [1, 2, 3]
    assert at(plan.publish(NODE, losses(1, 2, 3, 4))) == [1, 2, 3, 4]
    assert at(plan.read(NODE)) == [1, 2, 3, 4]


def test_lists_that_know_different_parts_are_united(plan: SharedFolder) -> None:
    plan.publish(NODE, losses(1, 3))
    plan.publish(NODE, losses(2, 3, 7), ended=7)
    assert plan.read(NODE) == NodeFacts(tuple(losses(1, 2, 3, 7)), 7, ())


def test_where_two_disagree_the_older_counts_and_it_is_said_once(
    plan: SharedFolder, caplog: pytest.LogCaptureFixture
) -> None:
    plan.publish(NODE, losses(1, 2), ended=2)
    for _ in range(2):
        plan.publish(NODE, [*losses(1), *losses(2, 3, of=2.0)], ended=3)
    assert plan.read(NODE) == NodeFacts((*losses(1, 2), *losses(3, of=2.0)), 2, ())
    (line,) = [record.message for record in caplog.records]
    assert f"node {NODE}: at 2 {{'loss': 0.5}} and {{'loss': 1.0}}; the older counts" in line


def test_publishing_again_writes_nothing(plan: SharedFolder, url: str) -> None:
    plan.publish(NODE, losses(1, 2))
    before = content(plan)
    plan.publish(NODE, losses(1, 2))
    plan_at(url).publish(NODE, losses(1))
    assert content(plan) == before


def test_publishing_nothing_leaves_nothing(plan: SharedFolder) -> None:
    before = content(plan)
    assert plan.publish(NODE, []) == NodeFacts()
    assert content(plan) == before


def test_one_file_stays_of_what_was_published_bit_by_bit(plan: SharedFolder) -> None:
    for end in range(1, 6):
        plan.publish(NODE, losses(*range(1, end + 1)))
    assert len([name for name in content(plan) if name.startswith("facts/")]) == 1


@pytest.mark.parametrize(
    "reports", [losses(2, 1), losses(1, 1), [(-1, {"loss": 1.0})]], ids=["falling", "repeated", "negative"]
)
def test_reports_that_do_not_ascend_are_refused(plan: SharedFolder, reports: list[tuple[int, Metrics]]) -> None:
    with pytest.raises(UsageError, match="must ascend strictly"):
        plan.publish(NODE, reports)


def test_a_publisher_that_dies_leaves_the_old_or_the_new(url: str) -> None:
    class Killed(BaseException):
        pass

    def die() -> None:
        raise Killed

    old, new = NodeFacts(tuple(losses(1, 2))), NodeFacts(tuple(losses(1, 2, 3)), 3)
    step, reached = 0, True
    while reached:
        node = NodeKey(f"{step:032x}")
        plan_at(url).publish(node, losses(1, 2))
        dying = plan_at(url)
        between = interrupted(dying, step, die)
        with suppress(Killed):
            dying.publish(node, losses(1, 2, 3), ended=3)
        reached = between.reached
        assert plan_at(url).read(node) in (old, new), f"step {step}"
        assert plan_at(url).publish(node, losses(1, 2, 3), ended=3) == new
        step += 1
    assert step > 4


def test_whenever_another_publishes_in_between_nothing_is_lost(url: str) -> None:
    step, reached = 0, True
    while reached:
        node = NodeKey(f"{step:032x}")
        plan_at(url).publish(node, losses(1))
        one, two = plan_at(url), plan_at(url)
        between = interrupted(one, step, lambda two=two, node=node: two.publish(node, losses(1, 2, 3)))  # type: ignore[misc]
        one.publish(node, losses(1, 3, 4))
        reached = between.reached
        if reached:
            assert plan_at(url).read(node) == NodeFacts(tuple(losses(1, 2, 3, 4))), f"step {step}"
        step += 1
    assert step > 4


def test_a_reader_sees_a_whole_list_while_files_replace_each_other(url: str) -> None:
    step, reached = 0, True
    while reached:
        node = NodeKey(f"{step:032x}")
        writer, reader = plan_at(url), plan_at(url)
        writer.publish(node, losses(1))
        between = interrupted(reader, step, lambda writer=writer, node=node: writer.publish(node, losses(1, 2)))  # type: ignore[misc]
        assert at(reader.read(node)) in ([1], [1, 2]), f"step {step}"
        reached = between.reached
        step += 1
    assert step > 2


def test_publishers_at_the_same_moment_lose_nothing(url: str) -> None:
    plans = [plan_at(url) for _ in range(6)]

    def publish(number: int) -> None:
        plans[number].publish(NODE, losses(number + 1, 10))

    together(6, publish)
    assert at(plan_at(url).read(NODE)) == [1, 2, 3, 4, 5, 6, 10]


@pytest.fixture(params=["disk", "file"])
def rivals(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Rival]]:
    url = f"{tmp_path}/plan" if request.param == "disk" else f"file://{tmp_path}/plan"
    found = [Rival(url, f"study-{number}") for number in range(3)]
    assert [rival.ask(do="hello") for rival in found] == ["ready"] * 3
    yield found
    for rival in found:
        rival.close()


def test_processes_that_publish_at_the_same_moment_lose_nothing(rivals: list[Rival], tmp_path: Path) -> None:
    for number, rival in enumerate(rivals):
        for end in range(10):
            rival.order(do="publish", at=[number + 1, *range(10, 11 + end)])
    for rival in rivals:
        for _ in range(10):
            rival.answer()
    assert at(plan_at(f"{tmp_path}/plan").read(NODE)) == [1, 2, 3, *range(10, 20)]


def test_many_nodes_are_read_together_and_none_is_listed_but_those(
    plan: SharedFolder, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for node in NODES:
        plan.publish(node, losses(1))
    commit(plan, NODES[1], 1)
    reader = plan_at(url)
    found = reader.read_many([*NODES[:3], NODE, NODES[0]])
    assert list(found) == [*NODES[:3], NODE]
    assert [found[node].checkpoints for node in NODES[:3]] == [(), (1,), ()]
    assert found[NODE] == NodeFacts()
    listed = []
    listing = reader.store.list

    def noted(folder: str) -> Sequence[str]:
        listed.append(folder)
        return listing(folder)

    monkeypatch.setattr(reader.store, "list", noted)
    reader.read_many(NODES[:2])
    assert {folder.split("/")[1] for folder in listed if "/" in folder} == set(NODES[:2])
    assert {folder for folder in listed if "/" not in folder} <= {"deleting"}


def test_a_damaged_file_counts_as_absent_and_is_said_once(
    plan: SharedFolder, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    plan.publish(NODE, losses(1, 2))
    (name,) = [name for name in content(plan) if name.startswith("facts/")]
    whole = plan.store.read(name) or b""
    for damaged in (whole[:-9], whole.replace(b"0.5", b"0.4"), b""):
        caplog.clear()
        plan.store.write(name, damaged)
        reader = plan_at(url)
        assert reader.read(NODE) == NodeFacts()
        assert reader.read(NODE) == NodeFacts()
        assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1
    assert at(plan_at(url).publish(NODE, losses(1))) == [1]


def test_a_newer_format_is_refused(plan: SharedFolder) -> None:
    plan.store.write(f"facts/{NODE}/000001-0123456789abcdef.json", b'{"format": 2}')
    with pytest.raises(StoreError, match=r"has format 2, .*Update asyncsearch"):
        plan.read(NODE)


PACKED = PackedWith(8, '{"width": 32}', 3)


def commit_packed(plan: SharedFolder, resource: int = 3) -> CheckpointRef:
    ref = CheckpointRef(NODE, resource)
    plan.begin_packed(NODE)
    staged = plan.store.stage(ref)
    (staged / "model").write_bytes(b"m")
    plan.store.commit(ref, staged, PACKED)
    return ref


def test_a_study_takes_over_packed_training_only_if_it_says_so(url: str) -> None:
    plan = plan_at(url)
    commit_packed(plan)
    plan.publish_packed(NODE, [(1, {"loss": 0.5}), (3, {"loss": 0.25})], ended=3)
    assert plan.read(NODE) == NodeFacts()
    tolerant = plan_at(url, takes_packed=True).read(NODE)
    assert tolerant == NodeFacts(((1, {"loss": 0.5}), (3, {"loss": 0.25})), 3, (3,), (1, 3))


def test_what_was_trained_alone_counts_before_what_was_trained_in_packs(url: str) -> None:
    plan = plan_at(url)
    commit(plan, NODE, 1)
    commit_packed(plan)
    plan.publish(NODE, [(1, {"loss": 0.5})])
    plan.publish_packed(NODE, [(1, {"loss": 0.4999}), (3, {"loss": 0.25})])
    assert plan.read(NODE) == NodeFacts(((1, {"loss": 0.5}),), None, (1,))
    both = plan_at(url, takes_packed=True).read(NODE)
    assert both == NodeFacts(((1, {"loss": 0.5}), (3, {"loss": 0.25})), None, (1, 3), (3,))


def test_a_checkpoint_that_was_trained_alone_replaces_that_of_a_pack(url: str) -> None:
    plan = plan_at(url)
    commit_packed(plan)
    commit(plan, NODE, 3)
    assert plan.read(NODE).checkpoints == (3,)
    assert not plan.is_packed(CheckpointRef(NODE, 3))


def test_a_node_is_marked_before_any_of_it_is_trained_in_a_pack(url: str) -> None:
    plan = plan_at(url)
    paths: set[tuple[PathStep, ...]] = {(PathStep(0, NODE),), (PathStep(0, NODES[1]),)}
    member = FolderMembership(plan, "file:///study")
    member.claim({0: [NODE], 1: [NODES[1]]}, paths, None, packed=[0])
    assert f"packed/{NODE}/begun" in content(plan)
    assert not any(str(NODES[1]) in name for name in content(plan) if name.startswith("packed/"))


def test_what_continues_alone_from_a_packed_checkpoint_counts_as_packed(url: str) -> None:
    plan = plan_at(url)
    load = commit_packed(plan)
    member = FolderMembership(plan, "file:///study")
    member.claim({0: [NODES[1]], 1: [NODES[2]]}, set(), None, loads={0: load})
    member.publish(Publication(0, NODES[1], ((4, {"loss": 0.2}),), None))
    member.publish(Publication(1, NODES[2], ((4, {"loss": 0.1}),), None))
    assert plan.read(NODES[1]) == NodeFacts()
    assert plan_at(url, takes_packed=True).read(NODES[1]).packed == (4,)
    assert plan.read(NODES[2]).reports == ((4, {"loss": 0.1}),)


@pytest.mark.parametrize("kind", [LocalStore, FsspecStore])
def test_packed_trainings_manifest_says_so_and_others_keep_their_bytes(
    kind: type[LocalStore] | type[FsspecStore], tmp_path: Path
) -> None:
    store = kind(str(tmp_path / "s") if kind is LocalStore else f"file://{tmp_path / 's'}")
    store.prepare()
    ref = commit_packed(SharedFolder(store))
    with store.fetch(ref) as files:
        assert packed_with_beside(files) == PACKED
    assert b"packed_with" not in Manifest([], []).encode(ref)
    commit(SharedFolder(store), NODE, 3)
    with store.fetch(ref) as files:
        assert packed_with_beside(files) is None
