"""Names inside a store, built and parsed here for every backend. This module accesses no files.

A checkpoint that is committed a second time becomes a second version beside the first, and the highest one counts:
``81``, then ``81.2``, ``81.3``. Where a folder cannot appear atomically, the name also contains the token of the
attempt that wrote it: ``81.1-3f0c...``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from asyncsearch.errors import CheckpointError, StoreError
from asyncsearch.ids import CheckpointRef, NodeKey

FOLDERS = ("journal", "snapshots", "checkpoints", "logs", "tmp")
RESERVED = ("lock", "tmp")
OWN = (
    *FOLDERS,
    "functions",
    "evals",
    "lock",
    "remote",
    "driver.json",
    "study.json",
    "bundle.bin",
    "head.json",
    "warm_start.json",
)
"""The names at the top of the store of a study."""
MANIFEST = "manifest.json"
FILES = "files"

LOG_SEGMENTS = "logs/segments"

_LOG_SEGMENT = re.compile(r"(\d{6,})\.log")
_JOINED = re.compile(r"(\d{9})-(\d{9})")
_LOG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_NODE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SEGMENT = re.compile(r"(\d{6,})\.jsonl")
_STAGED = re.compile(r"checkpoint-[A-Za-z0-9_-]+")
_TEMPORARY = re.compile(r"(?:append|checkpoint|file|probe|removed)-.+")
_VERSION = re.compile(r"(\d+)(?:\.(\d+)(?:-([0-9a-z]+))?)?")


class Version(NamedTuple):
    """One committed version of a checkpoint; the greatest version of a resource counts."""

    resource: int
    number: int = 1
    token: str = ""

    def __str__(self) -> str:
        if self.token:
            return f"{self.resource}.{self.number}-{self.token}"
        return f"{self.resource}" if self.number == 1 else f"{self.resource}.{self.number}"


def is_name(name: str, reserved: Sequence[str] = RESERVED) -> bool:
    """Return whether a name may be that of a file or folder inside a store."""
    parts = name.split("/")
    leads_out = any(part in ("", ".", "..") for part in parts)
    return not leads_out and "\0" not in name and "\\" not in name and parts[0] not in reserved


def check_name(name: str, reserved: Sequence[str] = RESERVED) -> str:
    """Return the name of a file or folder inside a store.

    Raises:
        StoreError: it leads out of the store, or to a reserved name.
    """
    if not is_name(name, reserved):
        raise StoreError(
            f"{name!r} cannot be a name inside a store: it must be relative, without '..', empty parts and backslashes,"
            f" and must not begin with {' or '.join(map(repr, RESERVED))}. Choose another name."
        )
    return name


def log_file(name: str) -> str:
    """Return the path of the log of one trial, ``logs/trial-7.log``, as earlier versions wrote it.

    Raises:
        StoreError: the name is not a plain word.
    """
    if _LOG.fullmatch(name) is None:
        raise StoreError(
            f"{name!r} cannot be the name of a log: it must be 1 to 100 letters, digits, '-', '_' and '.', and must not"
            " begin with '.' or '-'. Name the log after its trial or worker, as in 'trial-7'."
        )
    return f"logs/{name}.log"


def log_segment(number: int) -> str:
    """Return the path of a segment of the logs of all trials, ``logs/segments/000001.log``."""
    return f"{LOG_SEGMENTS}/{number:06d}.log"


def log_segment_numbers(names: Iterable[str]) -> list[int]:
    """Return the numbers of the segments among the names in their folder, in order."""
    return sorted(int(match[1]) for match in map(_LOG_SEGMENT.fullmatch, names) if match)


def segment_name(number: int) -> str:
    """Return the name of a journal segment, ``000001.jsonl``."""
    return f"{number:06d}.jsonl"


def joined_name(names: Sequence[str]) -> str:
    """Return the name of the object that stands for some numbered ones of a segment, ``000000001-000000256``."""
    return f"{names[0]}-{names[-1]}"


def not_joined(names: Sequence[str]) -> list[str]:
    """Return the objects of a segment to read, in their order, without those that a joined one stands for."""
    joined = [found.groups() for name in names if (found := _JOINED.fullmatch(name))]
    return sorted(name for name in names if "-" in name or not any(first <= name <= last for first, last in joined))


def segment_numbers(names: Iterable[str]) -> list[int]:
    """Return the numbers of the segments among some names, in order."""
    return sorted(int(match.group(1)) for match in map(_SEGMENT.fullmatch, names) if match)


def check_segment(name: str) -> str:
    """Return the name of a journal segment.

    Raises:
        StoreError: it is not one.
    """
    if _SEGMENT.fullmatch(name) is None:
        raise StoreError(f"{name!r} is not a journal segment: take a name from journal_segments(), as '000001.jsonl'.")
    return name


def node_folder(checkpoint: CheckpointRef) -> str:
    """Return the folder that holds the checkpoints of a node.

    Raises:
        StoreError: the node's key cannot be the name of a folder.
    """
    if _NODE.fullmatch(checkpoint.node) is None or checkpoint.resource < 0:
        raise StoreError(
            f"Checkpoint {checkpoint} cannot be stored: a node's key is 1 to 64 letters, digits, '-' and '_', and a"
            " resource is not negative. Make keys with asyncsearch.plan.keys."
        )
    return f"checkpoints/{checkpoint.node}"


def is_node(name: str) -> bool:
    """Return whether a folder of checkpoints has a name that the key of a node can be; others were planted."""
    return _NODE.fullmatch(name) is not None


def is_temporary(name: str) -> bool:
    """Return whether something in ``tmp`` has a name that stores give, so that it may be removed."""
    return _TEMPORARY.fullmatch(name) is not None


def check_place(name: str) -> str:
    """Return the name of a staged folder in ``tmp``.

    Raises:
        CheckpointError: it is not one.
    """
    if _STAGED.fullmatch(name) is None:
        raise CheckpointError(f"{name!r} is no place for shards: take it from shard_place().")
    return name


def check_version(name: str, resource: int) -> str:
    """Return the name of a version of a resource, with a token.

    Raises:
        CheckpointError: it is not one.
    """
    if [(one.resource, bool(one.token)) for one in parse_versions([name])] != [(resource, True)]:
        raise CheckpointError(f"{name!r} is no place for shards: take it from shard_place().")
    return name


def parse_versions(names: Iterable[str]) -> list[Version]:
    """Return the versions among the names in a node's folder, in order; other names are not ours."""
    matches = (_VERSION.fullmatch(name) for name in names)
    return sorted(Version(int(m[1]), int(m[2] or 1), m[3] or "") for m in matches if m)


def versions_of(resource: int, names: Iterable[str]) -> list[Version]:
    """Return the versions of one resource among the names in a node's folder, in order.

    Names of others, of which there may be a thousand, are not taken apart.
    """
    name = str(resource)
    start = f"{name}."
    return parse_versions(one for one in names if one.startswith(start) or one == name)


def references(node: str, versions: Iterable[Version]) -> set[CheckpointRef]:
    """Return the checkpoints that have a version."""
    return {CheckpointRef(NodeKey(node), version.resource) for version in versions}
