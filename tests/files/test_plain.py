"""Only plain files are opened; whatever else lies in the place of one is told at once and never waited for."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.files.paths import plain_part
from asyncsearch.files.plain import NotPlainError, is_folder, made_folder, open_file, read_file, read_text
from asyncsearch.store.layout import is_name


def pipe(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("root alone makes devices")


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(path))


def link_to_a_file(path: Path) -> None:
    path.with_name("target").write_text("theirs")
    path.symlink_to("target")


def link_to_nothing(path: Path) -> None:
    path.symlink_to("nothing")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


OTHERS = [pipe, folder, device, a_socket, link_to_a_file, link_to_nothing, link_to_itself]
FLAGS = [os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND | os.O_CREAT, os.O_RDWR | os.O_CREAT]


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("make", OTHERS)
def test_what_is_no_plain_file_is_neither_opened_nor_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], flags: int
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "file"
    make(path)
    before = sorted(os.listdir(tmp_path)), os.lstat(path).st_mode
    with pytest.raises(OSError, match=r"in the place of a file|symbolic") as refused:
        os.close(open_file(path, flags))
    assert isinstance(refused.value, NotPlainError) or refused.value.errno == errno.ELOOP
    assert (sorted(os.listdir(tmp_path)), os.lstat(path).st_mode) == before
    with pytest.raises(OSError, match=r"in the place of a file|symbolic"):
        read_file(path)


def test_a_file_that_becomes_a_pipe_before_it_is_opened_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, path = tmp_path / "plain", tmp_path / "pipe"
    plain.write_text("x")
    os.mkfifo(path)
    looked = plain.lstat()
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", lambda *_args, **_options: looked)
        with pytest.raises(NotPlainError):
            read_file(path)


def test_a_file_with_more_holes_than_memory_is_told_as_too_long(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with open(path, "wb") as file:
        file.truncate(4 << 40)
    with pytest.raises(OSError, match="too long"):
        read_file(path)


@given(data=st.binary(max_size=50))
def test_a_plain_file_reads_as_it_is(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "plain"
    path.write_bytes(data)
    assert read_file(path) == data
    assert read_text(path, errors="replace") == data.decode(errors="replace")


def test_a_folder_below_another_is_made_without_following_a_link(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    root = tmp_path / "root"
    assert made_folder(root, "a", "b").is_dir()
    (root / "link").symlink_to(theirs)
    with pytest.raises(OSError, match="symbolic"):
        made_folder(root, "link", "b")
    assert list(theirs.iterdir()) == []
    assert not is_folder(root / "link")


@given(name=st.text(st.characters(codec="utf-8"), max_size=300), other=st.text(max_size=300))
def test_a_name_is_one_part_of_a_path_and_names_that_differ_stay_apart(name: str, other: str) -> None:
    part = plain_part(name)
    assert is_name(part, ())
    assert "/" not in part
    assert part not in (".", "..")
    assert not part.startswith((".", "~", "-"))
    assert len(part.encode()) <= 255
    assert name == other or not other.isprintable() or part != plain_part(other)


@pytest.mark.parametrize("name", ["digits", "my study", "résumé", "a.b-c_2", "研究"])
def test_a_name_that_is_one_part_stays_as_it_is(name: str) -> None:
    assert plain_part(name) == name


@pytest.mark.parametrize(
    "name", ["../../x", "/etc/passwd", "a/b", "..", ".", "", "a\0b", "x" * 1000, "~root", "-rf", ".x"]
)
def test_a_name_that_is_a_path_leads_nowhere_else(name: str) -> None:
    assert (Path("/home") / plain_part(name)).resolve().parent == Path("/home")
