"""FsspecStore: the laws of every store, and the laws of chunks."""

from __future__ import annotations

import pickle
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.utils import infer_storage_options

from asyncsearch.errors import StoreError
from asyncsearch.files.contents import Content, content_of
from asyncsearch.ids import CheckpointRef
from asyncsearch.store import open_store
from asyncsearch.store.far.remote import Remote
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.testing.store_checkpoints import NODE, REF, load, save
from asyncsearch.testing.stores import StoreTests
from tests.store.object_search import files_of

pytestmark = pytest.mark.usefixtures("staged_inside")


@pytest.fixture
def memory() -> Iterator[FsspecStore]:
    store = FsspecStore(f'memory://studies/{uuid.uuid4().hex}/a\'; echo foo "b" ü')
    store.prepare()
    yield store
    with suppress(FileNotFoundError):
        fsspec.filesystem("memory").rm(store.url, recursive=True)


class TestMemory(StoreTests):
    def make(self) -> FsspecStore:
        return FsspecStore(f'memory://studies/{uuid.uuid4().hex}/a\'; echo foo "b" ü')


class TestFile(StoreTests):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.root = tmp_path

    def make(self) -> FsspecStore:
        return FsspecStore(f'file://{self.root}/{uuid.uuid4().hex}/a\'; echo foo "b" ü')


class ParsingFileSystem(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Takes each path for a URL, as the file systems of WebHDFS, SFTP and others do."""

    protocol = "parsing"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(infer_storage_options(path)["path"]).rstrip("/")


class TestParsing(StoreTests):
    @pytest.fixture(autouse=True)
    def registered(self) -> None:
        fsspec.register_implementation("parsing", ParsingFileSystem, clobber=True)

    def make(self) -> FsspecStore:
        return FsspecStore(f"parsing://host/{uuid.uuid4().hex}/a;b?c#d%20e")


@pytest.fixture
def store(fsspec_store: FsspecStore) -> FsspecStore:
    return fsspec_store


def test_pickle_holds_url_and_options_only(memory: FsspecStore) -> None:
    with memory.lock():
        memory.open_segment()
        other = pickle.loads(pickle.dumps(memory))
    assert other._lock is None
    assert "MemoryFileSystem" not in str(pickle.dumps(memory))


def test_password_in_a_url_is_not_shown() -> None:
    store = FsspecStore("sftp://me:secret@host/studies")
    assert repr(store) == "FsspecStore('sftp://me:***@host/studies')"
    assert store.url == "sftp://me:secret@host/studies"


@pytest.mark.parametrize(
    "write", [lambda store: store.append_log("trial-0", ["a"]), lambda store: store.open_segment()]
)
def test_a_file_system_that_does_not_answer_keeps_no_other_store_waiting(
    monkeypatch: pytest.MonkeyPatch, write: Callable[[FsspecStore], object]
) -> None:
    silent, other = [FsspecStore(f"memory://{uuid.uuid4().hex}") for _ in range(2)]
    reached, answers, in_time = threading.Event(), threading.Event(), list[bool]()
    with_folder = Remote._with_folder

    def hang(remote: Remote, path: str, action: Callable[[], object]) -> object:
        if remote is silent._remote:
            reached.set()
            in_time.append(answers.wait(300))
        return with_folder(remote, path, action)

    monkeypatch.setattr(Remote, "_with_folder", hang)
    thread = threading.Thread(target=write, args=(silent,))
    thread.start()
    assert reached.wait(300)
    write(other)
    answers.set()
    thread.join()
    assert in_time
    assert all(in_time)


def test_all_who_reach_a_file_have_the_same_lock_and_it_goes_with_them() -> None:
    name = uuid.uuid4().hex
    one, other = Remote(f"memory://{name}", {}), Remote(f"memory:///{name}/", {})
    lock = one.guard("a")
    assert other.guard("a") is lock
    assert other.guard("b") is not lock
    gone = weakref.ref(lock)
    del lock
    assert gone() is None


def test_a_file_system_that_cannot_be_reached_is_an_error_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(protocol: str) -> object:
        raise ConnectionRefusedError("refused")

    store = FsspecStore("memory://x")
    monkeypatch.setattr(fsspec, "get_filesystem_class", refuse)
    with pytest.raises(StoreError, match=r"Cannot connect at 'memory://x'.*refused"):
        store.append_log("trial-0", ["a"])


def test_append_makes_one_file_on_disk_and_numbered_objects_in_memory(store: FsspecStore) -> None:
    segment = store.open_segment()
    segment.append(b"a\n")
    segment.append(b"b\n")
    chunks = [f"journal/000001.jsonl/{number:09d}" for number in range(3)]
    assert files_of(store) == (chunks if store.url.startswith("memory") else ["journal/000001.jsonl"])
    assert list(store.read_segment("000001.jsonl")) == [b"a\n", b"b\n"]


def test_torn_last_line_is_yielded_as_it_is(store: FsspecStore) -> None:
    store._remote.put("journal/000001.jsonl", b"a\nb\nhalf")
    assert list(store.read_segment("000001.jsonl")) == [b"a\n", b"b\n", b"half"]


def test_segment_is_closed_after_a_failed_append(store: FsspecStore, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = store.open_segment()

    def fail(*args: Any) -> None:
        raise StoreError("no connection")

    with monkeypatch.context() as patch:
        patch.setattr(store._remote, "append", fail)
        patch.setattr(store._remote, "put", fail)
        with pytest.raises(StoreError, match="no connection"):
            segment.append(b"a\n")
    with pytest.raises(StoreError, match="open_segment"):
        segment.append(b"a\n")


@pytest.mark.parametrize("step", range(5))
def test_commit_that_dies_leaves_the_old_checkpoint(
    store: FsspecStore, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(store, a=b"old", b=b"old")
    before = files_of(store)
    steps = iter(range(100))

    class Killed(BaseException):
        pass

    def dying(action: Any) -> Any:
        def call(*args: Any) -> Any:
            if next(steps) == step:
                raise Killed
            return action(*args)

        return call

    with monkeypatch.context() as patch:
        for name in ("list", "upload", "find", "write"):
            patch.setattr(store._remote, name, dying(getattr(store._remote, name)))
        with pytest.raises(Killed):
            save(store, a=b"new", b=b"new")
    assert load(store) == {"a": b"old", "b": b"old"}
    assert store.checkpoints() == [REF]
    store.sweep()
    assert files_of(store) == before


def test_upload_that_arrived_short_is_not_committed(store: FsspecStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def upload(local: Path, name: str) -> Content:
        store._remote.put(name, b"sho")
        return content_of(local)

    monkeypatch.setattr(store._remote, "upload", upload)
    with pytest.raises(StoreError, match="files are missing, or have other sizes"):
        save(store, model=b"short")
    assert store.checkpoints() == []


@pytest.mark.parametrize("has_rival", [True, False])
def test_a_version_replaced_before_its_writer_knows_is_no_error(
    has_rival: bool, store: FsspecStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(name: str, data: bytes) -> None:
        monkeypatch.undo()
        if has_rival:
            store._remote.write_in_place(name, data)
            save(store, model=b"rival")
        raise StoreError("File does not exist")

    monkeypatch.setattr(store._remote, "write_in_place", write)
    with nullcontext() if has_rival else pytest.raises(StoreError, match="does not exist"):
        assert save(store, model=b"mine") == 4
    assert [load(store, ref) for ref in store.checkpoints()] == [{"model": b"rival"}] * has_rival


def test_replaced_and_deleted_checkpoints_leave_no_file(store: FsspecStore) -> None:
    save(store, model=b"1")
    save(store, model=b"2")
    assert len(files_of(store)) == 2
    store.delete(REF)
    assert files_of(store) == []


@pytest.mark.parametrize(
    ("data", "words"), [(b"other", "content of file 'model'"), (b"longer than it was", "has 18 bytes, and had 5")]
)
def test_damaged_file_is_named(store: FsspecStore, data: bytes, words: str) -> None:
    save(store, model=b"model", good=b"good")
    (name,) = [name for name in files_of(store) if name.endswith("files/model")]
    store._remote.put(name, data)
    with pytest.raises(StoreError, match=words), store.fetch(REF):
        pass
    store._remote.remove(name)
    with pytest.raises(StoreError, match="file 'model' has vanished"), store.fetch(REF):
        pass


@pytest.mark.parametrize("copies_itself", [False, True])
def test_a_changed_byte_of_a_large_file_is_found_whoever_copies_it(
    store: FsspecStore, monkeypatch: pytest.MonkeyPatch, copies_itself: bool
) -> None:
    monkeypatch.setattr(Remote, "_has_own_copy", copies_itself)
    model = b"m" * (3 << 20)
    save(store, model=model)
    assert load(store) == {"model": model}
    (name,) = [name for name in files_of(store) if name.endswith("files/model")]
    store._remote.put(name, model[:-1] + b"x")
    with pytest.raises(StoreError, match="content of file 'model' has changed"), store.fetch(REF):
        pass


def test_a_transfer_that_damaged_a_file_is_repeated(store: FsspecStore, monkeypatch: pytest.MonkeyPatch) -> None:
    save(store, model=b"model")
    download, transfers = store._remote.download, []

    def damage_once(name: str, local: Path) -> Content | None:
        transfers.append(name)
        found = download(name, local)
        return Content(5, "0" * 32) if len(transfers) == 1 else found

    monkeypatch.setattr(store._remote, "download", damage_once)
    assert load(store) == {"model": b"model"}
    assert len(transfers) == 2


def test_a_listing_that_saw_neither_old_nor_new_version_is_taken_again(
    store: FsspecStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(store, model=b"model")
    names_in, listings = store._remote.list, []

    def miss_once(folder: str) -> list[str]:
        listings.append(folder)
        return [] if len(listings) == 1 else names_in(folder)

    monkeypatch.setattr(store._remote, "list", miss_once)
    assert load(store) == {"model": b"model"}
    assert len(listings) == 2


def test_an_attempt_that_is_not_committed_hides_no_older_version(store: FsspecStore) -> None:
    save(store, model=b"model")
    store._remote.put(f"checkpoints/{NODE}/{REF.resource}.7.{'0' * 32}/files/model", b"half")
    assert load(store) == {"model": b"model"}
    save(store, model=b"newer")
    assert load(store) == {"model": b"newer"}


def test_other_checkpoints_of_a_node_cost_no_call(store: FsspecStore, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str]] = []

    def counted(name: str, call: Callable[[str], Any]) -> Callable[[str], Any]:
        def count(where: str) -> Any:
            calls.append((name, where))
            return call(where)

        return count

    for name in ("list", "find", "is_file", "read"):
        monkeypatch.setattr(store._remote, name, counted(name, getattr(store._remote, name)))
    counts = []
    for resource in range(1, 9):
        calls.clear()
        save(store, CheckpointRef(NODE, resource), model=b"model")
        load(store, CheckpointRef(NODE, resource))
        assert all(where.endswith("/files") for name, where in calls if name == "find"), "a node's folder is not walked"
        counts.append(len(calls))
    assert len(set(counts)) == 1, counts


@pytest.mark.parametrize("data", [b"{", b'{"files":[{"name":"../x","size_bytes":1,"blake2b":""}],"folders":[]}'])
def test_damaged_manifest_is_named(store: FsspecStore, data: bytes) -> None:
    save(store, model=b"model")
    (name,) = [name for name in files_of(store) if name.endswith("manifest.json")]
    store._remote.put(name, data)
    with pytest.raises(StoreError, match=r"its manifest\.json has become unreadable"), store.fetch(REF):
        pass


# What cannot be a store


def test_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file, and a store is a folder"):
        FsspecStore(f"file://{tmp_path}/file").prepare()


def test_unwritable_place_is_refused_by_prepare(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"Cannot write at '.*/file/below/tmp/file-"):
        FsspecStore(f"file://{tmp_path}/file/below").prepare()


def test_read_only_protocol_is_refused_by_prepare(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="Cannot write"):
        FsspecStore("data://x").prepare()


def test_open_store_gives_a_store_that_can_be_used() -> None:
    store = open_store(f"memory://{uuid.uuid4().hex}/digits")
    assert isinstance(store, FsspecStore)
    store.prepare()
    save(store, model=b"1")
    assert load(open_store(store.url)) == {"model": b"1"}


class MovingObjects(MemoryFileSystem):  # type: ignore[misc]
    """An object store that can move objects, as Google's."""

    protocol = "gs"
    root_marker = ""

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        raise AssertionError("an object appears complete: it is written where it belongs")


def test_on_an_object_store_that_can_move_a_small_file_is_written_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fsspec.get_filesystem_class", lambda _: MovingObjects)
    remote = Remote(f"gs://studies/{uuid.uuid4().hex}", {})
    remote.write("study.json", b"{}")
    assert remote.read("study.json") == b"{}"
    assert list(remote.find("")) == ["study.json"]
