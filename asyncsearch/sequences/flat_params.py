"""Params as people read them: one text for each value, under a dotted name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from asyncsearch.errors import SpaceError
from asyncsearch.sequences.decoding import is_sequence, revive


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
