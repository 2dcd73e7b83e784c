"""The laws of checkpoints that several workers write, each its shard, in a store that takes shards."""

from __future__ import annotations

from contextlib import suppress

from asyncsearch.errors import CheckpointError
from asyncsearch.ids import CheckpointRef
from asyncsearch.shared.files import survey
from asyncsearch.store import Store
from asyncsearch.store.manifest import Sharded, Shards, StoredFile, manifest_beside
from asyncsearch.testing.store_checkpoints import NODE, REF, CheckpointLaws, copy_of, load, refused, same, save

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
