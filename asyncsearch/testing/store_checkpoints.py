"""The laws of checkpoints in a store, and the tools of all laws of stores."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from asyncsearch.errors import StoreError
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.launch.value_pickler import dumps
from asyncsearch.store import Store, scratch
from asyncsearch.testing.base_suite import Suite

NODE = NodeKey("0123456789abcdef" * 2)
OTHER = NodeKey("f" * 32)
REF = CheckpointRef(NODE, 81)


def save(store: Store, ref: CheckpointRef = REF, **files: bytes) -> int:
    """Commit a checkpoint with some files; ``__`` in a name stands for a folder."""
    staged = store.stage(ref)
    for name, data in files.items():
        path = staged / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return store.commit(ref, staged)


def load(store: Store, ref: CheckpointRef = REF) -> dict[str, bytes]:
    """Return the files of a checkpoint."""
    with store.fetch(ref) as folder:
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def together(count: int, action: Callable[[int], None]) -> None:
    """Run an action in threads that all begin at the same moment."""
    barrier = threading.Barrier(count)

    def begin(number: int) -> None:
        barrier.wait()
        action(number)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(begin, range(count)))


def same(found: object, expected: object) -> None:
    """Require a value."""
    assert found == expected, f"found {found!r:.500}, expected {expected!r:.500}"


@contextmanager
def refused(kind: type[StoreError] = StoreError) -> Iterator[None]:
    """Require an error that names the fault in a sentence."""
    words = None
    try:
        yield
    except kind as error:
        words = str(error)
    assert words is not None, f"nothing was refused, expected {kind.__name__}"
    assert len(words.split()) >= 5, f"the error says {words!r}, which is no sentence"


def copy_of(store: Store) -> Store:
    """Return the store as a worker has it."""
    copied: Store = pickle.loads(dumps(store))  # noqa: S301
    return copied


class CheckpointLaws(Suite):
    """Laws of checkpoints, of which ``StoreTests`` is made; ``make`` gives the store to try."""

    repeats = 40
    """How often a law of any moment is tried; fewer, but at least 10, where a write takes long."""

    def make(self) -> Store:
        """Return a store, each time at another place where nothing is yet."""
        raise NotImplementedError(f"{type(self).__name__} must have a method make(self) that returns a new store.")

    def new(self) -> Store:
        """Return a new store that is ready."""
        store = self.make()
        store.prepare()
        return store

    def folder(self) -> Path:
        """Return a new folder of this machine that is none of the store's."""
        return scratch.make_folder("test")

    def test_committed_checkpoint_is_fetched_as_it_was(self) -> None:
        store = self.new()
        same(save(store, model=b"m" * 1000, folder__optimizer=b"o" * 234, empty=b""), 1234)
        same(load(store), {"model": b"m" * 1000, "folder/optimizer": b"o" * 234, "empty": b""})
        same(store.checkpoints(), [REF])

    def test_empty_folders_and_odd_names_are_kept(self) -> None:
        store = self.new()
        staged = store.stage(REF)
        (staged / "assets" / "none").mkdir(parents=True)
        (staged / "manifest.json").write_bytes(b"the user's own")
        (staged / 'a\'; echo "b" ü *[x]?#%20').write_bytes(b"odd")
        store.commit(REF, staged)
        with store.fetch(REF) as folder:
            assert (folder / "assets" / "none").is_dir(), "an empty folder is missing"
            same((folder / "manifest.json").read_bytes(), b"the user's own")
            same((folder / 'a\'; echo "b" ü *[x]?#%20').read_bytes(), b"odd")
            same(
                sorted(path.name for path in folder.iterdir()),
                sorted(["assets", "manifest.json", 'a\'; echo "b" ü *[x]?#%20']),
            )

    def test_checkpoint_without_files_is_a_checkpoint(self) -> None:
        store = self.new()
        same(store.commit(REF, store.stage(REF)), 0)
        same(store.checkpoints(), [REF])
        same(load(store), {})

    def test_staged_checkpoint_is_not_there(self) -> None:
        store = self.new()
        (store.stage(REF) / "model").write_bytes(b"half")
        same(store.checkpoints(), [])
        with refused(), store.fetch(REF):
            pass

    def test_each_stage_is_a_new_empty_folder(self) -> None:
        store = self.new()
        first, second = store.stage(REF), store.stage(REF)
        assert first != second, f"stage() gave {first} twice"
        same([*first.iterdir(), *second.iterdir()], [])

    def test_commit_takes_the_staged_folder(self) -> None:
        store = self.new()
        staged = store.stage(REF)
        store.commit(REF, staged)
        same(staged.exists(), False)
        with refused():
            store.commit(REF, staged)

    def test_only_staged_folders_are_committed(self) -> None:
        store = self.new()
        mine = self.folder()
        (mine / "thesis.txt").write_text("years of work")
        for folder in (mine, mine / "nowhere"):
            with refused():
                store.commit(REF, folder)
        same((mine / "thesis.txt").read_text(), "years of work")

    def test_discard_takes_the_staged_folder_and_no_other_one(self) -> None:
        store = self.new()
        staged, mine = store.stage(REF), self.folder() / "files"
        (staged / "model").write_bytes(b"half")
        mine.mkdir()
        for folder in (staged, staged, mine):
            store.discard(folder)
        same(staged.exists(), False)
        same(mine.exists(), True)

    def test_link_is_refused_and_the_folder_can_be_committed_without_it(self) -> None:
        store = self.new()
        staged = store.stage(REF)
        (staged / "model").write_bytes(b"m")
        (staged / "latest").symlink_to("model")
        with refused():
            store.commit(REF, staged)
        same(store.checkpoints(), [])
        (staged / "latest").unlink()
        same(store.commit(REF, staged), 1)
        same(load(store), {"model": b"m"})

    def test_second_commit_replaces_the_first(self) -> None:
        store = self.new()
        save(store, model=b"first", optimizer=b"first")
        for number in range(self.repeats // 4):
            save(store, model=b"%d" % number)
            same(load(store), {"model": b"%d" % number})
        same(store.checkpoints(), [REF])

    def test_reader_of_a_replaced_checkpoint_can_finish(self) -> None:
        store = self.new()
        save(store, model=b"old")
        with store.fetch(REF) as folder:
            save(store, model=b"new")
            same((folder / "model").read_bytes(), b"old")
        same(load(store), {"model": b"new"})

    def test_reader_sees_old_or_new_while_a_checkpoint_is_replaced(self) -> None:
        store = self.new()
        save(store, a=b"0" * 100, b=b"0" * 100)
        seen: list[dict[str, bytes]] = []
        loaded = threading.Condition()
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                files = load(store)
                with loaded:
                    seen.append(files)
                    loaded.notify()

        with ThreadPoolExecutor(1) as pool:
            reader = pool.submit(read)

            def has_more(known: int) -> bool:
                return len(seen) > known or reader.done()

            for number in range(self.repeats // 3):
                save(store, a=b"%d" % (number % 10) * 100, b=b"%d" % (number % 10) * 100)
                with loaded:  # a reader can finish although its checkpoint is replaced once, not any number of times
                    known = len(seen)
                    assert loaded.wait_for(partial(has_more, known), timeout=60), "a reader does not come to its end"
            done.set()
            reader.result()
        same([files for files in seen if files["a"] != files["b"]], [])

    def test_commits_at_the_same_moment_leave_one_whole_checkpoint(self) -> None:
        store = self.new()
        refs = [CheckpointRef(NODE, resource) for resource in (1, 3)]

        def commit(number: int) -> None:
            for ref in refs:
                save(store, ref, a=b"%d" % number, b=b"%d" % number)

        together(6, commit)
        same(store.checkpoints(), refs)
        for ref in refs:
            files = load(store, ref)
            same(files["a"], files["b"])

    def test_commits_and_deletes_at_the_same_moment_agree(self) -> None:
        store = self.new()

        def work(number: int) -> None:
            for resource in range(self.repeats // 5):
                ref = CheckpointRef(NODE, resource)
                if number % 2:
                    save(store, ref, model=b"%d" % resource)
                else:
                    store.delete(ref)

        together(4, work)
        for ref in store.checkpoints():
            same(load(store, ref), {"model": b"%d" % ref.resource})

    def test_deleted_checkpoint_is_gone_and_may_be_deleted_again(self) -> None:
        store = self.new()
        other = CheckpointRef(NODE, 8)
        save(store, model=b"1")
        save(store, model=b"2")
        save(store, other, model=b"3")
        store.delete(REF)
        store.delete(REF)
        store.delete(CheckpointRef(OTHER, 1))
        same(store.checkpoints(), [other])
        same(load(store, other), {"model": b"3"})
        with refused(), store.fetch(REF):
            pass
        save(store, model=b"4")
        same(load(store), {"model": b"4"})

    def test_all_checkpoints_are_listed_in_order(self) -> None:
        store = self.new()
        refs = [CheckpointRef(node, resource) for node in (NODE, OTHER) for resource in (9, 100)]
        for ref in reversed(refs):
            save(store, ref, model=b"m")
        same(store.checkpoints(), refs)

    def test_node_that_is_no_key_is_refused(self) -> None:
        store = self.new()
        for node in ["", "..", "a/b", "a.b", "x" * 65]:
            ref = CheckpointRef(NodeKey(node), 1)
            with refused():
                store.stage(ref)
            with refused(), store.fetch(ref):
                pass

    def test_later_attempt_replaces_an_earlier_one_and_each_deletes_its_own(self) -> None:
        store = self.new()
        for attempt, data in ((9, b"first"), (12, b"second")):
            staged = store.stage(REF)
            (staged / "model").write_bytes(data)
            same(store.commit_of(attempt, REF, staged), len(data))
            same(load(store), {"model": data})
        same(store.checkpoints(), [REF])
        store.delete(REF)
        same(store.checkpoints(), [])
        staged = store.stage(REF)
        (staged / "model").write_bytes(b"third")
        store.commit_of(15, REF, staged)
        store.delete_of(15, REF)
        store.delete_of(15, REF)
        same(store.checkpoints(), [])

    def test_sweep_keeps_what_is_committed(self) -> None:
        store = self.new()
        save(store, model=b"old")
        save(store, model=b"new")
        store.write("study.json", b"{}")
        store.append_log("trial-1", ["a"])
        staged = store.stage(CheckpointRef(OTHER, 1))
        (staged / "model").write_bytes(b"half")
        with store.lock():
            store.sweep()
            store.sweep()
        same(store.list("tmp_is_reserved"), [])
        same(load(store), {"model": b"new"})
        same(store.checkpoints(), [REF])
        same(store.read("study.json"), b"{}")
        same(list(store.read_log("trial-1")), ["a"])

    def test_commit_after_a_sweep_is_whole_or_refused(self) -> None:
        store = self.new()
        staged = store.stage(REF)
        (staged / "model").write_bytes(b"m")
        store.sweep()
        with suppress(StoreError):
            store.commit(REF, staged)
        if store.checkpoints():
            same(load(store), {"model": b"m"})
