"""Opening a store from a path, a URL or a rescue file; and whether a folder may become one."""

from __future__ import annotations

import itertools
import logging
import os
import re
import sys
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from asyncsearch.errors import StoreError, UsageError
from asyncsearch.other_libraries.names import DATABASE
from asyncsearch.store import layout
from asyncsearch.store.base_store import Store
from asyncsearch.store.disk import explained
from asyncsearch.store.local.store import LocalStore
from asyncsearch.store.passwords import without_password, without_password_of
from asyncsearch.store.rescue import is_rescue, origin_of, read_rescue

_log = logging.getLogger(__name__)
Place = TypeVar("Place", bound=str | Path | Store)
_REPLACED = ("head.json",)
"""Files that may differ: those of the rescue file are the ones that belong to its journal."""
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*"
_BUILT_IN = ("file", "local")
_EXTRAS = {"s3": "s3", "s3a": "s3", "az": "azure", "abfs": "azure", "abfss": "azure"}
_factories: dict[str, Callable[[str], Store]] = {}


def register_store(scheme: str, factory: Callable[[str], Store]) -> None:
    """Let ``open_store`` return stores of your own for URLs that begin with ``scheme://``, in this process.

    Args:
        scheme: such as ``"sqlite"``; it overrides a scheme of fsspec and replaces one registered before.
        factory: called with the whole URL.

    Raises:
        UsageError: the text is not a scheme, or it is the scheme of local folders.
    """
    if re.fullmatch(_SCHEME, scheme) is None or scheme.lower() in _BUILT_IN:
        raise UsageError(
            f"register_store({scheme!r}, ...): a scheme is letters, digits, '+', '-' and '.', begins with a letter,"
            f" and is not {' or '.join(map(repr, _BUILT_IN))}. Choose another one, such as 'sqlite' for 'sqlite://...'."
        )
    _factories[scheme.lower()] = factory


def open_store(url: str | Path | Store) -> Store:
    """Return the store at a path or URL, without writing anything; it need not exist yet.

    Args:
        url: A path (``~`` is the home folder, relative paths begin at the working directory, no other character is
            special), or a URL: ``file:///studies/digits`` (percent-encoded like every URL), ``hdfs://...``,
            ``s3://...``, any other that fsspec knows, or one registered with ``register_store``;
            an open store is returned as it is.

    Raises:
        UsageError: ``url`` is neither a path nor a URL.
        StoreError: a store cannot be there, or a package for it is missing.
    """
    if isinstance(url, Store):
        return url
    if not isinstance(url, str | os.PathLike):
        raise UsageError(f"{url!r} is no place of a study: write a path or a URL, such as 'studies/digits'.")
    text = os.fspath(url)
    protocol, colon, rest = text.partition(":")
    if re.match(rf"{_SCHEME}(::.*)?://", text):
        if rest.startswith(":"):
            raise StoreError(
                f"A store cannot be a chain of URLs as {without_password(text)!r} is. Name the inner one alone."
            )
        if protocol.lower() in _factories:
            return _factories[protocol.lower()](text)
        if protocol.lower() in ("hdfs", "viewfs"):
            return _open_hdfs(text)
        if protocol.lower() in ("webhdfs", "swebhdfs"):
            return _open_webhdfs(text)
        if protocol.lower() not in _BUILT_IN:
            return _open_fsspec(text, protocol.lower())
        return _open_local(_path_of(text, rest.removeprefix("//")))
    if colon and protocol == "file":
        return _open_local(_path_of(text, rest))
    if colon and rest.startswith("/") and protocol.lower() in _protocols():
        shown = without_password_of(f"{protocol}:/{rest}", text)
        known = {"hdfs": f"'hdfs://{rest}', on another cluster 'hdfs://HOST/...'", "dbfs": f"'/dbfs{rest}'"}
        written = known.get(protocol.lower(), f"'{protocol}://...'")
        raise StoreError(
            f"{shown!r} looks like a URL without its '//', as Hadoop writes some and pathlib.Path makes it of others."
            f" Write as text: {written}; or, if it is a folder, './{shown}'."
        )
    return _open_local(text)


def _path_of(url: str, rest: str) -> str:
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost") or not slash:
        raise StoreError(
            f"{without_password(url)!r} names another machine, or no absolute path. Write it with three slashes:"
            " 'file:///...'."
        )
    return urllib.parse.unquote(slash + path)


def _open_local(path: str) -> LocalStore:
    if not path.strip() or "\0" in path:
        raise StoreError(f"{path!r} is no path: a store needs the name of a folder, such as './studies/digits'.")
    try:
        path.encode()
        os.fsencode(path)
    except UnicodeEncodeError as error:
        if (encoding := sys.getfilesystemencoding()) != "utf-8":
            raise StoreError(
                f"The path {path!a} cannot be used, as this Python reads and writes names of files as {encoding}: start"
                " it with PYTHONUTF8=1, or with LC_ALL=C.UTF-8."
            ) from error
        shown = os.fsencode(path)
        raise StoreError(f"The path {shown!r} is not UTF-8, in which a study writes its names. Rename it.") from error
    try:
        folder = Path(path).expanduser()
    except RuntimeError as error:
        raise StoreError(f"Cannot find the home folder in {path!r}: {error} Write the path in full.") from error
    with explained("look for a store", folder):
        is_file = folder.exists() and not folder.is_dir()
        leads_nowhere = folder.is_symlink() and not folder.exists()
    if leads_nowhere:
        raise StoreError(
            f"{str(folder)!r} is a link to {os.readlink(folder)!r}, where nothing is: a disk may not be mounted. Mount"
            " it, make that folder, or choose another path."
        )
    if is_file and is_rescue(folder):
        raise StoreError(
            f"{str(folder)!r} is a rescue file. Go on with its study: Study.resume({str(folder)!r}), which writes it"
            f" back to {str(origin_of(folder))!r}."
        )
    if is_file:
        raise StoreError(f"{str(folder)!r} is a file, and a store is a folder. Choose another path, or move it away.")
    return LocalStore(folder)


def _open_hdfs(url: str) -> Store:
    if find_spec("hdfs_native") is None:
        raise StoreError(
            "A package for HDFS is missing: hdfs-native. Install 'asyncsearch[hdfs]' with pip on the driver and on all"
            " workers, or choose another store."
        )
    from asyncsearch.store.hdfs.store import HdfsStore

    return HdfsStore(url)


def _open_webhdfs(url: str) -> Store:
    if find_spec("hdfs") is None:
        raise StoreError(
            "A package for WebHDFS is missing: hdfs. Install 'asyncsearch[webhdfs]' with pip on the driver and on all"
            " workers, or choose another store."
        )
    from asyncsearch.store.webhdfs import WebHdfsStore

    return WebHdfsStore(url)


def _open_fsspec(url: str, protocol: str) -> Store:
    import fsspec

    from asyncsearch.store.far.protocols import READ_ONLY

    if protocol not in _protocols():
        if DATABASE.match(url):
            raise StoreError(
                f"The store's URL begins with '{protocol}://', which is a database, and a study is kept in a folder:"
                " write store='studies/digits'."
            )
        raise StoreError(
            f"The store's URL begins with '{protocol}://', which neither asyncsearch nor fsspec knows. Write a path,"
            " such as store='studies/digits', or a URL such as hdfs://..., s3://..., gs://... or abfs://...; or install"
            " the fsspec file system that registers it; or register a store of your own:"
            f" asyncsearch.store.register_store({protocol!r}, ...)."
        )
    if protocol in READ_ONLY:
        raise StoreError(
            f"The store's URL begins with '{protocol}://', by which files can only be read. Write a path, such as"
            " store='studies/digits', or a URL such as hdfs://..., s3://..., gs://... or abfs://...; an S3 service of"
            " your own is s3://... too, with its address in AWS_ENDPOINT_URL."
        )
    try:
        fsspec.get_filesystem_class(protocol)
    except (ImportError, ValueError, AttributeError) as error:
        extra = _EXTRAS.get(protocol)
        what = "it" if extra is None else f"'asyncsearch[{extra}]'"
        raise StoreError(
            f"A package for '{protocol}://' is missing: {error}. Install {what} with pip on the driver and on all"
            " workers, or choose another store."
        ) from error
    from asyncsearch.store.far.store import FsspecStore

    return FsspecStore(url)


def _protocols() -> list[str]:
    import fsspec

    return sorted(fsspec.available_protocols())


def resumable(place: Place) -> Place | Path:
    """Return the place of a study to go on with: for a rescue file the folder of its store, written anew.

    Raises:
        StoreError: the file is damaged, or something else lies in that folder by now.
        StoreLockedError: a driver has the study there open.
    """
    if isinstance(place, Store) or not is_rescue(Path(place).expanduser()):
        return place
    return restore(Path(place).expanduser())


def restore(file: Path) -> Path:
    """Write the files in a rescue file back to where they were; see ``resumable``."""
    root, files = origin_of(file), read_rescue(file)
    store = LocalStore(root)
    store.prepare()
    with store.lock():
        _require_place(store, files, file)
        for name in sorted(files, key=lambda name: name == "study.json"):  # last: what has one is a study
            store.write(name, files[name])
    _log.warning("The study in %s was written back to %s, and goes on there.", file, root)
    return root


def _require_place(store: LocalStore, files: Mapping[str, bytes], file: Path) -> None:
    """Check that nothing is overwritten but earlier content of the same files."""
    own = set(store.journal_segments()) - {name.removeprefix("journal/") for name in files}
    other = next((f"journal/{name}" for name in sorted(own)), None)
    for name, data in files.items():
        found = None if name in _REPLACED else store.read(name)
        if found is not None and not data.startswith(found):
            other = name
    if other is not None:
        place = store.url
        raise StoreError(
            f"{str(file)!r} cannot be written back to {place!r}: {other!r} there is another one. Unpack it into a"
            f" folder of its own: `python -m zipfile -e {file} {place}-rescued`, then Study.resume('{place}-rescued')."
        )


_OF_THE_SYSTEM = (
    ".DS_Store",
    "Thumbs.db",
    "desktop.ini",
    "lost+found",
    ".snapshot",
    ".gitignore",
    ".gitkeep",
    ".ipynb_checkpoints",
)
_REMOVED_BY_NFS = ".nfs"
_SHOWN = 3


def require_own_folder(store: Store, name: str) -> None:
    """Check that nothing but a store's own files lies where a study is to begin.

    A store removes what its study does not need: of another program's ``checkpoints``, nothing might stay.

    Args:
        store: where no ``study.json`` is.
        name: what the folder might be called that the message proposes, such as ``train``.

    Raises:
        StoreError: something else lies there; the message names it.
    """
    names = store.entries()
    found = foreign(names)
    if not found or store.journal_segments():
        return
    more = f" and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
    raise StoreError(
        f"{store.shown!r} holds no study and is not empty: {', '.join(map(repr, found[:_SHOWN]))}{more}. A study needs"
        f" a folder of its own, in which it may remove files: write store={_below(store.shown, name, names)!r}."
    )


def foreign(names: Iterable[str]) -> list[str]:
    """Return the names at the top of a folder that no store has made, in order.

    ``checkpoints`` is one of them without ``journal``: a store makes that one first, and other programs write
    ``checkpoints`` too.
    """
    names = sorted(set(names))
    of_a_store = {*layout.OWN, *_OF_THE_SYSTEM} - (set() if "journal" in names else {"checkpoints"})
    return [name for name in names if name not in of_a_store and not name.startswith(_REMOVED_BY_NFS)]


def _below(place: str, name: str, taken: Iterable[str]) -> str:
    """Return a folder that is not there yet in another one."""
    word = name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "study"
    candidates = itertools.chain([word], (f"{word}-{number}" for number in itertools.count(2)))
    return f"{place.rstrip('/')}/{next(one for one in candidates if one not in set(taken))}"
