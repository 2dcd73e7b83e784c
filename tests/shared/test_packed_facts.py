"""What was trained in packs is taken over by those that say so, and by nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncsearch.ids import CheckpointRef, PathStep
from asyncsearch.shared.folder import NodeFacts, SharedFolder
from asyncsearch.shared.membership import FolderMembership
from asyncsearch.shared.publications import Publication
from asyncsearch.store import LocalStore
from asyncsearch.store.far.fsspec_store import FsspecStore
from asyncsearch.store.manifest import Manifest, PackedWith, packed_with_beside
from tests.shared.tools import NODE, NODES, commit, content, plan_at

PACKED = PackedWith(8, '{"width": 32}', 3)


@pytest.fixture(params=["disk", "fsspec"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "plan") if request.param == "disk" else f"file://{tmp_path / 'plan'}"


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
