"""Domains as other tools have them, in text or as a dictionary: what to write instead. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_CALL = re.compile(r"\s*(?:q?(?:log)?uniform|(?:log)?randint|choice)\(.*\)\s*")
_KIND_KEYS = ("type", "_type", "distribution")
_OTHER_KEYS = frozenset(
    {"min", "max", "low", "high", "lower", "upper", "bounds", "values", "value", "step", "q", "log"}
)
_DOMAINS = (
    (("choice", "categorical"), "choice('a', 'b')"),
    (("logint", "lograndint", "int_log"), "lograndint({low}, {high})"),
    (("log",), "loguniform({low}, {high})"),
    (("int",), "randint({low}, {high})"),
    (("uniform", "float", "real", "double", "range"), "uniform({low}, {high})"),
)
"""Parts of the name of a distribution -> the domain."""

BOUNDS = {
    **dict.fromkeys(("min", "lower", "start", "a"), "low={value}"),
    **dict.fromkeys(("max", "upper", "stop", "end", "b"), "high={value}"),
}
"""What other libraries call the bounds of a domain -> what to write."""


def meant_by_text(text: str) -> str:
    """Return the domain that a text holds, as from a configuration file; empty: it is just a text."""
    return text.strip() if _CALL.fullmatch(text) else ""


def meant_by_mapping(group: Mapping[Any, Any]) -> str:
    """Return the domain that a dictionary with a distribution and its bounds describes; empty: it is a group."""
    kinds = [key for key in _KIND_KEYS if isinstance(group.get(key), str)]
    if len(kinds) != 1 or len(group) == 1 or not {*group} - {*kinds} <= _OTHER_KEYS:
        return ""
    kind = group[kinds[0]].lower()
    domain = next((domain for parts, domain in _DOMAINS if any(part in kind for part in parts)), "")
    low, high = _bound(group, ("min", "low", "lower"), 0.1), _bound(group, ("max", "high", "upper"), 1)
    return domain.format(low=low, high=high)


def _bound(group: Mapping[Any, Any], names: tuple[str, ...], other: float) -> Any:
    return next((group[name] for name in names if name in group), other)
