"""Strange files in a store: no command waits for a pipe, no reader locks it, only what was committed is loaded."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsearch import Study
from asyncsearch.cli import main
from asyncsearch.errors import CheckpointError, NotAFileError, StoreError, StoreLockedError
from asyncsearch.files.trees import remove_tree, walk
from asyncsearch.ids import CheckpointRef
from asyncsearch.store import LocalStore
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.store.locks.flock import is_held
from asyncsearch.store.opening import resumable
from asyncsearch.store.rescue import is_rescue
from asyncsearch.testing.store_checkpoints import NODE, REF, load, save
from tests.faults.damages import STRANGE, make
from tests.faults.own_files import deep
from tests.shares import seeds

ALARM_S = 120


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    """Let a test that waits for ever fail."""

    def ring(*_: object) -> None:
        raise AssertionError("it hangs")

    former = signal.signal(signal.SIGALRM, ring)
    signal.alarm(ALARM_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, former)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("whole") / "s"
    for total in (2, 3):
        make(root, resume=True).run(total, display="none")
    return root


def shortened(folder: Path) -> None:
    """Remove deep folders, which pytest cannot remove."""
    for entry in [one for one in walk(folder, into=lambda one: one.base != "deep") if one.base == "deep"]:
        remove_tree(folder / entry.name)


COMMANDS = (
    ["show"], ["trials"], ["trials", "--format", "csv"], ["logs", "0"], ["explain", "0"], ["tree"],
    ["clean", "--dry-run"], ["clean"], ["importance"], ["resume", "--num-trials", "4"],
)  # fmt: skip
NAMES = (
    "study.json", "head.json", "bundle.bin", "journal/000002.jsonl", "snapshots/*", "logs/trial-0.log", "lock",
    "driver.json", "checkpoints/*/*/manifest.json", "checkpoints/*/*/files/checkpoint",
)  # fmt: skip


@pytest.mark.parametrize("seed", seeds(len(NAMES), 3))
def test_no_command_hangs_or_has_a_traceback_at_a_strange_file(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    draw, root = random.Random(seed), tmp_path / "s"
    kinds = [kind for kind in STRANGE if kind.__name__ not in ("close_it", "put_a_socket")]
    for command in COMMANDS:
        shutil.copytree(whole, root)
        for path in root.glob(NAMES[seed]):
            draw.choice(kinds)(path, draw)
        with contextlib.suppress(SystemExit):
            main([command[0], str(root), *command[1:]])
        assert "Traceback" not in capsys.readouterr().err
        remove_tree(root)


@pytest.mark.parametrize("kind", STRANGE, ids=lambda kind: kind.__name__)
def test_a_snapshot_that_is_none_is_left_out_and_the_study_goes_on(whole: Path, tmp_path: Path, kind: object) -> None:
    root = tmp_path / "s"
    shutil.copytree(whole, root)
    kind(max((root / "snapshots").iterdir()), random.Random(1))  # type: ignore[operator]
    (root / "snapshots" / "zzz").mkdir()
    Study.resume(root).run(4, display="none")
    assert len(Study.open(root).trials) == 4
    shortened(root)


def stores(tmp_path: Path) -> list[LocalStore | FsspecStore]:
    return [LocalStore(tmp_path / "disk"), FsspecStore(f"file://{tmp_path}/far")]


def test_a_file_beside_a_checkpoints_manifest_is_no_part_of_it(tmp_path: Path) -> None:
    for store in stores(tmp_path):
        store.prepare()
        save(store, model=b"model")
        before = load(store, REF)
        (version,) = (Path(store.url.removeprefix("file://")) / "checkpoints" / NODE).iterdir()
        for name in ("shard-2-of-3", "checkpoint", "deep/er"):
            path = version / "files" / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"more")
        os.mkfifo(version / "files" / "pipe")
        (version / "files" / "link").symlink_to("/etc")
        deep(version / "files")
        with store.fetch(REF) as files:
            assert sorted(entry.name for entry in walk(files)) == sorted(before)
        assert load(store, REF) == before
        store.delete(REF)
        assert store.checkpoints() == []
    shortened(tmp_path)


def test_a_folder_of_a_checkpoint_that_became_a_link_is_damage(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    store.prepare()
    staged = store.stage(REF)
    (staged / "inner").mkdir()
    (staged / "inner" / "file").write_text("x")
    store.commit(REF, staged)
    files = tmp_path / "store" / "checkpoints" / NODE / "81" / "files"
    (files / "inner").rename(tmp_path / "elsewhere")
    (files / "inner").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="folder 'inner' is missing"), store.fetch(REF):
        pass
    (files / "inner").unlink()
    files.rename(tmp_path / "all")
    files.symlink_to(tmp_path / "all")
    with pytest.raises(CheckpointError, match="is damaged"), store.fetch(REF):
        pass


@pytest.mark.parametrize("kind", STRANGE[2:8], ids=lambda kind: kind.__name__)
def test_a_strange_small_file_is_named_as_such_and_waited_for_by_nobody(tmp_path: Path, kind: object) -> None:
    for store in stores(tmp_path):
        store.prepare()
        store.write("notes/a.json", b"{}")
        path = Path(store.url.removeprefix("file://")) / "notes" / "a.json"
        kind(path, random.Random(1))  # type: ignore[operator]
        with pytest.raises(NotAFileError, match=r"[Mm]ove it away|remove the link"):
            store.read("notes/a.json")
        shortened(tmp_path)


def test_a_sweep_goes_on_behind_a_leftover_that_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = LocalStore(tmp_path / "store")
    store.prepare()
    names = [f"checkpoint-{letter}" for letter in "abc"]
    for name in names:
        (tmp_path / "store" / "tmp" / name).mkdir()
        deep(tmp_path / "store" / "tmp" / name)
    rename = os.rename

    def busy(source: Path, target: Path) -> None:
        if source.name == "checkpoint-b":
            raise OSError(16, "Device or resource busy")
        rename(source, target)

    monkeypatch.setattr(os, "rename", busy)
    monkeypatch.setattr(
        "asyncsearch.store.disk.remove_tree", lambda path: path.name != "checkpoint-b" and remove_tree(path)
    )
    store.sweep()
    assert os.listdir(tmp_path / "store" / "tmp") == ["checkpoint-b"]
    assert "cannot be removed" in caplog.text
    monkeypatch.undo()
    store.sweep()
    assert os.listdir(tmp_path / "store" / "tmp") == []


def test_a_folder_of_checkpoints_with_no_nodes_name_ends_no_sweep(tmp_path: Path) -> None:
    for store in stores(tmp_path):
        store.prepare()
        save(store, model=b"model")
        planted = Path(store.url.removeprefix("file://")) / "checkpoints" / "no node" / "3"
        planted.mkdir(parents=True)
        (planted / "manifest.json").write_text("{}")
        store.sweep()
        assert store.checkpoints() == [CheckpointRef(NODE, 81)]
        assert planted.exists()


# The lock


@pytest.mark.parametrize(("folder", "lock"), [(0o755, 0o600), (0o775, 0o660), (0o777, 0o666), (0o700, 0o600)])
@pytest.mark.parametrize("earlier", [None, 0o644])
def test_the_locks_file_is_open_only_to_those_who_may_write_beside_it(
    tmp_path: Path, folder: int, lock: int, earlier: int | None
) -> None:
    root = tmp_path / "store"
    root.mkdir()
    root.chmod(folder)
    if earlier is not None:  # of an earlier version
        (root / "lock").touch(mode=earlier)
    with LocalStore(root).lock():
        assert stat.S_IMODE((root / "lock").stat().st_mode) == lock


READER = """
import fcntl, os, sys
from pathlib import Path
root = Path(sys.argv[1])
held = sys.modules["asyncsearch.store.locks.flock"].is_held
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for flags in (os.O_RDONLY, os.O_RDWR):
    try:
        fcntl.flock(os.open(root / "lock", flags), fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("locked", end=" ")
    except PermissionError:
        print("refused", end=" ")
print(held(root / "lock"))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="root alone can take the rights of another user")
def test_who_may_only_read_a_store_cannot_lock_it_and_sees_who_does() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        os.chmod(place, 0o755)
        root = Path(place) / "store"
        store = LocalStore(root)
        store.prepare()
        command = [sys.executable, "-c", f"import asyncsearch.store.locks.flock\n{READER}", str(root)]
        with store.lock():
            during = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        after = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        with store.lock():
            pass
    assert during == "refused refused True\n"
    assert after == "refused refused False\n"


# Bytes that are no UTF-8


WRONG = [b"\xff\xfe", b'{"host":"\xff","pid":1,"since":""}', b'{"\xc3\x28":1}', b"[" * 100_000, b"", b"null"]


@pytest.mark.parametrize("data", WRONG)
def test_a_lock_with_wrong_bytes_is_held_by_somebody_without_a_name(tmp_path: Path, data: bytes) -> None:
    store = LocalStore(tmp_path / "store")
    store.prepare()
    path = tmp_path / "store" / "lock"
    path.write_bytes(data)
    assert not is_held(path)
    with store.lock():
        path.write_bytes(data)
        with pytest.raises(StoreLockedError, match="has the study"), store.lock():
            pass
    far = FsspecStore(f"file://{tmp_path}/far")
    far.prepare()
    (tmp_path / "far" / "lock").mkdir()
    (tmp_path / "far" / "lock" / "000001.json").write_bytes(data)
    assert not far.is_locked()
    with pytest.raises(StoreLockedError, match="remove"), far.lock():
        pass


@pytest.mark.parametrize("comment", [*WRONG[:4], b'{"rescued_from":"relative"}', b'{"rescued_from":"/a\\u0000b"}'])
def test_a_rescue_file_with_wrong_bytes_is_none(tmp_path: Path, comment: bytes) -> None:
    path = tmp_path / "x.rescued-1.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("study.json", b"{}")
        archive.comment = comment[:60_000]
    assert not is_rescue(path)
    assert resumable(path) == path
    with pytest.raises(StoreError):
        Study.resume(path)
