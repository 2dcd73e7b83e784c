"""Files below a URL of HDFS, whichever client reaches them: all that can be said in terms of a few calls of a client.

A file is written under another name and renamed, so that a reader sees all of it or none. Errors are put in words: both
clients pass on Java's exceptions, hdfs-native with their stack traces.
"""

from __future__ import annotations

import abc
import contextlib
import logging
import re
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from asyncsearch.errors import ContentAwayError, StoreAwayError, StoreError
from asyncsearch.files.contents import Content
from asyncsearch.store.base_store import FileInfo
from asyncsearch.store.blocks import begun, save_blocks
from asyncsearch.store.disk import next_step
from asyncsearch.store.hdfs.addresses import parse
from asyncsearch.store.passwords import without_password

_RPC = re.compile(r'RPCError\("(?:[\w.]+\.)?([\w$]+)", "(.*)', re.DOTALL)
_OTHER = re.compile(r'(\w+Error)\("(.*)', re.DOTALL)
_STACK = re.compile(r"(?:\\n|\n).*|\"\)$", re.DOTALL)

_AWAY = "See whether the NameNode and the DataNodes run"
NO_CONTENT = "no DataNode has the file's content now"
"""The meaning of a file whose blocks are away, or lost."""
_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        "SafeMode",
        "the NameNode is in safe mode, in which nothing can be written",
        "It leaves it by itself once its DataNodes have reported, or by: hdfs dfsadmin -safemode leave",
    ),
    ("Standby", "no NameNode of the cluster is active", "Wait for the failover, or ask the cluster's administrators"),
    (
        "AccessControl",
        "this user lacks the right to do that",
        "Let an administrator give it, choose another folder, or act as another user: HADOOP_USER_NAME",
    ),
    ("QuotaExceeded", "the quota of that folder is used up", "Free some space there, or choose another folder"),
    (
        "could only be written to 0 of",
        "no DataNode can take a new file now",
        "See whether enough DataNodes run, and have space",
    ),
    (
        "could only be replicated to 0 nodes",  # before Hadoop 3
        "no DataNode can take a new file now",
        "See whether enough DataNodes run, and have space",
    ),
    ("No DataNodes", NO_CONTENT, _AWAY),
    ("All DataNodes failed", NO_CONTENT, _AWAY),
    ("BlocksNotFound", NO_CONTENT, _AWAY),
    ("blocks not found", NO_CONTENT, _AWAY),
    ("BlockMissing", NO_CONTENT, _AWAY),
    ("InvalidPath", "HDFS takes no such name, as one with a ':'", "Choose another name"),
    ("MaxPathComponentLength", "HDFS takes no name as long as that", "Choose a shorter path"),
    ("PathComponentTooLong", "HDFS takes no name as long as that", "Choose a shorter path"),
    ("ParentNotDirectory", "a parent of that path is a file", "A store and all its parents must be folders"),
    ("is a directory", "a folder lies where the store keeps a file", "Move it away, or choose another store"),
    ("LeaseExpired", "another process has closed the file", "Go on in a new one"),
    ("Unexpected BlockUCState", "another process has closed the file", "Go on in a new one"),
    ("Block writer is closed", "the file cannot be written on after an earlier error", "Go on in a new one"),
    ("SASL", "it refuses the authentication of this user", "See whether there is a valid ticket: klist"),
    ("GSSAPI", "it refuses the authentication of this user", "See whether there is a valid ticket: klist"),
    ("Kerberos", "it refuses the authentication of this user", "See whether there is a valid ticket: klist"),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "this machine does not trust the certificate that it shows",
        "Name a file with the certificate of its authority in REQUESTS_CA_BUNDLE, on the driver and on all workers",
    ),
    ("RPC listener disconnected", "the NameNode does not answer", _AWAY),
    ("DataTransferError", "a DataNode has broken off the transfer", _AWAY),
    ("Connection refused", "the NameNode or a DataNode does not answer", _AWAY),
    ("timed out", "the NameNode or a DataNode does not answer in time", _AWAY),
    ("Connection reset", "the NameNode or a DataNode has closed the connection", _AWAY),
    ("Broken pipe", "the NameNode or a DataNode has closed the connection", _AWAY),
    ("early eof", "the NameNode or a DataNode has closed the connection", _AWAY),
    ("unexpected end of file", "the NameNode or a DataNode has closed the connection", _AWAY),
)
"""Part of an answer -> its meaning -> the next step."""
_PASSING = re.compile(
    "safe mode|no NameNode of the cluster is active|take a new file now|answer|transfer|closed the conn"
)


def explain(error: BaseException) -> tuple[str, str]:
    """Return the meaning of an error and the next step, each as the part of a sentence without a stack trace."""
    text = plain(error)  # Java's stack traces contain the names of other errors
    meaning, step = next(((meaning, step) for sign, meaning, step in _KNOWN if sign in text), ("", ""))
    if meaning:
        return meaning, step
    return text, "Check the address, the rights and the connection, then try again"


def passes(meaning: str) -> bool:
    """Return whether what an answer means passes by itself: servers are away, or not ready."""
    return _PASSING.search(meaning) is not None


def plain(error: BaseException) -> str:
    """Return the text of an error, without Java's stack trace and package names."""
    text = str(error)
    found = _RPC.fullmatch(text) or _OTHER.fullmatch(text)
    name, words = (found[1], found[2]) if found else (type(error).__name__, text)
    return f"{name}: {_STACK.sub('', words)}".rstrip(": ")


_log = logging.getLogger(__name__)


class HadoopStatus(NamedTuple):
    """The NameNode's answer about a file or folder."""

    is_folder: bool
    size_bytes: int
    modified_ms: int

    @property
    def info(self) -> FileInfo:
        """Size and age."""
        return FileInfo(self.size_bytes, self.modified_ms / 1000)


class HadoopFiles(abc.ABC):
    """The files below a URL. It holds no connection. A client's calls raise FileNotFoundError and FileExistsError."""

    is_exclusive = True
    shows_unfinished = True
    confirms_writes = True
    removes_at_once = True

    def __init__(self, url: str) -> None:
        self._place = parse(url)
        self.url = f"{self._place.scheme}://{self._place.authority}{self._place.path or '/'}"

    @property
    def shown(self) -> str:
        """The URL for messages."""
        return without_password(self.url)

    def path(self, name: str) -> str:
        """Return the path of a file on HDFS."""
        return f"{self._place.path}/{name}" if name else self._place.path or "/"

    @contextlib.contextmanager
    def explained(self, doing: str, name: str) -> Iterator[None]:
        """Turn any error of HDFS, of the connection or of a local file into a StoreError in words."""
        try:
            yield
        except StoreError:
            raise
        except Exception as error:  # each client has exceptions of its own
            meaning, step = explain(self._named(error))
            where = f"{self.shown}/{name}".rstrip("/")
            _log.debug("Cannot %s %r: %s", doing, where, error)
            # Not `from error`: Java's stack trace would be shown.
            kind = StoreAwayError if passes(meaning) else StoreError
            kind = ContentAwayError if meaning == NO_CONTENT else kind
            raise kind(f"Cannot {doing} {where!r}: {meaning}. {next_step(error, step)}.") from None

    def _named(self, error: Exception) -> Exception:
        """Return an error whose text begins with the name of Java's exception, if there was one."""
        return error

    # Calls of the client, by paths

    @abc.abstractmethod
    def _status(self, path: str) -> HadoopStatus: ...
    @abc.abstractmethod
    def _content(self, path: str) -> bytes: ...
    @abc.abstractmethod
    def _blocks(self, path: str) -> Iterator[bytes]: ...
    @abc.abstractmethod
    def _write_new(self, path: str, data: bytes) -> None: ...
    @abc.abstractmethod
    def _rename(self, source: str, target: str, *, overwrite: bool) -> None: ...
    @abc.abstractmethod
    def _make_folder(self, path: str) -> None: ...
    @abc.abstractmethod
    def _delete(self, path: str, *, recursive: bool = False) -> None: ...
    @abc.abstractmethod
    def _children(self, path: str) -> Mapping[str, HadoopStatus]: ...

    # Files, by their names in the store

    def is_file(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        found = self._looked_at(name)
        return found is not None and not found.is_folder

    def is_written(self, name: str) -> bool:
        """Return whether there is a file of this name that is whole, and not empty."""
        found = self._looked_at(name)
        return found is not None and not found.is_folder and found.size_bytes > 0

    def is_folder(self, name: str) -> bool:
        """Return whether there is a folder of this name."""
        found = self._looked_at(name)
        return found is not None and found.is_folder

    def size(self, name: str) -> int | None:
        """Return the length of a file that the NameNode knows, or None if there is none."""
        found = self._looked_at(name)
        return None if found is None else found.size_bytes

    def _looked_at(self, name: str) -> HadoopStatus | None:
        with self.explained("look at", name), contextlib.suppress(FileNotFoundError):
            return self._status(self.path(name))
        return None

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if there is none."""
        with self.explained("read", name), contextlib.suppress(FileNotFoundError):
            return self._content(self.path(name))
        return None

    def blocks(self, name: str) -> Iterator[bytes]:
        """Yield the part of a file that can be read, in blocks; see ``size`` for the whole of it."""
        with self.explained("read", name):
            yield from self._blocks(self.path(name))

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically: a reader sees the old content or the new."""
        with self.explained("write", name):
            self._move(self._temporary(data), name, overwrite=True)

    @abc.abstractmethod
    def write_in_place(self, name: str, data: bytes) -> None:
        """Write a file under its own name: it is empty until it is whole, and then has all of it if that is small."""

    def create(self, name: str, data: bytes) -> bool:
        """Write a file that does not exist yet; return False if it does. Only one of several writers succeeds.

        It is whole as soon as it has its name: a process that is killed in between leaves no lock without a holder.
        """
        with self.explained("create", name):
            if self._exists(self.path(name)):
                return False
            temporary = self._temporary(data)
            try:
                self._move(temporary, name, overwrite=False)
            except FileExistsError:
                self._delete(temporary)
                return False
            return True

    def download(self, name: str, local: Path) -> Content | None:
        """Copy a file from here to a local one, hashed meanwhile, and return its content; None if there is none."""
        with self.explained("download", name):
            try:
                blocks = begun(self._blocks(self.path(name)))  # first: a missing file leaves no local one
            except FileNotFoundError:
                return None
            return save_blocks(blocks, local)

    def remove(self, name: str) -> None:
        """Remove a file; no error if there is none."""
        with self.explained("remove", name), contextlib.suppress(FileNotFoundError):
            self._delete(self.path(name))

    def remove_tree(self, folder: str) -> None:
        """Remove a folder with its contents; no error if there is none."""
        with self.explained("remove", folder), contextlib.suppress(FileNotFoundError):
            self._delete(self.path(folder), recursive=True)

    def remove_if_empty(self, folder: str) -> None:
        """Remove an empty folder."""
        path = self.path(folder)
        with contextlib.suppress(Exception):  # it is not empty, or gone
            if not self._children(path):
                self._delete(path)

    def list(self, folder: str) -> list[str]:
        """Return the sorted names directly in a folder."""
        with self.explained("list", folder), contextlib.suppress(FileNotFoundError):
            return sorted(self._children(self.path(folder)))
        return []

    def _exists(self, path: str) -> bool:
        with contextlib.suppress(FileNotFoundError):
            self._status(path)
            return True
        return False

    def _temporary(self, data: bytes) -> str:
        """Write a file under a name of its own, and return its path."""
        path = self.path(f"tmp/file-{uuid.uuid4().hex}")
        self._write_new(path, data)
        return path

    def _move(self, source: str, name: str, *, overwrite: bool) -> None:
        """Give a file its name.

        Raises:
            FileExistsError: another one has it.
        """
        target = self.path(name)
        try:
            self._rename(source, target, overwrite=overwrite)
        except FileNotFoundError:  # only now: nearly always the folder is there, and making it is one call more
            self._make_folder(target.rpartition("/")[0] or "/")
            self._rename(source, target, overwrite=overwrite)
