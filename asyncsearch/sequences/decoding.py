"""Sequences in params: how they are found, decoded from JSON, and replaced by their values at a time.

Rule: a dictionary anywhere below the top of params whose ``"sequence"`` is a text is a sequence, whatever else it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from asyncsearch.sequences.base_sequence import Sequence
from asyncsearch.sequences.parsing import from_json, is_tagged


def is_sequence(value: Any) -> bool:
    """Return whether a value is a sequence, as an object or in its JSON form."""
    return isinstance(value, Sequence) or is_tagged(value)


def has_sequences(params: Mapping[str, Any]) -> bool:
    """Return whether there is a sequence anywhere in params."""
    return any(map(_has, params.values()))


def present(params: Mapping[str, Any], time: float) -> dict[str, Any]:
    """Return params in which each sequence is replaced by its value at a time, sharing nothing mutable with them.

    Raises:
        SpaceError: a sequence is malformed, or has no finite value there.
    """
    return replaced(params, lambda sequence: sequence.at(time))


def revive(value: Any) -> Any:
    """Return a JSON value in which each sequence is an object."""
    return _replaced(value, lambda sequence: sequence)


def replaced(params: Mapping[str, Any], replace: Callable[[Sequence], Any]) -> dict[str, Any]:
    """Return a copy of params in which each sequence is replaced by the function's result for it."""
    return {name: _replaced(value, replace) for name, value in params.items()}


def _replaced(value: Any, replace: Callable[[Sequence], Any]) -> Any:
    if isinstance(value, Sequence):
        return replace(value)
    if isinstance(value, dict):
        if is_tagged(value):
            return replace(_decoded(msgspec.json.encode(value)))
        return {key: _replaced(item, replace) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, replace) for item in value]
    return value


def _has(value: Any) -> bool:
    if isinstance(value, dict):
        return is_tagged(value) or any(map(_has, value.values()))
    return any(map(_has, value)) if isinstance(value, list) else isinstance(value, Sequence)


@functools.lru_cache(maxsize=4096)
def _decoded(data: bytes) -> Sequence:
    """Decode once: the values of params at a time are computed at each epoch."""
    return from_json(msgspec.json.decode(data))
