"""What every store must do. A backend's tests subclass ``StoreTests`` and give it a fixture ``store``."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from asyncsearch.errors import StoreError, StoreLockedError
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.store import Store
from asyncsearch.store.layout import RESERVED

NODE = NodeKey("0123456789abcdef" * 2)
OTHER = NodeKey("f" * 32)
REF = CheckpointRef(NODE, 81)

ESCAPES = ["", "/etc/passwd", "../up", "a/../../up", "a//b", "a/", ".", "a\0b", "tmp/x", "lock", "..\\up"]


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
    with store.fetch(ref, verify=True) as folder:
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def together(count: int, action: Callable[[int], None]) -> None:
    """Run an action in threads that all begin at the same moment."""
    barrier = threading.Barrier(count)

    def begin(number: int) -> None:
        barrier.wait()
        action(number)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(begin, range(count)))


class StoreTests:
    """The laws of ``asyncsearch.store.base_store``; ``store`` is a new, prepared store."""

    # The store itself

    def test_a_store_is_locked_while_a_driver_holds_it_and_not_before_or_after(self, store: Store) -> None:
        store.prepare()
        assert not store.is_locked()
        with store.lock():
            assert store.is_locked()
        assert not store.is_locked()

    def test_prepare_may_be_called_again_and_leaves_nothing_else(self, store: Store) -> None:
        store.write("study.json", b"{}")
        store.prepare()
        assert store.read("study.json") == b"{}"
        assert store.list("journal") == []
        assert store.checkpoints() == []

    def test_pickled_store_is_the_same_store(self, store: Store) -> None:
        save(store, model=b"1")
        with store.lock():
            other: Store = pickle.loads(pickle.dumps(store))
        assert other.url == store.url
        assert load(other) == {"model": b"1"}
        other.append_log("worker-1", ["from afar"])
        assert list(store.read_log("worker-1")) == ["from afar"]

    # Small files

    def test_read_returns_what_was_written_last(self, store: Store) -> None:
        assert store.read("study.json") is None
        store.write("study.json", b"old")
        store.write("study.json", b"new")
        assert store.read("study.json") == b"new"
        store.write("snapshots/000000000001.json", b"")
        assert store.read("snapshots/000000000001.json") == b""

    def test_removed_file_is_gone_and_may_be_removed_again(self, store: Store) -> None:
        store.write("study.json", b"x")
        store.remove("study.json")
        store.remove("study.json")
        assert store.read("study.json") is None

    def test_list_is_sorted_and_empty_without_folder(self, store: Store) -> None:
        for number in (3, 1, 2):
            store.write(f"snapshots/{number}.json", b"")
        assert store.list("snapshots") == ["1.json", "2.json", "3.json"]
        assert store.list("nowhere") == []
        assert store.list("snapshots/1.json") == []

    @pytest.mark.parametrize("name", ESCAPES)
    def test_names_cannot_lead_out_of_the_store(self, store: Store, name: str) -> None:
        with pytest.raises(StoreError, match="Choose another name"):
            store.read(name)
        with pytest.raises(StoreError, match="Choose another name"):
            store.write(name, b"")
        with pytest.raises(StoreError, match="Choose another name"):
            store.remove(name)
        with pytest.raises(StoreError, match="Choose another name"):
            store.create(name, b"")
        if not name.startswith(RESERVED):  # a store shows the files that it keeps for itself
            for look in (store.list, store.remove_tree):
                with pytest.raises(StoreError, match="Choose another name"):
                    look(name)

    def test_reader_sees_old_or_new_while_a_file_is_replaced(self, store: Store) -> None:
        contents = [bytes([65 + number]) * 50_000 for number in range(4)]
        store.write("study.json", contents[0])
        seen = set()
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                seen.add(store.read("study.json"))

        with ThreadPoolExecutor(1) as pool:
            reader = pool.submit(read)
            for number in range(40):
                store.write("study.json", contents[number % 4])
            done.set()
            reader.result()
        assert seen <= set(contents)

    # Journal

    def test_segments_are_numbered_and_never_opened_twice(self, store: Store) -> None:
        first, second = store.open_segment(), store.open_segment()
        assert [first.name, second.name] == ["000001.jsonl", "000002.jsonl"]
        first.append(b"a\n")
        second.append(b"b\n")
        first.append(b"c\nd\n")
        first.close()
        second.close()
        assert store.journal_segments() == ["000001.jsonl", "000002.jsonl"]
        assert list(store.read_segment("000001.jsonl")) == [b"a\n", b"c\n", b"d\n"]
        assert list(store.read_segment("000002.jsonl")) == [b"b\n"]

    def test_new_segment_is_empty(self, store: Store) -> None:
        store.open_segment().close()
        assert list(store.read_segment("000001.jsonl")) == []

    def test_open_segment_can_be_read(self, store: Store) -> None:
        segment = store.open_segment()
        for number in range(12):
            segment.append(b'{"n":%d}\n' % number)
            assert list(store.read_segment(segment.name))[-1] == b'{"n":%d}\n' % number
        assert len(list(store.read_segment(segment.name))) == 12
        segment.close()

    def test_long_lines_stay_whole(self, store: Store) -> None:
        segment = store.open_segment()
        lines = [b"x" * (3 << 20) + b"\n", b"y\n", b"\n", b"z" * (1 << 20) + b"\n"]
        segment.append(b"".join(lines[:2]))
        segment.append(b"".join(lines[2:]))
        segment.close()
        assert list(store.read_segment(segment.name)) == lines

    def test_the_journal_grows_with_every_append_and_every_segment_counts(self, store: Store) -> None:
        sizes = [store.journal_size()]
        for _ in range(2):
            segment = store.open_segment()
            for line in (b"a\n", b"bcd\n"):
                segment.append(line)
                sizes.append(store.journal_size())
            segment.close()
        assert sizes == [0, 2, 6, 8, 12]

    def test_closed_segment_takes_no_more(self, store: Store) -> None:
        segment = store.open_segment()
        segment.append(b"a\n")
        segment.close()
        segment.close()
        with pytest.raises(StoreError, match="open_segment"):
            segment.append(b"b\n")
        assert list(store.read_segment(segment.name)) == [b"a\n"]

    @pytest.mark.parametrize("name", ["000009.jsonl", "../study.json", "1.jsonl", ""])
    def test_missing_segment_is_an_error_at_once(self, store: Store, name: str) -> None:
        with pytest.raises(StoreError, match="journal_segments"):
            store.read_segment(name)

    def test_segments_opened_at_the_same_moment_differ(self, store: Store) -> None:
        names: list[str] = []

        def begin(number: int) -> None:
            segment = store.open_segment()
            segment.append(b"%d\n" % number)
            segment.close()
            names.append(segment.name)

        together(8, begin)
        assert sorted(names) == store.journal_segments()
        assert sorted(b"".join(store.read_segment(name)) for name in names) == [b"%d\n" % n for n in range(8)]

    def test_segment_number_with_seven_digits_comes_last(self, store: Store) -> None:
        store.write("journal/999999.jsonl", b"a\n")
        store.write("journal/notes.txt", b"not ours")
        segment = store.open_segment()
        segment.close()
        assert segment.name == "1000000.jsonl"
        assert store.journal_segments() == ["999999.jsonl", "1000000.jsonl"]

    # Lock

    def test_second_driver_is_refused_and_told_who_holds_the_lock(self, store: Store) -> None:
        other: Store = pickle.loads(pickle.dumps(store))
        with store.lock():
            with pytest.raises(StoreLockedError, match=r"process [0-9]+ on .*One study has one driver"), other.lock():
                pass
            segment = store.open_segment()
            segment.append(b"a\n")
            segment.close()
        with other.lock(), pytest.raises(StoreLockedError), store.lock():
            pass
        with store.lock():
            pass

    def test_one_of_many_gets_the_lock(self, store: Store) -> None:
        holding = threading.Barrier(6)
        won: list[int] = []

        def attempt(number: int) -> None:
            other: Store = pickle.loads(pickle.dumps(store))
            try:
                with other.lock():
                    won.append(number)
                    holding.wait()
            except StoreLockedError:
                holding.wait()

        together(6, attempt)
        assert len(won) == 1

    def test_lock_is_given_back_after_an_error(self, store: Store) -> None:
        with pytest.raises(KeyError), store.lock():
            raise KeyError
        with store.lock():
            pass

    # Checkpoints

    def test_committed_checkpoint_is_fetched_as_it_was(self, store: Store) -> None:
        size = save(store, model=b"m" * 1000, folder__optimizer=b"o" * 234, empty=b"")
        assert size == 1234
        assert load(store) == {"model": b"m" * 1000, "folder/optimizer": b"o" * 234, "empty": b""}
        assert store.checkpoints() == [REF]

    def test_empty_folders_and_odd_names_are_kept(self, store: Store) -> None:
        staged = store.stage(REF)
        (staged / "assets" / "none").mkdir(parents=True)
        (staged / "manifest.json").write_bytes(b"the user's own")
        (staged / 'a\'; echo "b" ü *[x]?#%20').write_bytes(b"odd")
        store.commit(REF, staged)
        with store.fetch(REF) as folder:
            assert (folder / "assets" / "none").is_dir()
            assert (folder / "manifest.json").read_bytes() == b"the user's own"
            assert (folder / 'a\'; echo "b" ü *[x]?#%20').read_bytes() == b"odd"
            assert sorted(path.name for path in folder.iterdir()) == sorted(
                ["assets", "manifest.json", 'a\'; echo "b" ü *[x]?#%20']
            )

    def test_checkpoint_without_files_is_a_checkpoint(self, store: Store) -> None:
        assert store.commit(REF, store.stage(REF)) == 0
        assert store.checkpoints() == [REF]
        assert load(store) == {}

    def test_staged_checkpoint_is_not_there(self, store: Store) -> None:
        (store.stage(REF) / "model").write_bytes(b"half")
        assert store.checkpoints() == []
        with pytest.raises(StoreError, match=f"There is no checkpoint {REF}"), store.fetch(REF):
            pass

    def test_each_stage_is_a_new_empty_folder(self, store: Store) -> None:
        first, second = store.stage(REF), store.stage(REF)
        assert first != second
        assert list(first.iterdir()) == list(second.iterdir()) == []

    def test_commit_takes_the_staged_folder(self, store: Store) -> None:
        staged = store.stage(REF)
        store.commit(REF, staged)
        assert not staged.exists()
        with pytest.raises(StoreError, match="committed once"):
            store.commit(REF, staged)

    def test_only_staged_folders_are_committed(self, store: Store, tmp_path: Path) -> None:
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "thesis.txt").write_text("years of work")
        for folder in (tmp_path / "mine", tmp_path / "nowhere"):
            with pytest.raises(StoreError, match="stage"):
                store.commit(REF, folder)
        assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"

    def test_discard_takes_the_staged_folder_and_no_other_one(self, store: Store, tmp_path: Path) -> None:
        staged, mine = store.stage(REF), tmp_path / "mine" / "files"
        (staged / "model").write_bytes(b"half")
        mine.mkdir(parents=True)
        for folder in (staged, staged, mine):
            store.discard(folder)
        assert not staged.parent.exists()
        assert mine.exists()

    def test_link_is_refused_and_the_folder_can_be_committed_without_it(self, store: Store) -> None:
        staged = store.stage(REF)
        (staged / "model").write_bytes(b"m")
        (staged / "latest").symlink_to("model")
        with pytest.raises(StoreError, match=r"latest.*plain files"):
            store.commit(REF, staged)
        assert store.checkpoints() == []
        (staged / "latest").unlink()
        assert store.commit(REF, staged) == 1
        assert load(store) == {"model": b"m"}

    def test_second_commit_replaces_the_first(self, store: Store) -> None:
        save(store, model=b"first", optimizer=b"first")
        for number in range(11):
            save(store, model=b"%d" % number)
            assert load(store) == {"model": b"%d" % number}
        assert store.checkpoints() == [REF]

    def test_reader_of_a_replaced_checkpoint_can_finish(self, store: Store) -> None:
        save(store, model=b"old")
        with store.fetch(REF) as folder:
            save(store, model=b"new")
            assert (folder / "model").read_bytes() == b"old"
        assert load(store) == {"model": b"new"}

    def test_reader_sees_old_or_new_while_a_checkpoint_is_replaced(self, store: Store) -> None:
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
            for number in range(15):
                save(store, a=b"%d" % (number % 10) * 100, b=b"%d" % (number % 10) * 100)
                with loaded:  # a reader can finish although its checkpoint is replaced once, not any number of times
                    known = len(seen)
                    assert loaded.wait_for(lambda known=known: len(seen) > known or reader.done(), timeout=60)  # type: ignore[misc]
            done.set()
            reader.result()
        assert all(files["a"] == files["b"] for files in seen)

    def test_commits_at_the_same_moment_leave_one_whole_checkpoint(self, store: Store) -> None:
        refs = [CheckpointRef(NODE, resource) for resource in (1, 3)]

        def commit(number: int) -> None:
            for ref in refs:
                save(store, ref, a=b"%d" % number, b=b"%d" % number)

        together(6, commit)
        assert store.checkpoints() == refs
        for ref in refs:
            files = load(store, ref)
            assert files["a"] == files["b"]

    def test_commits_and_deletes_at_the_same_moment_agree(self, store: Store) -> None:
        def work(number: int) -> None:
            for resource in range(8):
                ref = CheckpointRef(NODE, resource)
                if number % 2:
                    save(store, ref, model=b"%d" % resource)
                else:
                    store.delete(ref)

        together(4, work)
        for ref in store.checkpoints():
            assert load(store, ref) == {"model": b"%d" % ref.resource}

    def test_deleted_checkpoint_is_gone_and_may_be_deleted_again(self, store: Store) -> None:
        other = CheckpointRef(NODE, 8)
        save(store, model=b"1")
        save(store, model=b"2")
        save(store, other, model=b"3")
        store.delete(REF)
        store.delete(REF)
        store.delete(CheckpointRef(OTHER, 1))
        assert store.checkpoints() == [other]
        assert load(store, other) == {"model": b"3"}
        with pytest.raises(StoreError, match="no checkpoint"), store.fetch(REF):
            pass
        save(store, model=b"4")
        assert load(store) == {"model": b"4"}

    def test_all_checkpoints_are_listed_in_order(self, store: Store) -> None:
        refs = [CheckpointRef(node, resource) for node in (NODE, OTHER) for resource in (1, 9, 81, 100)]
        for ref in reversed(refs):
            save(store, ref, model=b"m")
        assert store.checkpoints() == refs

    @pytest.mark.parametrize("node", ["", "..", "a/b", "a.b", "x" * 65])
    def test_node_that_is_no_key_is_refused(self, store: Store, node: str) -> None:
        ref = CheckpointRef(NodeKey(node), 1)
        with pytest.raises(StoreError, match="node's key"):
            store.stage(ref)
        with pytest.raises(StoreError, match="node's key"), store.fetch(ref):
            pass

    def test_sweep_keeps_what_is_committed(self, store: Store) -> None:
        save(store, model=b"old")
        save(store, model=b"new")
        store.write("study.json", b"{}")
        store.append_log("trial-1", ["a"])
        staged = store.stage(CheckpointRef(OTHER, 1))
        (staged / "model").write_bytes(b"half")
        with store.lock():
            store.sweep()
            store.sweep()
        assert store.list("tmp_is_reserved") == []
        assert load(store) == {"model": b"new"}
        assert store.checkpoints() == [REF]
        assert store.read("study.json") == b"{}"
        assert list(store.read_log("trial-1")) == ["a"]

    def test_commit_after_a_sweep_is_whole_or_refused(self, store: Store) -> None:
        staged = store.stage(REF)
        (staged / "model").write_bytes(b"m")
        store.sweep()
        with suppress(StoreError):
            store.commit(REF, staged)
        assert not store.checkpoints() or load(store) == {"model": b"m"}

    # Logs

    def test_log_gives_back_its_lines(self, store: Store) -> None:
        assert list(store.read_log("trial-7")) == []
        store.append_log("trial-7", [])
        store.append_log("trial-7", ["a", "", "ü \t'\"\r"])
        store.append_log("trial-7", ["b"])
        store.append_log("trial-77", ["other"])
        assert list(store.read_log("trial-7")) == ["a", "", "ü \t'\"\r", "b"]

    def test_log_takes_what_is_not_text(self, store: Store) -> None:
        store.append_log("trial-7", [b"\xff\xfe".decode(errors="surrogateescape"), "next"])
        assert list(store.read_log("trial-7"))[1] == "next"

    @pytest.mark.parametrize("name", ["", "/x", "../up", "a/b", "a\0b", "a\\b", ".hidden", "-x", "ü", "a b", "x" * 101])
    def test_log_names_are_plain_words(self, store: Store, name: str) -> None:
        with pytest.raises(StoreError, match="name of a log"):
            store.append_log(name, ["x"])
        with pytest.raises(StoreError, match="name of a log"):
            store.read_log(name)

    def test_lines_of_many_threads_stay_whole_and_in_order(self, store: Store) -> None:
        def write(number: int) -> None:
            for line in range(20):
                store.append_log("trial-1", [f"{number} {line} {'x' * 200}", f"{number} {line} second"])

        together(4, write)
        lines = list(store.read_log("trial-1"))
        assert len(lines) == 160
        for number in range(4):
            mine = [line.split()[1] for line in lines if line.startswith(f"{number} ") and line.endswith("x")]
            assert mine == [str(line) for line in range(20)]
        assert all(
            first.split()[:2] == second.split()[:2] for first, second in zip(lines[::2], lines[1::2], strict=True)
        )
