"""A study's options for sharing, checked before anything is written; the quota; other studies with other parameters.

parameters/<study>.json    the parameter names in one study's keys; it alone writes the file
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from asyncsearch.errors import UsageError
from asyncsearch.ids import NodeKey
from asyncsearch.shared.files import SharedFiles, Written
from asyncsearch.shared.folder import SharedFolder, open_shared
from asyncsearch.shared.holds import study_file
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store
from asyncsearch.store.layout import is_name

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
    """Return whether a study takes over packed training of others, as its user has said.

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


EVALUATIONS = "evals"
"""Folder in a study's store for the searches that ``Study.evaluate`` made, each a study in the shared folder."""


def keep_within(folder: SharedFolder, quota_bytes: int, home: Store) -> list[str]:
    """Delete unneeded checkpoints until the total is within a quota, and return a warning if it stays above.

    If there is no room, the checkpoints that the study's evaluations keep for later ones are deleted too. Afterwards
    the driver is no longer registered in the folder.

    Args:
        folder: the shared folder.
        quota_bytes: maximum total size of its checkpoints, in bytes.
        home: the study's own store.
    """
    try:
        folder.evict(quota_bytes)
        if _total(folder) > quota_bytes and _give_up_evaluations(folder, home):
            folder.evict(quota_bytes)
        total = _total(folder)
    finally:
        folder.close()
    if total <= quota_bytes:
        return []
    words = (
        f"The checkpoints in {folder.store.shown!r} take {total:,} bytes, more than quota_bytes={quota_bytes:,}:"
        " studies that are still there need them. Delete the stores of those that you are done with, or raise "
        "Sharing(quota_bytes=...)."
    )
    return [words]


def _total(folder: SharedFolder) -> int:
    return sum(folder.usage().values())


def _give_up_evaluations(folder: SharedFolder, home: Store) -> bool:
    """Release the holds of evaluations that are not running; return whether there were any."""
    inner = f"{home.shown}/"
    held = [hold.study for hold in folder.current_holds().holds.values()]
    names = [study for study in held if study.startswith(f"{inner}{EVALUATIONS}/")]
    inside = {name: name.removeprefix(inner) for name in names}
    over = [name for name, place in inside.items() if is_name(place) and not home.child(place).is_locked()]
    for name in over:
        folder.let_go(name)
    return bool(over)


_SHOWN = 3


class Names(Written, frozen=True, kw_only=True):
    """The parameters of one study."""

    study: str
    root: NodeKey
    """Key of the version, the seed and the trainable: only studies of one root can share."""
    names: list[str]


_NAMES = msgspec.json.Decoder(Names)


def compare_names(files: SharedFiles, study: str, root: NodeKey, names: Iterable[str]) -> list[str]:
    """Write a study's parameters, and return warnings about studies of the same root with other parameters.

    Args:
        files: the files of the shared folder.
        study: unique name of the study.
        root: key of the parts that all its trials have in common.
        names: dotted names of its parameters, including declared defaults.
    """
    mine = sorted(names)
    own_file = study_file("parameters", study)
    files.write(own_file, Names(study=study, root=root, names=mine))
    warnings = []
    for entry in files.store.list("parameters"):
        name = f"parameters/{entry}"
        other = files.read(name, _NAMES) if name != own_file else None
        if other is None or study_file("parameters", other.study) != name:
            continue
        if other.root == root and other.names != mine:
            warnings.append(_describe(other, set(mine)))
    if len(warnings) > _SHOWN:
        warnings[_SHOWN:] = [f"{len(warnings) - _SHOWN} more studies of this version have other parameters."]
    return warnings


def _describe(other: Names, mine: set[str]) -> str:
    lacking = ", ".join(map(repr, sorted(set(other.names) - mine)))
    extra = ", ".join(map(repr, sorted(mine - set(other.names))))
    advice = [f"declare here what it has, Sharing(defaults={{{lacking.split(', ')[0]}: ...}})"] if lacking else []
    advice += [f"declare there what this one has, {extra}"] if extra else []
    return (
        f"The study at {other.study!r} has the same version and other parameters, so the two share nothing: to share, "
        f"{' and '.join(advice)}, with the values that the trainable takes without them."
    )
