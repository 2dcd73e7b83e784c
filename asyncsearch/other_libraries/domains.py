"""Domains as other libraries have them, in text, as dictionaries or as objects: what to write instead."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
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


def meant_by(value: object) -> str:
    """Return the call for a domain in the form of another library. Empty if it is none, or has no bounds."""
    if isinstance(value, str):  # as from a configuration file
        return value.strip() if _CALL.fullmatch(value) else ""
    if isinstance(value, Mapping):
        return _meant_by_mapping(value)
    try:
        answers = (_ANSWERS[kind] for kind in map(_library, type(value).__mro__) if kind in _ANSWERS)
        answer = next(answers, None)
        return "" if answer is None else answer(value)
    except Exception:  # another version of that library, whose objects are made otherwise
        return ""


def _meant_by_mapping(group: Mapping[Any, Any]) -> str:
    if len(group) == 1 and isinstance(values := group.get("grid_search"), list | tuple):
        return _choice(values)
    kinds = [key for key in _KIND_KEYS if isinstance(group.get(key), str)]
    if len(kinds) != 1 or len(group) == 1 or not {*group} - {*kinds} <= _OTHER_KEYS:
        return ""
    kind = group[kinds[0]].lower()
    domain = next((domain for parts, domain in _DOMAINS if any(part in kind for part in parts)), "")
    low, high = _bound(group, ("min", "low", "lower"), 0.1), _bound(group, ("max", "high", "upper"), 1)
    return domain.format(low=low, high=high)


def _bound(group: Mapping[Any, Any], names: tuple[str, ...], other: float) -> Any:
    return next((group[name] for name in names if name in group), other)


def _library(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _optuna(value: Any) -> str:
    if hasattr(value, "choices"):
        return _choice(value.choices)
    name = type(value).__name__
    is_log = getattr(value, "log", False) or "Log" in name
    step = getattr(value, "step", None) or getattr(value, "q", None)
    return _of_bounds(value.low, value.high, is_whole=name.startswith("Int"), is_log=is_log, step=step)


def _ray(value: Any) -> str:
    if hasattr(value, "categories"):
        return _choice(value.categories)
    sampler, step = value.sampler, None
    if hasattr(sampler, "q"):
        sampler, step = sampler.sampler, sampler.q
    names = [kind.__name__ for kind in type(sampler).__mro__]
    if any("Normal" in name for name in names):
        return _of_normal(sampler.mean, sampler.sd)
    is_whole = any(kind.__name__ == "Integer" for kind in type(value).__mro__)
    is_log = any("LogUniform" in name for name in names)
    # Ray's integers end before their upper bound, unless they are quantized.
    high = value.upper - (1 if is_whole and step is None else 0)
    return _of_bounds(value.lower, high, is_whole=is_whole, is_log=is_log, step=step)


def _scipy(value: Any) -> str:
    low, high = (float(bound) for bound in value.support())
    name = value.dist.name
    if name == "norm":
        return _of_normal(value.mean(), value.std())
    return _of_bounds(low, high, is_whole="randint" in name, is_log=name in ("loguniform", "reciprocal"))


def _hyperopt(value: Any) -> str:
    if value.name == "switch":
        return _choice([option.obj for option in value.pos_args[1:]])
    while value.name != "hyperopt_param":
        value = value.pos_args[0]
    draw = value.pos_args[1]
    name = draw.name
    named = {key: node.obj for key, node in getattr(draw, "named_args", ())}
    values = [node.obj for node in draw.pos_args]
    low, high, *rest = [*values, *(named[key] for key in ("low", "high", "upper", "q") if key in named)] + (
        [] if len(values) + len(named) > 1 else [None]
    )
    if name == "randint":  # which ends before its bound; a single one is the upper one
        low, high = (0, low - 1) if high is None else (low, high - 1)
    if "normal" in name:
        mean, sd = low, high
        ends = _of_normal(mean, sd)
        return _of_bounds(math.exp(mean - 2 * sd), math.exp(mean + 2 * sd), is_log=True) if "log" in name else ends
    if "log" in name:  # hyperopt's bounds are those of the logarithm
        return _of_bounds(math.exp(low), math.exp(high), is_log=True)
    return _of_bounds(low, high, is_whole="int" in name, step=rest[0] if rest else None)


def _skopt(value: Any) -> str:
    if hasattr(value, "categories"):
        return _choice(value.categories)
    is_log = str(getattr(value, "prior", "")).startswith("log")
    return _of_bounds(value.low, value.high, is_whole=type(value).__name__ == "Integer", is_log=is_log)


def _config_space(value: Any) -> str:
    if hasattr(value, "choices"):
        return _choice(value.choices)
    is_whole = "Integer" in type(value).__name__
    return _of_bounds(value.lower, value.upper, is_whole=is_whole, is_log=bool(getattr(value, "log", False)))


_ANSWERS = {
    "optuna": _optuna,
    "ray": _ray,
    "scipy": _scipy,
    "hyperopt": _hyperopt,
    "skopt": _skopt,
    "ConfigSpace": _config_space,
}
"""Name of a library -> the reader of its domains."""


def _of_normal(mean: float, sd: float) -> str:
    """Return the range in which 19 of 20 values of a normal distribution lie."""
    return _of_bounds(mean - 2 * sd, mean + 2 * sd)


def _choice(values: Iterable[Any]) -> str:
    return f"choice({', '.join(map(repr, values))})"


def _of_bounds(low: Any, high: Any, *, is_whole: bool = False, is_log: bool = False, step: Any = None) -> str:
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    if is_whole:
        if step not in (None, 1):
            return f"choice(*range({low}, {high + 1}, {step}))"
        return f"{'lograndint' if is_log else 'randint'}({_shown(low)}, {_shown(high)})"
    if step is not None and not is_log:
        return f"quniform({_shown(low)}, {_shown(high)}, {_shown(step)})"
    return f"{'loguniform' if is_log else 'uniform'}({_shown(low)}, {_shown(high)})"


def _shown(number: Any) -> str:
    """Return a number as people write it: 0.0001, not the nearest power of e, and 1, not 1.0."""
    short = float(f"{float(number):.12g}")
    return str(int(short)) if short.is_integer() and abs(short) < 1e15 else repr(short)
