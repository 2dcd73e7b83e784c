"""A study's options for sharing, checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from asyncsearch.errors import UsageError
from asyncsearch.shared.folder import open_shared
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store

_TAG = "sequence"


def open_folder(
    store: Store, shared: str | Path | Literal[False] | None, version: str, *, share: bool, trainable: object
) -> Store | None:
    """Return the folder that a study shares with others, or None if it does not share.

    Raises:
        UsageError: a folder was named but nothing can be shared in it, or the trainable has no name to share under.
    """
    is_named = shared is not None and shared is not False
    if is_named and not version:
        raise UsageError(
            f"Sharing(shared={str(shared)!r}) and no version: studies share what they train where you have named it, "
            "version='model-1/data-1'; leave it out to share with nobody."
        )
    if is_named and not share:
        raise UsageError(
            f"Sharing(shared={str(shared)!r}) and share=False: trials that take nothing from each other take nothing "
            "from another study either. Leave one of the two out."
        )
    if not version or not share or shared is False:
        return None
    if not hasattr(trainable, "__qualname__"):
        raise UsageError(
            f"version={version!r} shares with studies of the same trainable, and {trainable!r} has no name: write it "
            "as `def train(trial): ...`, or share with nobody, sharing=Sharing(shared=False)."
        )
    return open_shared(store, shared)


def trusts(shared: Store | None, trusted: str | Path | None) -> bool:
    """Return whether the user has named the shared folder as one whose checkpoints may be unpickled.

    Raises:
        UsageError: another folder is named, or the study shares nothing.
    """
    if trusted is None:
        return False
    named = open_store(trusted)
    if shared is None:
        raise UsageError(
            f"Sharing(trusted={named.shown!r}), and the study shares with nobody: leave it out; from its own store a "
            "study reads its checkpoints as it is."
        )
    if named.shown != shared.shown:
        raise UsageError(
            f"Sharing(trusted={named.shown!r}) is not the folder that the study shares: write "
            f"Sharing(trusted={shared.shown!r}) if you trust all who may write there."
        )
    return True


def require_shared(shared: Store | None, *, is_tolerant: bool) -> bool:
    """Return whether a study takes over what others trained in packs, as its user has said.

    Raises:
        UsageError: it takes over nothing of others.
    """
    if is_tolerant and shared is None:
        raise UsageError(
            "Sharing(tolerant=True), and the study shares with nobody: leave it out, or name what it shares by "
            "version='model-1/data-1'."
        )
    return is_tolerant


def read_defaults(defaults: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return declared defaults as plain JSON values.

    Raises:
        UsageError: ``defaults`` is not a mapping of names to JSON values.
    """
    try:
        plain = msgspec.json.decode(msgspec.json.encode(dict(defaults or {})))
        assert isinstance(plain, dict)
    except (TypeError, ValueError, AssertionError) as error:
        raise UsageError(
            f"defaults={defaults!r} must be a mapping of parameters to JSON values, such as {{'momentum': 0.9}}:"
            f" {error}"
        ) from error
    return plain


def default_names(defaults: Mapping[str, Any], group: str = "") -> frozenset[str]:
    """Return the dotted names of declared defaults."""
    found: set[str] = set()
    for name, value in defaults.items():
        if isinstance(value, dict) and _TAG not in value:
            found |= default_names(value, f"{group}{name}.")
        else:
            found.add(f"{group}{name}")
    return frozenset(found)
