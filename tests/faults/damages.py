"""Random damages to files, each a function of its seed alone, and what must hold for a store that has one.

A failing seed is repeated by its name: ``pytest tests/faults/test_journal_damage.py -k 'seed17]'``.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from asyncsearch import FIFO, Checkpoints, Study, uniform
from asyncsearch.errors import StoreError
from asyncsearch.journal.format import Record
from asyncsearch.journal.opening import read_records
from asyncsearch.store import open_store
from tests.faults.own_files import deep

Place = TypeVar("Place", Path, str)


def train(trial: Any) -> None:
    for epoch in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
        trial.report(loss=trial.params["x"] / epoch)


def make(root: Path | str, **options: Any) -> Study:
    settings: dict[str, Any] = {"space": {"x": uniform(0.0, 1.0)}, "scheduler": FIFO(max_resource=3)}
    settings["checkpoints"] = Checkpoints(at_rungs=True)  # so that each trial has one that may be damaged
    return Study(train, metric="loss", mode="min", backend="inline", store=root, **(settings | options))


class Read(NamedTuple):
    """All that a store says of its study."""

    records: list[Record]
    trials: list[Any]
    description: tuple[Any, ...]


def read(root: Path | str) -> Read:
    """Read a store as a user does."""
    study = Study.open(root)
    trials = [(t.id, t.state, t.resource, t.value, str(t.params), t.checkpoint) for t in study.trials]
    config = study.config
    described = (study.name, config.metric, config.mode, config.seed, config.version, config.share, str(study.shared))
    return Read(list(read_records(open_store(root))), trials, described)


def require_same_or_refused(root: Place, whole: Read, reading: Callable[[Place], Read] = read) -> bool:
    """Check that a damaged store reads as the whole one, or is refused in words; return whether it was refused."""
    try:
        found = reading(root)
    except StoreError as error:
        words = str(error)
        assert words.endswith("."), words
        assert len(words.split()) > 8, words
        return True
    assert found == whole, "a damaged store reads as another study"
    return False


def copy_of(whole: Path, root: Path) -> Path:
    """Copy a store without its checkpoints and logs."""
    shutil.copytree(whole, root, ignore=shutil.ignore_patterns("checkpoints", "logs", "tmp", "lock"))
    return root


# Damages of one file


def flip_bits(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def change_a_digit(data: bytes, draw: random.Random) -> bytes:
    at = draw.choice([place for place, byte in enumerate(data) if byte in b"0123456789"])
    digit = draw.choice([digit for digit in b"0123456789" if digit != data[at]])
    return data[:at] + bytes([digit]) + data[at + 1 :]


def overwrite(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data))
    size = min(draw.choice((1, 8, 64, 512)), len(data) - at)
    return data[:at] + (bytes(size) if draw.random() < 0.5 else draw.randbytes(size)) + data[at + size :]


def cut_off(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data))]


def leave_out(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data))
    return data[:at] + data[at + draw.choice((1, 7, 100)) :]


def insert(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) + 1)
    return data[:at] + draw.randbytes(draw.choice((1, 7, 100))) + data[at:]


def append(data: bytes, draw: random.Random) -> bytes:
    return data + draw.choice((draw.randbytes(40), bytes(512), data[: draw.randrange(len(data))]))


BYTES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flip_bits,
    change_a_digit,
    overwrite,
    cut_off,
    leave_out,
    insert,
    append,
)


# Something else in the place of a file, or a file that says something else


def write_no_utf8(path: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    at = draw.randrange(len(data) + 1)
    data[at:at] = draw.choice((b"\xff", b"\xc3\x28", b"\xed\xa0\x80", draw.randbytes(3) + b"\xfe"))
    path.write_bytes(data)


def nest_deeply(path: Path, draw: random.Random) -> None:
    path.write_bytes(b'{"a":' + draw.choice((b"[", b'{"a":')) * 100_000)


def put_a_pipe(path: Path, _draw: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def put_a_socket(path: Path, _draw: random.Random) -> None:
    path.unlink()
    here = os.getcwd()
    os.chdir(path.parent)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


def put_a_device(path: Path, _draw: random.Random) -> None:
    path.unlink()
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # never ends
    except PermissionError:  # root alone makes devices
        os.mkfifo(path)


def put_a_folder(path: Path, draw: random.Random) -> None:
    path.unlink()
    path.mkdir()
    if draw.random() < 0.5:
        (path / "file.json").write_text("{}")


def put_a_deep_folder(path: Path, _draw: random.Random) -> None:
    path.unlink()
    path.mkdir()
    deep(path)


def put_a_link(path: Path, draw: random.Random) -> None:
    """Put a link to the file itself, moved away, or to another one: neither is followed."""
    target = path.with_name(f".{path.name}")
    path.rename(target)
    path.symlink_to(draw.choice((target, Path("/dev/zero"), Path("/etc"), path)))


def close_it(path: Path, _draw: random.Random) -> None:
    path.chmod(0)


STRANGE: tuple[Callable[[Path, random.Random], None], ...] = (
    write_no_utf8,
    nest_deeply,
    put_a_pipe,
    put_a_socket,
    put_a_device,
    put_a_folder,
    put_a_deep_folder,
    put_a_link,
    close_it,
)


def put_strange(path: Path, draw: random.Random) -> str:
    """Put something strange in the place of a file, and return its name."""
    kind = draw.choice(STRANGE)
    kind(path, draw)
    return f"{kind.__name__} in the place of {path.name}"


# Damages of lines


def _lines(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


def lose_last_lines(data: bytes, draw: random.Random) -> bytes:
    lines = _lines(data)
    return b"".join(lines[: draw.randrange(len(lines))])


def lose_a_line(data: bytes, draw: random.Random) -> bytes:
    lines = _lines(data)
    del lines[draw.randrange(len(lines))]
    return b"".join(lines)


def repeat_a_line(data: bytes, draw: random.Random) -> bytes:
    lines = _lines(data)
    lines.insert(draw.randrange(len(lines) + 1), draw.choice(lines))
    return b"".join(lines)


def swap_lines(data: bytes, draw: random.Random) -> bytes:
    lines = _lines(data)
    one, other = draw.sample(range(len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def change_the_last_end(data: bytes, draw: random.Random) -> bytes:
    return data[:-1] + draw.choice((b"", b"\0", b"\x0b", b"\x8a", b" "))


LINES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    lose_last_lines,
    lose_a_line,
    repeat_a_line,
    swap_lines,
    change_the_last_end,
)


# Damages of the folder journal


def lose_segments(folder: Path, draw: random.Random) -> None:
    for path in draw.sample(sorted(folder.iterdir()), draw.choice((1, 1, 2))):
        path.unlink()


def lose_the_last_segment(folder: Path, draw: random.Random) -> None:
    max(folder.iterdir()).unlink()


def swap_segments(folder: Path, draw: random.Random) -> None:
    one, other = draw.sample(sorted(folder.iterdir()), 2)
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)


def repeat_a_segment(folder: Path, draw: random.Random) -> None:
    names = sorted(folder.iterdir())
    shutil.copy(draw.choice(names), folder / f"{len(names) + 1:06d}.jsonl")


def put_a_segment_in_the_place_of_another(folder: Path, draw: random.Random) -> None:
    one, other = draw.sample(sorted(folder.iterdir()), 2)
    shutil.copy(one, other)


def empty_a_segment(folder: Path, draw: random.Random) -> None:
    draw.choice(sorted(folder.iterdir())).write_bytes(b"")


def lose_all(folder: Path, draw: random.Random) -> None:
    shutil.rmtree(folder)


SEGMENTS: tuple[Callable[[Path, random.Random], None], ...] = (
    lose_segments,
    lose_the_last_segment,
    swap_segments,
    repeat_a_segment,
    put_a_segment_in_the_place_of_another,
    empty_a_segment,
    lose_all,
)


def damage_file(path: Path, draw: random.Random, kinds: tuple[Callable[[bytes, random.Random], bytes], ...]) -> str:
    """Damage a file, and return how."""
    kind = draw.choice(kinds)
    path.write_bytes(kind(path.read_bytes(), draw))
    return f"{kind.__name__} of {path.name}"


def damage_journal(folder: Path, draw: random.Random) -> str:
    """Damage the journal of a store, and return how."""
    if draw.random() < 0.2:
        kind = draw.choice(SEGMENTS)
        kind(folder, draw)
        return kind.__name__
    if draw.random() < 0.15:
        return put_strange(draw.choice(sorted(folder.iterdir())), draw)
    return damage_file(draw.choice(sorted(folder.iterdir())), draw, BYTES if draw.random() < 0.7 else LINES)
