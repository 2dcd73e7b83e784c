"""Which trainings are alike enough for one computation, told by the values of their hyper-parameters. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

Grouping = Callable[[Mapping[str, Any]], str]
"""Returns the group of a training from its values; a pure function."""


def group_of(params: Mapping[str, Any]) -> str:
    """Return the group of a training whose trainable names nothing: the values that are neither floats nor sequences.

    A number with a fraction, such as a learning rate, may differ between members of a pack. Anything else, such as a
    width, may decide how the model is built.
    """
    return _text({name: value for name, value in params.items() if not _may_differ(value)})


class GroupBy(msgspec.Struct, frozen=True):
    """Tells groups by the values of some hyper-parameters only."""

    names: tuple[str, ...]

    def __call__(self, params: Mapping[str, Any]) -> str:
        return _text({name: params.get(name) for name in self.names})


def grouping_by(names: Sequence[str] | None) -> Grouping:
    """Return the function that tells groups by these hyper-parameters; None for all others."""
    return group_of if names is None else GroupBy(tuple(names))


def _text(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)


def _may_differ(value: object) -> bool:
    return isinstance(value, float) or (isinstance(value, Mapping) and "sequence" in value)
