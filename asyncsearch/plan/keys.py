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
    """Return the canonical text of a JSON value: keys sorted, shortest decimals for numbers; 1, 1.0 and True differ."""
    return msgspec.json.encode(value, order="sorted").decode()


def digest(*parts: str) -> NodeKey:
    """Return the key of a sequence of texts; different sequences never give the same bytes to hash."""
    text = "".join([f"{len(part)}:{part}" for part in parts])
    return NodeKey(hashlib.blake2b(text.encode(), digest_size=16).hexdigest())


def root_key(study: str, seed: int, version: str = "") -> NodeKey:
    """Return the key of the properties that all trials of a study share."""
    return digest("root", study, str(seed), version)


def shared_root(trainable: str, seed: int, version: str) -> NodeKey:
    """Return the key of the properties that the trials of all studies of one version share."""
    return digest("shared", trainable, version, str(seed))


def path(root: NodeKey, params: Mapping[str, Any], horizon: int, salt: str = "") -> tuple[PathStep, ...]:
    """Return the nodes in which a configuration trains from 0 to ``horizon``, the first at 0, starts ascending.

    A node begins only where a piece of some hyper-parameter begins, at a start below ``horizon``: work may be cut
    anywhere without a change of keys. Two configurations share [0, s) exactly if their nodes that start below s are
    the same. Without sequences there is one node, and the key costs one digest.

    Args:
        root: Key of the properties that all configurations share.
        params: Params of the trial; sequences in their JSON form.
        horizon: Highest resource to which the trial may train, from 1; ``UNBOUNDED``: unknown.
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
    """Return equal steps, with the objects of the other path for the common steps, so that memory holds them once."""
    common = 0
    while common < min(len(steps), len(other)) and steps[common] == other[common]:
        common += 1
    return (*other[:common], *steps[common:])
