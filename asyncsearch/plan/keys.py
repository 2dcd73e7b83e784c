"""Keys: the name under which a checkpoint stands is the hash of everything that determines it.

A node's key is the hash of its parent's key, the resource at which it begins and the canonical form of the
hyper-parameters in it. The root's parent is the study's root key: code, data, seed, constants.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from asyncsearch.ids import NodeKey, TrialId


def canonical(value: Any) -> str:
    """Return the one text of a JSON value: keys sorted, numbers as the shortest decimals; 1, 1.0 and True differ."""
    return msgspec.json.encode(value, order="sorted").decode()


def digest(*parts: str) -> NodeKey:
    """Return the key of a sequence of texts; no two different sequences are joined to the same bytes."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return NodeKey(hashlib.blake2b(text.encode(), digest_size=16).hexdigest())


def root_key(study: str, seed: int, version: str = "") -> NodeKey:
    """Return the key of all that the trials of a study have in common."""
    return digest("root", study, str(seed), version)


def trial_node(root: NodeKey, params: dict[str, Any], trial: TrialId) -> NodeKey:
    """Return the key of the one node of a trial that shares nothing with others.

    The trial's number is part of it: two trials with equal parameters train apart, so neither may delete the
    other's checkpoints.
    """
    return digest(root, "0", canonical(params), str(trial))

UNBOUNDED = 2**62


def path(root, params, horizon, salt=""):
    from asyncsearch.ids import PathStep
    return (PathStep(0, digest(root, "0", canonical(params), salt)),)
