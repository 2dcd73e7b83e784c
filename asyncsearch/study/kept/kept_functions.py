"""The functions of time of a study's trials, kept in its store: an edit does not change a trial that has begun."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from asyncsearch.errors import StoreError
from asyncsearch.journal.opening import KeptFunction, StudyFile
from asyncsearch.launch.bundle import pack
from asyncsearch.old_pickles import loads
from asyncsearch.sequences.custom_sequences import Versions
from asyncsearch.store.base_store import Store

THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class Earlier(NamedTuple):
    """The functions that are not in the space any more."""

    versions: dict[tuple[str, str], Callable[..., Any]]
    notes: list[str]
    """Sentences about what cannot be had as it was."""


def read_earlier(store: Store, study: StudyFile | None, present: Versions) -> Earlier:
    """Return the functions that earlier runs of a study had, as they were then, without those that are present.

    Raises:
        StoreError: one of them is missing, was changed by another program, or cannot be unpickled here.
    """
    earlier = Earlier({}, [])
    here = {name: function for (name, _), function in present.items()}
    for kept in () if study is None else study.functions:
        if (kept.name, kept.code) in present:
            continue
        if kept.python == THIS_PYTHON:
            earlier.versions[kept.name, kept.code] = _read(store, kept)
        elif kept.name in here:
            # Bytecode of another Python cannot be compared or run.
            earlier.versions[kept.name, kept.code] = here[kept.name]
            earlier.notes.append(
                f"The function {kept.name!r} was last run by Python {kept.python}, and this is {THIS_PYTHON}: whether "
                "it was edited cannot be told, and the trials that began with it go on with it as it is now."
            )
    return earlier


def keep(store: Store, before: Iterable[KeptFunction], present: Versions) -> list[KeptFunction]:
    """Write the functions that are not in the store yet, and return all of them, those that are present last."""
    listed = {(kept.name, kept.code): kept for kept in before}
    found = [kept for key, kept in listed.items() if key not in present]
    for (name, code), function in present.items():
        kept = listed.get((name, code))
        if kept is None:
            data = pack(function).data
            store.write(_file(code), data)
            kept = KeptFunction(name, code, hashlib.sha256(data).hexdigest(), THIS_PYTHON)
        found.append(kept)
    return found


def edit_notes(before: Iterable[KeptFunction], present: Versions) -> list[str]:
    """Return a sentence for each function that the last run had with another code, or without a note of it."""
    last = {kept.name: kept for kept in before}
    notes = []
    for name, code in present:
        if name not in last:
            notes.append(
                f"Whether the function {name!r} was edited since the study was last run cannot be told, since it was "
                "not kept then: the trials that began with it go on with it as it is now."
            )
        elif last[name].code != code and last[name].python == THIS_PYTHON:
            notes.append(
                f"The function {name!r} has been edited since the study was last run: trials that began with it go on "
                "with it as it was, and new ones use it as it is now."
            )
    return notes


def _file(code: str) -> str:
    return f"functions/{code}.bin"


def _read(store: Store, kept: KeptFunction) -> Callable[..., Any]:
    place = f"{store.shown}/{_file(kept.code)}"
    advice = f"trials that began with the function {kept.name!r} as it was need it. Restore it, or use a new store=."
    data = store.read(_file(kept.code))
    if data is None or hashlib.sha256(data).hexdigest() != kept.sha256:
        what = "is missing" if data is None else "is not the file that the study wrote, so it is not unpickled"
        raise StoreError(f"{place} {what}: {advice}")
    try:
        function: Callable[..., Any] = loads(data)
    except Exception as error:
        raise StoreError(f"{place} cannot be unpickled here ({type(error).__name__}: {error}): {advice}") from error
    return function
