"""Held checkpoints are kept, others can be deleted, and an interrupted deletion is finished."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.errors import StoreError
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.shared.files import survey
from asyncsearch.shared.folder import SHARED_FILE, SharedFolder, open_shared
from asyncsearch.shared.holds import is_below, root_of
from asyncsearch.store import LocalStore
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.testing.store_checkpoints import load
from tests.shared.test_claims import silence
from tests.shared.tools import DAY_S, NODE, NODES, Between, age, commit, content, interrupted, let_age, plan_at
from tests.store.clocks import HOUR_S

REF = CheckpointRef(NODE, 3)


# Holding


def test_what_any_study_holds_is_held(plan: SharedFolder) -> None:
    assert plan.holds() == frozenset()
    plan.hold("digits", [REF, CheckpointRef(NODES[0], 9)])
    plan.hold("letters", [REF, CheckpointRef(NODE, 5)])
    assert plan.holds() == {REF, CheckpointRef(NODES[0], 9), CheckpointRef(NODE, 5)}


def test_a_hold_takes_the_place_of_the_one_before(plan: SharedFolder, url: str) -> None:
    plan.hold("digits", [REF])
    plan_at(url).hold("digits", [CheckpointRef(NODE, 5)])
    assert plan.holds() == {CheckpointRef(NODE, 5)}
    assert len(plan.store.list("holds")) == 1


def test_studies_with_names_that_look_alike_do_not_share_a_file(plan: SharedFolder) -> None:
    for name in ("a b", "a/b", "a-b", "", "x" * 300, "ü" * 300, "../up"):
        plan.hold(name, [CheckpointRef(NODE, len(plan.store.list("holds")))])
    assert len(plan.holds()) == len(plan.store.list("holds")) == 7


def test_a_study_that_lets_go_holds_nothing(plan: SharedFolder) -> None:
    plan.hold("digits", [REF])
    plan.let_go("digits")
    plan.let_go("digits")
    assert plan.holds() == frozenset()


@pytest.mark.parametrize("off_s", [0.0, HOUR_S, -HOUR_S])
def test_a_hold_counts_for_its_retention_or_while_its_study_exists(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off_s: float
) -> None:
    plan = plan_at(url, retention_s=7 * DAY_S, roots=[str(tmp_path)])
    home = LocalStore(tmp_path / "study")
    home.write("study.json", b"{}")
    plan.hold("digits", [REF], home=home.url)
    plan.hold("digits", [REF])
    plan.hold("letters", [CheckpointRef(NODE, 5)])
    age(monkeypatch, off_s / DAY_S)  # the clock of this machine
    let_age(url, 7 * DAY_S - 60)
    assert plan.holds() == {REF, CheckpointRef(NODE, 5)}
    let_age(url, 61)
    assert plan.holds() == {REF}
    home.remove("study.json")
    assert plan.holds() == frozenset()
    assert sorted(plan.current_holds().gone.values()) == [
        "study 'digits' is no longer at " + repr(home.url),
        "study 'letters' gave no sign of life for 7 days",
    ]


def test_a_home_that_cannot_be_looked_at_may_still_be_there(plan: SharedFolder) -> None:
    plan.hold("digits", [REF], home="nonsense://somewhere/digits")
    let_age(plan.store.url, 100 * DAY_S)
    assert plan.holds() == {REF}


def test_who_may_only_read_tells_the_age_of_a_hold_by_the_clock_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_url = f"{tmp_path}/plan"
    plan_at(disk_url).hold("digits", [REF])

    def refuse(*_: object) -> None:
        raise StoreError("it cannot be written by this user")

    monkeypatch.setattr(LocalStore, "write", refuse)
    reader = SharedFolder(LocalStore(disk_url))
    assert reader.holds() == {REF}
    age(monkeypatch, 8)
    assert reader.holds() == set()


def test_where_a_hold_is_damaged_nothing_is_deleted_until_its_rewriting(
    plan: SharedFolder, caplog: pytest.LogCaptureFixture
) -> None:
    commit(plan)
    plan.hold("digits", [REF])
    (name,) = plan.store.list("holds")
    plan.store.write(f"holds/{name}", b"{")
    assert not plan.delete(REF)
    assert plan.evict(0) == {}
    assert [record.message.startswith(f"'holds/{name}'") for record in caplog.records] == [True]
    plan.hold("digits", [])
    assert plan.delete(REF)


def test_a_newer_hold_is_refused(plan: SharedFolder) -> None:
    plan.store.write("holds/digits-01234567.json", b'{"format": 2}')
    commit(plan)
    with pytest.raises(StoreError, match="format 2"):
        plan.delete(REF)
    assert plan.read(NODE).checkpoints == (3,) or REF in plan.hold("letters", [REF])
    assert load(plan.store, REF)


# Deleting


def test_what_another_study_holds_is_not_deleted(plan: SharedFolder) -> None:
    commit(plan)
    plan.hold("digits", [REF])
    plan.hold("letters", [REF])
    before = content(plan)
    assert not plan.delete(REF, "digits")
    plan.close()
    assert content(plan) == before
    plan.hold("letters", [])
    assert plan.delete(REF, "digits"), "its own hold is its own affair"
    assert plan.read(NODE).checkpoints == ()
    assert plan.delete(REF, "digits"), "a repeat changes nothing"


def test_nothing_is_deleted_in_a_node_that_another_driver_trains(plan: SharedFolder, url: str) -> None:
    commit(plan)
    other = plan_at(url)
    assert other.claim([NODE], "letters") == {NODE: None}
    assert not plan.delete(REF, "digits")
    assert other.delete(REF, "letters")


def test_a_checkpoint_held_meanwhile_is_kept_whenever_the_hold_comes(url: str) -> None:
    step, reached, kept = 0, True, 0
    while reached:
        ref = CheckpointRef(NodeKey(f"{step:032x}"), 3)
        one, two = plan_at(url), plan_at(url)
        commit(one, ref.node)
        counted: list[bool] = []

        def count_on(two: SharedFolder = two, ref: CheckpointRef = ref, counted: list[bool] = counted) -> None:
            refused = two.hold("two", [ref])
            counted.append(ref not in refused and ref.resource in two.read(ref.node).checkpoints)

        between = interrupted(one, step, count_on)
        deleted = one.delete(ref, "one")
        reached = between.reached
        assert deleted == (ref.resource not in two.read(ref.node).checkpoints)
        if any(counted):
            assert not deleted, f"step {step}"
            kept += 1
        two.let_go("two")
        step += 1
    assert kept > 1


class Killed(BaseException):
    pass


def die() -> None:
    raise Killed


def test_a_deletion_that_stopped_in_the_middle_is_finished_by_the_next(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, reached = 0, True
    while reached:
        ref = CheckpointRef(NodeKey(f"{step:032x}"), 3)
        dying, living = plan_at(url), plan_at(url)
        commit(living, ref.node)
        commit(living, ref.node)
        between = Between(step, die)
        with monkeypatch.context() as patch, suppress(Killed):
            patch.setattr(dying.files, "store", between.before(dying.store))
            if isinstance(dying.store, FsspecStore):  # the store's own steps of a deletion count, too
                patch.setattr(dying.store, "_remote", between.before(dying.store._remote))
            else:
                for module, name in ((os, "rename"), (os, "replace"), (shutil, "rmtree")):
                    patch.setattr(module, name, between.calling(getattr(module, name)))
            dying.delete(ref, "dying")
        reached = between.reached
        if f"{dying.claims.token}.json" in living.store.list("drivers"):
            silence(dying)
        assert living.evict(0).keys() <= {ref}
        assert living.read(ref.node).checkpoints == (), f"step {step}"
        left = [name for name in content(living) if name.startswith(("checkpoints/", "deleting/", "tmp/removed"))]
        assert left == [], f"step {step}"
        step += 1
    assert step > 6


def test_a_deletion_in_progress_is_left_to_its_driver(plan: SharedFolder, url: str) -> None:
    commit(plan)
    other = plan_at(url)
    between = interrupted(plan, 3, other.finish)
    assert plan.delete(REF)
    assert between.reached


def test_what_is_being_deleted_does_not_count_as_there(plan: SharedFolder, url: str) -> None:
    commit(plan)
    commit(plan, NODE, 5)
    plan.store.write(f"deleting/{NODE}.3.{'0' * 32}.json", b'{"format": 1}')
    assert plan.read(NODE).checkpoints == (5,)
    assert plan.hold("digits", [REF, CheckpointRef(NODE, 5)]) == {REF}
    plan.finish()
    assert plan.read(NODE).checkpoints == (3, 5), "it is held, so the abandoned deletion is given up"


# Quota


def test_usage_is_in_bytes_by_checkpoint(plan: SharedFolder) -> None:
    small, large = commit(plan, NODE, 3, size=10), commit(plan, NODE, 5, size=5000)
    usage = plan.usage()
    assert set(usage) == {small, large}
    assert usage[large] - usage[small] in range(4985, 5000)
    assert 10 < usage[small] < 1000


def test_what_is_not_committed_does_not_count(plan: SharedFolder) -> None:
    (plan.store.stage(REF) / "model").write_bytes(b"half")
    plan.store.write(f"checkpoints/{NODE}/notes", b"not ours")
    assert plan.usage() == {}


def test_versions_of_a_checkpoint_and_unfinished_ones_are_told_apart(url: str) -> None:
    plan = plan_at(url)
    commit(plan, size=1000)
    commit(plan, size=1000)
    if isinstance(plan.store, FsspecStore):
        for half in (f"{NODE}/3.1-{'0' * 32}", f"{NODE}/3.9-{'0' * 32}"):
            plan.store._remote.put(f"checkpoints/{half}/files/model", b"half")
    found = survey(plan.store)
    assert set(found.committed) == {REF}
    if isinstance(plan.store, FsspecStore):
        assert set(found.unfinished) == {f"checkpoints/{NODE}/3.{number}-{'0' * 32}" for number in (1, 9)}
        assert found.replaced == {}
        assert found.committed[REF].size_bytes < 2000
    else:
        assert found.unfinished == {}
        assert set(found.replaced) == {f"checkpoints/{NODE}/3"}
        assert found.committed[REF].size_bytes > 2000


def test_eviction_stops_as_soon_as_the_quota_is_kept(plan: SharedFolder) -> None:
    refs = [commit(plan, node, 3, size=1000) for node in NODES[:5]]
    usage = plan.usage()
    quota = sum(usage.values()) - usage[refs[0]] - 1
    gone = plan.evict(quota)
    assert len(gone) == 2
    assert gone == {ref: usage[ref] for ref in gone}
    assert set(plan.usage()) == set(refs) - set(gone)
    assert plan.evict(quota) == {}


def test_eviction_spares_what_is_held_or_to_be_kept_even_over_the_quota(plan: SharedFolder) -> None:
    refs = [commit(plan, node) for node in NODES[:4]]
    plan.hold("digits", [refs[0]])
    assert plan.evict(0, keep=[refs[1]]).keys() == set(refs[2:])
    assert plan.usage().keys() == set(refs[:2])


def test_the_one_that_was_of_use_longest_ago_goes_first(plan: SharedFolder) -> None:
    refs = [commit(plan, node) for node in NODES[:3]]
    one = plan.usage()[refs[0]]
    plan.hold("digits", refs)
    for left in ([refs[0], refs[1]], [refs[0]], []):  # so refs[2] was released first, and refs[0] last
        plan.hold("digits", left)
    assert list(plan.evict(one)) == [refs[2], refs[1]]


def test_among_equals_the_deepest_goes_first(tmp_path: Path) -> None:
    plan = plan_at(f"{tmp_path}/plan")
    refs = [commit(plan, NODE, resource) for resource in (3, 27, 9)]
    for path in (tmp_path / "plan" / "checkpoints").rglob("*"):
        os.utime(path, (1e9, 1e9))
    assert [one.ref for one in plan.stored()] == [refs[1], refs[2], refs[0]]
    assert list(plan.evict(0)) == [refs[1], refs[2], refs[0]]


# The folder


def test_the_store_of_a_study_is_not_a_shared_folder(url: str) -> None:
    plan = plan_at(url)
    plan.store.write("study.json", b"{}")
    with pytest.raises(StoreError, match="is the store of a study"):
        plan.prepare()


def test_a_folder_of_a_newer_version_is_refused(plan: SharedFolder) -> None:
    plan.store.write(SHARED_FILE, b'{"format": 9}')
    with pytest.raises(StoreError, match=r"has format 9, .*Update asyncsearch here, or give this study another folder"):
        plan.prepare()


def test_everything_that_is_written_is_json_with_a_format(plan: SharedFolder) -> None:
    plan.claim([NODE], "digits")
    plan.publish(NODE, [(1, {"loss": 0.5})])
    plan.hold("digits", [REF])
    files = content(plan)
    assert len(files) == 5
    for data in files.values():
        assert data is not None
        assert data.startswith(b'{\n  "format": 1,\n')


@pytest.mark.parametrize(
    ("study", "place"),
    [
        ("s3://bucket/studies/digits", "s3://bucket/studies/plan"),
        ("s3://bucket/digits", "s3://bucket/plan"),
        ("hdfs:///studies/digits", "hdfs:///studies/plan"),
        ("/studies/digits", "/studies/plan"),
    ],
)
def test_the_default_place_is_beside_the_study(study: str, place: str) -> None:
    store = FsspecStore(study, {"key": "k"}, lock_lease_s=7) if "://" in study else LocalStore(study)
    shared = open_shared(store)
    assert shared is not None
    assert shared.url == place
    if isinstance(shared, FsspecStore):
        assert (shared._remote.options, shared._lease_s) == ({"key": "k"}, 7)


def test_a_study_shares_where_it_is_told_or_with_nobody(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "digits")
    assert open_shared(store, False) is None
    shared = open_shared(store, tmp_path / "elsewhere")
    assert shared is not None
    assert shared.url == str(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("store", "shared"),
    [
        (LocalStore("/studies/plan"), None),
        (LocalStore("/studies/digits"), "/studies/digits"),
        (FsspecStore("s3://b"), None),
    ],
)
def test_a_place_that_cannot_be_is_refused(store: LocalStore | FsspecStore, shared: str | None) -> None:
    with pytest.raises(StoreError, match=r"Sharing\(shared=\.\.\.\), or share with nobody: Sharing\(shared=False\)"):
        open_shared(store, shared)


STRANGERS = (
    "hdfs://evil:8020/studies/x",
    "s3://evil/x",
    "{root}/../elsewhere/x",
    "elsewhere/x",
    "{root}x/y",
    "file://evil/x",
)


@pytest.mark.parametrize("home", STRANGERS)
def test_a_planted_holds_home_is_asked_only_below_roots_the_user_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("asyncsearch.store.open_store", asked.append)
    root, url = tmp_path / "named", str(tmp_path / "team" / "plan")
    plan = plan_at(url, retention_s=7 * DAY_S, roots=[str(root), "hdfs://named:8020/studies"])
    plan.hold("planted", [REF], home=home.format(root=root))
    let_age(url, 8 * DAY_S)
    assert plan.holds() == {REF}, "what cannot be asked may be there"
    assert asked == []


@given(parts=st.lists(st.sampled_from(["a", "b", "..", ".", "", "a b", "%2e%2e", "c\\d"]), max_size=4), data=st.data())
@settings(max_examples=60, deadline=None)
def test_only_an_address_without_a_way_up_lies_below_a_root(parts: list[str], data: st.DataObject) -> None:
    root = data.draw(st.sampled_from(["/studies", "hdfs://host:8020/studies", "s3://bucket", "memory://studies"]))
    home = "/".join([root, *parts])
    is_plain = all(part in ("a", "b", "a b") for part in parts)
    assert not is_plain or is_below(home, [root])
    assert not is_below(home, [root]) or ".." not in home.split("/")
    assert not is_below(home, [f"{root}x", "hdfs://other:8020/studies", "s3://buckets"])


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("/a/plan", "/a"),
        ("/plan", "/"),
        ("hdfs://host/a/plan", "hdfs://host/a"),
        ("hdfs:///a/plan/", "hdfs:///a"),
        ("s3://bucket/plan", "s3://bucket"),
    ],
)
def test_who_names_a_store_names_its_neighbours(url: str, root: str) -> None:
    assert root_of(url) == root
    assert is_below(f"{root.rstrip('/')}/other", [root_of(url)])
