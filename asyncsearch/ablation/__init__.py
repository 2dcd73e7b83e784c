"""The parts that an ablation study leaves out of a trial, and data and networks without them.

left_out       the words of the parameter ``ablated``, and what user code asks of a trial; its own functions
columns        data without columns                torch_layers, keras_layers   networks without layers

Here: the columns and layers that a name or a pattern stands for. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from asyncsearch.errors import UsageError

_SHOWN = 12


def fits(name: str, pattern: str) -> bool:
    """Return whether a name is the one given, or fits the pattern: ``*`` is any text, ``?`` any letter."""
    return name == pattern or fnmatchcase(name, pattern)


def chosen(names: Sequence[str], patterns: Sequence[str], model: str) -> list[str]:
    """Return the layers that the patterns name, in the order of the model.

    Raises:
        UsageError: a pattern names none; says which there are.
    """
    for pattern in patterns:
        if not any(fits(name, pattern) for name in names):
            shown = ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
            raise UsageError(f"{model} has no layer {pattern!r}: it has {shown}. Correct Ablation(layers=[...]).")
    return [name for name in names if any(fits(name, pattern) for pattern in patterns)]
