"""A rescue file written back to where its store was, so that the study goes on there."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from asyncsearch.errors import StoreError
from asyncsearch.store.base_store import Store
from asyncsearch.store.local.store import LocalStore
from asyncsearch.store.rescue import is_rescue, origin_of, read_rescue

Place = TypeVar("Place", bound=str | Path | Store)
_REPLACED = ("head.json",)
"""Files that may differ: those of the rescue file are the ones that belong to its journal."""

logger = logging.getLogger(__name__)


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
    logger.warning("The study in %s was written back to %s, and goes on there.", file, root)
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
