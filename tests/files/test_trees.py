"""Folders of any depth are walked, copied and removed; links lead nowhere, and what cannot be removed stops nothing."""

from __future__ import annotations

import os
import random
import resource
from pathlib import Path

import pytest

from asyncsearch.files.trees import TargetError, copy_tree, remove_tree, size_bytes, walk
from tests.faults.own_files import DOINGS, deep
from tests.faults.rights import obeying_them

LEVELS = 3000
"""Beyond Python's limit of calls, and the path beyond the system's limit."""


def contents(folder: Path) -> dict[str, bytes | None]:
    return {entry.name: (folder / entry.name).read_bytes() if entry.is_file else None for entry in walk(folder)}


def random_tree(folder: Path, draw: random.Random, left: int = 30) -> None:
    """Make files, folders, pipes and links, which lead out of the folder and round in it."""
    folders = [folder]
    folder.mkdir()
    for number in range(left):
        place = draw.choice(folders) / f"{draw.choice('abcé')}{number}"
        kind = draw.choice(("file", "folder", "folder", "pipe", "link"))
        if kind == "file":
            place.write_bytes(draw.randbytes(draw.randrange(100)))
        elif kind == "folder":
            place.mkdir()
            folders.append(place)
        elif kind == "pipe":
            os.mkfifo(place)
        else:
            place.symlink_to(draw.choice(("/etc", "..", ".", "nothing", str(folder))))


@pytest.mark.parametrize("seed", range(8))
def test_a_walk_finds_all_entries_and_a_copy_has_plain_files_and_folders(tmp_path: Path, seed: int) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    random_tree(source, random.Random(seed))
    expected = {
        str((Path(top) / name).relative_to(source)) for top, dirs, files in os.walk(source) for name in dirs + files
    }
    found = list(walk(source))
    assert {entry.name for entry in found} == expected
    assert [entry.name.split("/") for entry in found] == sorted(name.split("/") for name in expected)
    copy_tree(source, target)
    plain = {entry.name for entry in found if entry.is_file or entry.is_folder}
    assert contents(target) == {name: data for name, data in contents(source).items() if name in plain}
    assert size_bytes(target) == size_bytes(source)
    assert remove_tree(source)
    assert not source.exists()
    assert Path("/etc/passwd").exists()


def test_a_folder_deeper_than_any_path_is_walked_with_few_descriptors(tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()
    deep(folder, LEVELS)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 10, before[1]))
    try:
        assert sum(1 for _ in walk(folder)) == LEVELS
        assert remove_tree(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert not folder.exists()


def test_a_removal_goes_on_behind_what_it_cannot_remove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    for name in ("a", "b", "c"):
        (folder / name / "inner").mkdir(parents=True)
        (folder / name / "inner" / "file").write_text("x")
    unlink = os.unlink

    def busy(path: str, *, dir_fd: int | None = None) -> None:
        if os.readlink(f"/proc/self/fd/{dir_fd}").endswith("b/inner"):
            raise OSError(16, "Device or resource busy")
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", busy)
    assert not remove_tree(folder)
    assert {entry.name for entry in walk(folder)} == {"b", "b/inner", "b/inner/file"}
    monkeypatch.undo()
    assert remove_tree(folder)


@pytest.mark.parametrize("doing", ["closed_file", "closed_folder", "locked_folder", "folder_closed", "deep"])
def test_what_its_owner_has_closed_to_himself_is_removed(tmp_path: Path, doing: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()

    def close_and_remove() -> str:
        DOINGS[doing](folder)
        return f"{remove_tree(folder)}"

    assert obeying_them(close_and_remove) == "True"
    assert not folder.exists()


def test_a_link_that_replaces_a_folder_is_not_followed_and_removed_alone(tmp_path: Path) -> None:
    theirs, link = tmp_path / "theirs", tmp_path / "link"
    theirs.mkdir()
    (theirs / "file").write_text("theirs")
    link.symlink_to(theirs)
    with pytest.raises(OSError, match="Not a directory"):
        list(walk(link))
    with pytest.raises(TargetError):
        copy_tree(theirs, link)
    assert remove_tree(link)
    assert (theirs / "file").read_text() == "theirs"


def test_a_folder_moved_during_its_walk_leads_the_walk_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "folder" / "a" / "b").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    found: list[str] = []

    def walked() -> None:
        for entry in walk(tmp_path / "folder"):
            found.append(entry.name)
            if entry.name == "a/b":
                (tmp_path / "folder" / "a").rename(tmp_path / "elsewhere" / "a")

    with pytest.raises(OSError, match="moved"):
        walked()
    assert found == ["a", "a/b"]


def test_a_file_that_grows_while_it_is_copied_is_copied_as_long_as_it_was(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "log").write_bytes(b"x" * 100)
    read, looks = os.fstat, []

    def grows(descriptor: int) -> os.stat_result:
        status = read(descriptor)
        looks.append(status.st_size)
        if looks.count(100) == 2:  # the first look is whether it is a plain file
            with open(source / "log", "ab") as file:
                file.write(b"y" * 100)
        return status

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fstat", grows)
        copy_tree(source, target)
    assert (target / "log").read_bytes() == b"x" * 100
