"""Sequences in params: found, decoded from JSON, replaced by their values at a time, cut where they change, and shown.

Rule: a dictionary anywhere below the top of params whose ``"sequence"`` is a text is a sequence, whatever else it is.
Two configurations share their first equal segments, and nothing else: a segment begins only where a piece begins, never
where work happens to be cut.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from asyncsearch.errors import SpaceError
from asyncsearch.sequences.base_sequence import Sequence
from asyncsearch.sequences.formulas import Const, Piece, text_of
from asyncsearch.sequences.parsing import from_json, is_tagged


def is_sequence(value: Any) -> bool:
    """Return whether a value is a sequence, as an object or in its JSON form."""
    return isinstance(value, Sequence) or is_tagged(value)


def has_sequences(params: Mapping[str, Any]) -> bool:
    """Return whether there is a sequence anywhere in params; an object of a choice, which never changes, is none."""
    return any(_has(value, lambda sequence: not is_object(sequence)) for value in params.values())


def has_objects(params: Mapping[str, Any]) -> bool:
    """Return whether there is an object of a choice anywhere in params."""
    return any(_has(value, is_object) for value in params.values())


def is_object(sequence: Any) -> bool:
    """Return whether a sequence, as an object or in its JSON form, stands for an object of a choice."""
    return (sequence.kind if isinstance(sequence, Sequence) else sequence["sequence"]) == "object"


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


def _has(value: Any, is_meant: Callable[[Any], bool]) -> bool:
    if is_sequence(value):
        return is_meant(value)
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_has(item, is_meant) for item in items)


@functools.lru_cache(maxsize=4096)
def _decoded(data: bytes) -> Sequence:
    """Decode once: the values of params at a time are computed at each epoch."""
    return from_json(msgspec.json.decode(data))


def segments(params: Mapping[str, Any], until: int) -> Iterator[tuple[int, str]]:
    """Yield (start, canonical text of all hyper-parameters from there on), ascending from 0, all below ``until``.

    Where a piece is constant the text is that of the constant: a constant sequence is the same as its bare value.

    Raises:
        SpaceError: a sequence is malformed.
    """
    tracks: list[_Track] = []

    def add_track(sequence: Sequence) -> _Track:
        tracks.append(_Track(sequence))
        return tracks[-1]

    tracked = replaced(params, add_track)
    start: int | None = 0
    while start is not None and start < until:
        for track in tracks:
            track.advance(start)
        yield start, text_of(tracked, _Track.current)
        start = min((track.next.start for track in tracks if track.next is not None), default=None)


class _Track:
    """The piece of one sequence that holds now, and the next one."""

    def __init__(self, sequence: Sequence) -> None:
        self._pieces = sequence.merged()
        self.now: Piece = next(self._pieces)
        self.next: Piece | None = next(self._pieces, None)

    def advance(self, time: int) -> None:
        while self.next is not None and self.next.start <= time:
            self.now, self.next = self.next, next(self._pieces, None)

    def current(self) -> Any:
        formula = self.now.formula
        # The text of a formula is not the kind of any sequence, so the two cannot be confused.
        return formula.value if isinstance(formula, Const) else {"sequence": formula.text}


def params(configuration: Mapping[str, Any]) -> str:
    """Return ``width=128 model.lr=0.001``."""
    return " ".join(f"{name}={scalar(value)}" for name, value in flat(configuration))


def scalar(value: Any) -> str:
    """Return one value of a configuration, floats with four significant digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def flat(configuration: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, value) of nested params; a sequence is one value."""
    for name, value in configuration.items():
        if is_sequence(value):
            yield f"{prefix}{name}", _revived(value)
        elif isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


class ReadableParams(dict[str, Any]):
    """Params as a dictionary of JSON values, whose text has sequences as people write them."""

    def __repr__(self) -> str:
        return repr(_written(self))


def _written(configuration: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _revived(value) if is_sequence(value) else _written(value) if isinstance(value, Mapping) else value
        for name, value in configuration.items()
    }


def _revived(value: Any) -> Any:
    """Return a sequence, or its JSON value if this version does not know it."""
    try:
        return revive(value)
    except SpaceError:
        return value
