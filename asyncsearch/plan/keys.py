"""Keys: the name of a checkpoint in the store is the hash of everything that determines it.

A node's key is the hash of its parent's key, the resource at which it begins and the canonical form of the
hyper-parameters in it. The root's parent is the study's root key: code, data, seed, constants.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from asyncsearch.ids import NodeKey, PathStep
from asyncsearch.sequences import segments

_TAG = '"sequence":"'


def canonical(value: Any) -> str:
    """Return the one text of a JSON value: keys sorted, numbers as the shortest decimals; 1, 1.0 and True differ."""
    return msgspec.json.encode(value, order="sorted").decode()


def digest(*parts: str) -> NodeKey:
    """Return the key of a sequence of texts; no two different sequences are joined to the same bytes."""
    text = "".join([f"{len(part)}:{part}" for part in parts])
    return NodeKey(hashlib.blake2b(text.encode(), digest_size=16).hexdigest())


def root_key(study: str, seed: int, version: str = "") -> NodeKey:
    """Return the key of all that the trials of a study have in common."""
    return digest("root", study, str(seed), version)


def shared_root(trainable: str, seed: int, version: str) -> NodeKey:
    """Return the key of all that the trials of all studies of one version have in common."""
    return digest("shared", trainable, version, str(seed))


def path(root: NodeKey, params: Mapping[str, Any], horizon: int, salt: str = "") -> tuple[PathStep, ...]:
    """Return the nodes in which a configuration trains from 0 to ``horizon``, the first at 0, starts ascending.

    A node begins where a piece of some hyper-parameter does, at a start below ``horizon``, and nowhere else: work
    may be cut anywhere without a change of keys. Two configurations share [0, s) exactly if their nodes that start
    below s are the same. Without sequences there is one node, and the key costs one digest.

    Args:
        root: Key of all that the configurations have in common.
        params: Params of the trial; sequences in their JSON form.
        horizon: Resource up to which the trial will train at most, at least 1; ``UNBOUNDED``: not known.
        salt: If not empty, part of every key: nothing is shared with paths of another salt.

    Raises:
        SpaceError: a sequence in ``params`` is malformed.
    """
    text = canonical(params)
    salts = (salt,) if salt else ()
    if _TAG not in text:
        return (PathStep(0, digest(root, "0", text, *salts)),)
    steps: list[PathStep] = []
    parent = root
    for start, pieces in segments(params, horizon):
        parent = digest(parent, str(start), pieces, *salts)
        steps.append(PathStep(start, parent))
    return tuple(steps)


def joined(steps: Sequence[PathStep], other: Sequence[PathStep]) -> tuple[PathStep, ...]:
    """Return equal steps; the objects of those that two paths have in common are the other path's, kept once."""
    common = 0
    while common < min(len(steps), len(other)) and steps[common] == other[common]:
        common += 1
    return (*other[:common], *steps[common:])
