"""The laws of a store that several write at once.

The shards of a checkpoint are written by several workers, in a store that takes shards. Where studies share a store,
one of many creates a file, and there are folders, and stores inside and beside.
"""

from __future__ import annotations

import uuid
from contextlib import suppress

from asyncsearch.errors import CheckpointError
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.shared.files import survey
from asyncsearch.shared.folder import SharedFolder
from asyncsearch.store import Store
from asyncsearch.store.manifest import Sharded, Shards, StoredFile, manifest_beside
from asyncsearch.testing.store_checkpoints import (
    NODE,
    OTHER,
    REF,
    CheckpointLaws,
    copy_of,
    load,
    refused,
    same,
    save,
    together,
)

SHARDED = Sharded(3, "fsdp2")


def takes_shards(store: Store) -> bool:
    """Return whether a store takes shards; it need not."""
    staged = store.stage(REF)
    with suppress(CheckpointError):
        place = store.shard_place(REF, staged)
        store.discard(staged)
        store.discard_shards(REF, place)
        return True
    store.discard(staged)
    return False


def add(store: Store, place: str, rank: int, ref: CheckpointRef = REF) -> list[StoredFile]:
    """Add the shard of a rank, from another worker."""
    worker = copy_of(store)
    staged = worker.stage(ref)
    (staged / "checkpoint").mkdir()
    (staged / "checkpoint" / f"shard-{rank}").write_bytes(b"%d" % rank * 10)
    return list(worker.add_shard(ref, place, staged))


def save_in_shards(store: Store, ref: CheckpointRef = REF, first: bytes = b"0") -> int:
    """Commit a checkpoint of three ranks."""
    staged = store.stage(ref)
    (staged / "checkpoint").mkdir()
    (staged / "checkpoint" / "shard-0").write_bytes(first * 10)
    place = store.shard_place(ref, staged)
    files = [file for rank in (1, 2) for file in add(store, place, rank, ref)]
    return store.commit(ref, staged, None, Shards(place, tuple(files), SHARDED))


def whole(first: bytes = b"0") -> dict[str, bytes]:
    """Return the files of such a checkpoint."""
    return {f"checkpoint/shard-{rank}": one * 10 for rank, one in enumerate((first, b"1", b"2"))}


class ShardLaws(CheckpointLaws):
    """Laws that hold for any store that takes shards; ``make`` gives the one to try."""

    def test_checkpoint_has_the_shards_of_all_workers_and_their_sizes(self) -> None:
        if not takes_shards(store := self.new()):
            return
        same(save_in_shards(store), 30)
        same(store.checkpoints(), [REF])
        same(load(store), whole())

    def test_shard_in_a_folder_that_rank_0_has_not_is_loaded(self) -> None:
        if not takes_shards(store := self.new()):
            return
        staged = store.stage(REF)
        (staged / "shard-0").write_bytes(b"0")
        place = store.shard_place(REF, staged)
        other = store.stage(REF)
        (other / "of" / "rank-1").mkdir(parents=True)
        (other / "of" / "rank-1" / "shard").write_bytes(b"1")
        files = store.add_shard(REF, place, other)
        store.commit(REF, staged, None, Shards(place, tuple(files), SHARDED))
        same(load(store), {"shard-0": b"0", "of/rank-1/shard": b"1"})

    def test_what_two_workers_have_written_in_one_place_is_no_checkpoint(self) -> None:
        if not takes_shards(store := self.new()):
            return
        for own, others in (("x", "x"), ("x", "x/y"), ("x/y", "x")):
            staged, other = store.stage(REF), store.stage(REF)
            for folder, name in ((staged, own), (other, others)):
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_bytes(b"1")
            place = store.shard_place(REF, staged)
            try:
                files = store.add_shard(REF, place, other)
                store.commit(REF, staged, None, Shards(place, tuple(files), SHARDED))
            except CheckpointError:
                store.discard(staged)
                store.discard(other)
                store.discard_shards(REF, place)
            else:
                raise AssertionError(f"{own} of one and {others} of another became a checkpoint")
        same(store.checkpoints(), [])

    def test_manifest_says_who_has_divided_the_state(self) -> None:
        if not takes_shards(store := self.new()):
            return
        save_in_shards(store)
        with store.fetch(REF) as folder:
            manifest = manifest_beside(folder)
            same(manifest is not None and manifest.sharded, SHARDED)

    def test_shards_are_no_checkpoint_before_the_commit_and_are_swept(self) -> None:
        if not takes_shards(store := self.new()):
            return
        save(store, CheckpointRef(NODE, 3), model=b"m")
        staged = store.stage(REF)
        add(store, store.shard_place(REF, staged), 1)
        same(store.checkpoints(), [CheckpointRef(NODE, 3)])
        with refused(), store.fetch(REF):
            pass
        with store.lock():
            store.sweep()
        same([name for name in store.walk() if "shard" in name], [])
        same(survey(store).unfinished, {})
        same(load(store, CheckpointRef(NODE, 3)), {"model": b"m"})

    def test_discarded_shards_are_gone_and_may_be_discarded_again(self) -> None:
        if not takes_shards(store := self.new()):
            return
        staged = store.stage(REF)
        place = store.shard_place(REF, staged)
        add(store, place, 1)
        store.discard(staged)
        for _ in range(2):
            store.discard_shards(REF, place)
        same([name for name in store.walk() if "shard" in name], [])

    def test_commit_without_a_shard_that_was_added_is_refused(self) -> None:
        if not takes_shards(store := self.new()):
            return
        staged = store.stage(REF)
        (staged / "shard-0").write_bytes(b"0")
        place = store.shard_place(REF, staged)
        lost = StoredFile("checkpoint/shard-2", 10, "0" * 32)
        with refused():
            store.commit(REF, staged, None, Shards(place, (*add(store, place, 1), lost), SHARDED))
        same(store.checkpoints(), [])

    def test_checkpoint_in_shards_replaces_another_one_and_is_replaced(self) -> None:
        if not takes_shards(store := self.new()):
            return
        save(store, model=b"whole")
        save_in_shards(store)
        same(load(store), whole())
        save_in_shards(store, first=b"9")
        same(load(store), whole(b"9"))
        save(store, model=b"whole again")
        same(load(store), {"model": b"whole again"})
        store.delete(REF)
        same(store.checkpoints(), [])

    def test_place_that_the_store_did_not_give_is_refused(self) -> None:
        if not takes_shards(store := self.new()):
            return
        real = store.shard_place(REF, store.stage(REF))
        for place in ("", "..", "../up", "a/b", "journal", f"../tmp/{real}", f"../{NODE}/{real}"):
            with refused():
                add(store, place, 1)


ODD_NAMES = ["x", "x#1", "x#2", "x?1", "x?2", "x;1", "x;2", "x%231", "x%25", "x 1", "x+1"]


class SharingLaws(ShardLaws):
    """Laws of stores that hold a shared folder; ``make`` gives the one to try."""

    def test_a_file_is_created_once_and_stays_as_it_was(self) -> None:
        store = self.new()
        same([store.create("claims/a/1.json", data) for data in (b"first", b"second")], [True, False])
        same(store.read("claims/a/1.json"), b"first")

    def test_one_of_many_creates_a_file(self) -> None:
        store = self.new()
        created: list[int] = []

        def create(number: int) -> None:
            if store.create("claims/a/1.json", b"%d" % number):
                created.append(number)

        together(8, create)
        same(store.read("claims/a/1.json"), b"".join(b"%d" % number for number in created))

    def test_walk_finds_every_file_below_a_folder_with_its_size(self) -> None:
        store = self.new()
        for name in ("a/b/c", "a/d", "ab"):
            store.write(name, name.encode())
        same({name: file.size_bytes for name, file in store.walk("a").items()}, {"b/c": 5, "d": 3})
        same(store.walk("a/d"), {})
        same(store.walk("nowhere"), {})
        assert {"a/b/c", "a/d", "ab"} <= set(store.walk()), "walk() of the whole store lacks files"

    def test_remove_tree_takes_a_folder_or_a_file_and_nothing_else(self) -> None:
        store = self.new()
        for name in ("a/b/c", "a/d", "ab", "e"):
            store.write(name, b"x")
        for name in ("a", "a", "e", "nowhere"):
            store.remove_tree(name)
        same([store.read(name) for name in ("a/b/c", "a/d", "ab", "e")], [None, None, b"x", None])
        store.write("a/b/c", b"again")
        store.remove_if_empty("a")
        same(store.read("a/b/c"), b"again")

    def test_a_store_inside_and_one_beside_are_stores_of_their_own(self) -> None:
        store = self.new()
        inside, beside = store.child("evals/first"), store.sibling(uuid.uuid4().hex)
        places = [store, inside, beside]
        same(len({one.url for one in places}), 3)
        for number, one in enumerate(places):
            one.prepare()
            one.write("study.json", b"%d" % number)
        for number, one in enumerate(places):
            same(store.at(one.url).read("study.json"), b"%d" % number)

    def test_names_that_differ_by_a_special_character_are_different_stores(self) -> None:
        store = self.new()
        urls = [store.child(name).url for name in ODD_NAMES]
        for number, url in enumerate(urls):
            store.at(url).write("study.json", b"%d" % number)
        for number, url in enumerate(urls):
            place = store.at(url)
            same((place.read("study.json"), list(place.walk())), (b"%d" % number, ["study.json"]))

    def test_checkpoints_of_one_node_are_listed_alone(self) -> None:
        store = self.new()
        refs = [CheckpointRef(node, resource) for node in (NODE, OTHER) for resource in (3, 9)]
        for ref in refs:
            save(store, ref, model=b"m")
        same(store.checkpoints(OTHER), refs[2:])
        same(store.checkpoints(NodeKey("a" * 32)), [])

    def test_all_files_of_a_checkpoint_count_for_its_size_and_none_is_left_when_it_is_deleted(self) -> None:
        store = self.new()
        save(store, model=b"m" * 1000)
        found = survey(store).committed
        same(list(found), [REF])
        assert found[REF].size_bytes > 1000, f"a checkpoint of 1000 bytes and a manifest has {found[REF].size_bytes}"
        store.delete(REF)
        same(survey(store).committed, {})

    def test_one_study_trains_in_a_node_at_a_time(self) -> None:
        first = SharedFolder(self.new())
        first.prepare()
        second = SharedFolder(copy_of(first.store))
        same(first.claim([NODE], "first"), {NODE: None})
        assert "first" in (second.claim([NODE], "second")[NODE] or ""), "two studies have a claim of one node"
        first.release([NODE])
        same(second.claim([NODE], "second"), {NODE: None})
        second.close()

    def test_studies_learn_what_others_have_trained_and_keep_what_they_hold(self) -> None:
        first = SharedFolder(self.new())
        first.prepare()
        second = SharedFolder(first.store.at(first.store.url))
        save(first.store, model=b"m")
        save(first.store, CheckpointRef(OTHER, 1), model=b"m")
        first.publish(NODE, [(81, {"loss": 0.5})])
        same((second.read(NODE).reports, second.read(NODE).checkpoints), (((81, {"loss": 0.5}),), (81,)))
        same(second.hold("second", [REF]), frozenset())
        same(list(first.evict(0)), [CheckpointRef(OTHER, 1)])
        same(second.read(NODE).checkpoints, (81,))
