"""Whether a folder may become a store: what lies in it must be nothing, or what a store makes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from asyncsearch.errors import StoreError
from asyncsearch.store import layout
from asyncsearch.store.base_store import Store

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
