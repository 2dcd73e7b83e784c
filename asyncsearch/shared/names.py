"""The parameters of the studies of one version, to warn about studies that cannot share.

parameters/<study>.json    the parameter names in one study's keys; it alone writes the file
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from asyncsearch.ids import NodeKey
from asyncsearch.shared.files import SharedFiles, Written
from asyncsearch.shared.holds import study_file

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
