"""Event files, to which only what is new is appended.

A file is a sequence of records, and those of one run are always the same in the same order: how many a file holds
says which are missing. A record that was cut off, because its writer was killed, is written again.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

from asyncsearch.files.plain import made_folder, open_file

_HEADER = struct.Struct("<Q")
_CHECKSUM_BYTES = 4
_ENDING = ".asyncsearch"


def update(folder: Path, began_s: float, beginning: object, records: Sequence[bytes]) -> None:
    """Write the records of a run into its file in a folder, or those of them that it lacks.

    Args:
        folder: of the run; made if need be.
        began_s: seconds since 1970, for the name of the file.
        beginning: what the first records are made of; if it has changed, the file is written anew.
        records: all of them.

    Raises:
        OSError: they cannot be written.
    """
    digest = hashlib.blake2b(repr(beginning).encode(), digest_size=6).hexdigest()
    name = f"events.out.tfevents.{int(began_s)}.{digest}{_ENDING}"
    made_folder(folder.parent, folder.name)
    for former in folder.glob(f"events.out.tfevents.*{_ENDING}"):
        if former.name != name:
            former.unlink()
    with os.fdopen(open_file(folder / name, os.O_RDWR | os.O_CREAT), "r+b") as file:
        _append(file, records)


def begun_in(folder: Path) -> set[int]:
    """Return when the runs began whose files ``update`` has written into a folder, in whole seconds since 1970."""
    times = (path.name.split(".")[3] for path in folder.glob(f"events.out.tfevents.*{_ENDING}"))
    return {int(one) for one in times if one.isdecimal()}


def _append(file: BinaryIO, records: Sequence[bytes]) -> None:
    count, size = _whole_records(file)
    if count < len(records):
        file.truncate(size)
        file.seek(size)
        write = import_module("tensorboard.summary.writer.record_writer").RecordWriter(file).write
        for record in records[count:]:
            write(record)


def _whole_records(file: BinaryIO) -> tuple[int, int]:
    """Return how many whole records a file holds, and the bytes that they take."""
    size, count, end = file.seek(0, 2), 0, 0
    while (after := _end_of_record(file, end)) <= size:
        count, end = count + 1, after
    return count, end


def _end_of_record(file: BinaryIO, start: int) -> int:
    file.seek(start)
    header = file.read(_HEADER.size)
    length: int = _HEADER.unpack(header)[0] if len(header) == _HEADER.size else 0
    return start + _HEADER.size + 2 * _CHECKSUM_BYTES + length
