"""Domains as other libraries have them, in text, as dictionaries or as objects: what they are here.

Objects are read by the names of their classes, so that no library is imported. What has a counterpart is taken as it
is; of the rest a message says what to write.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

_CALL = re.compile(r"\s*(?:q?(?:log)?uniform|(?:log)?(?:randint|normal)|choice)\(.*\)\s*")
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


class MeantDomain(msgspec.Struct, frozen=True):
    """The call of ours that makes a domain of another library."""

    kind: str
    """Name of the function, or ``scipy`` for a frozen distribution that none makes."""
    values: tuple[Any, ...]
    options: dict[str, Any] = {}

    def call(self) -> str:
        """Return the call as people write it."""
        show = repr if self.kind in ("choice", "constant") else _shown
        options = [f"{name}={value!r}" for name, value in self.options.items()]
        return f"{self.kind}({', '.join([*map(show, self.values), *options])})"


class NoCounterpartError(ValueError):
    """A domain of another library that none of ours is; says why."""


def is_foreign(value: object) -> bool:
    """Return whether a value is a domain of another library, as an object."""
    return not isinstance(value, type) and any(_library(kind) in _READERS for kind in type(value).__mro__)


def meant_object(value: object) -> MeantDomain | None:
    """Return the domain that an object of another library is. None if it is none.

    Raises:
        NoCounterpartError: it has no counterpart here.
    """
    readers = (_READERS[kind] for kind in map(_library, type(value).__mro__) if kind in _READERS)
    reader = None if isinstance(value, type) else next(readers, None)
    if reader is None:
        return None
    try:
        return reader(value)
    except NoCounterpartError:
        raise
    except Exception:  # another version of that library, whose objects are made otherwise, or an object of another kind
        return None


def meant_by(value: object) -> str:
    """Return the call for a domain in the form of another library. Empty if it is none, or has no bounds."""
    if isinstance(value, str):  # as from a configuration file
        return value.strip() if _CALL.fullmatch(value) else ""
    if isinstance(value, Mapping):
        return _meant_by_mapping(value)
    try:
        meant = meant_object(value)
    except NoCounterpartError:
        return ""
    return "" if meant is None or meant.kind == "scipy" else meant.call()


def _meant_by_mapping(group: Mapping[Any, Any]) -> str:
    if len(group) == 1 and isinstance(values := group.get("grid_search"), list | tuple):
        return _choice(values).call()
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


def _optuna(value: Any) -> MeantDomain:
    if hasattr(value, "choices"):
        return _choice(value.choices)
    name = type(value).__name__
    is_log = getattr(value, "log", False) or "Log" in name
    step = getattr(value, "step", None) or getattr(value, "q", None)
    return _of_bounds(value.low, value.high, is_whole=name.startswith("Int"), is_log=is_log, step=step)


def _ray(value: Any) -> MeantDomain:
    if hasattr(value, "categories"):
        return _choice(value.categories)
    if type(value).__name__ == "Function":
        raise NoCounterpartError("tune.sample_from draws by a function: compute the value in the trainable")
    sampler, step = value.sampler, None
    if hasattr(sampler, "q"):
        sampler, step = sampler.sampler, sampler.q
    names = [kind.__name__ for kind in type(sampler).__mro__]
    if any("Normal" in name for name in names):
        return _normal("normal", sampler.mean, sampler.sd, step)
    is_whole = any(kind.__name__ == "Integer" for kind in type(value).__mro__)
    is_log = any("LogUniform" in name for name in names)
    # Ray's integers end before their upper bound, unless they are quantized.
    high = value.upper - (1 if is_whole and step is None else 0)
    return _of_bounds(value.lower, high, is_whole=is_whole, is_log=is_log, step=step)


def _scipy(value: Any) -> MeantDomain:
    name, (low, high) = value.dist.name, value.support()
    if name == "norm":
        return _normal("normal", value.mean(), value.std())
    if name == "lognorm" and low == 0:  # scipy: shape s, scale exp(mean)
        return _normal("lognormal", math.log(value.median()), math.log(value.ppf(0.8413447460685429) / value.median()))
    if name in ("uniform", "loguniform", "reciprocal", "randint"):
        is_log = name in ("loguniform", "reciprocal")
        return _of_bounds(float(low), float(high), is_whole=name == "randint", is_log=is_log)
    return MeantDomain("scipy", (value,))


def _hyperopt(value: Any) -> MeantDomain:
    if value.name == "switch":
        return _hyperopt_choice(value)
    wrappers = []
    while value.name != "hyperopt_param":
        wrappers.append(value.name)
        if value.name not in ("float", "int"):
            raise NoCounterpartError(f"it computes by {value.name!r}: do so in the trainable, and search its argument")
        value = value.pos_args[0]
    draw = value.pos_args[1]
    name, is_int = draw.name, "int" in wrappers
    named = {key: node.obj for key, node in getattr(draw, "named_args", ()) if hasattr(node, "obj")}
    values = [node.obj for node in draw.pos_args]
    order = ("mu", "sigma", "q") if "normal" in name else ("low", "high", "upper", "q")
    low, high, *rest = [*values, *(named[key] for key in order if key in named), None][:4]
    step = next((one for one in rest if one is not None), None)
    if name == "randint":  # which ends before its bound; a single one is the upper one
        low, high = (0, low - 1) if high is None else (low, high - 1)
        return _of_bounds(low, high, is_whole=True)
    if "normal" in name:
        return _normal("lognormal" if "log" in name else "normal", low, high, step)
    if name in ("uniformint", "quniformint"):
        return _of_bounds(low, high, is_whole=True)
    if "log" in name:  # hyperopt's bounds are those of the logarithm
        return _of_bounds(math.exp(low), math.exp(high), is_log=True, step=step)
    if step is not None:  # hyperopt rounds what it draws to multiples of the step
        low = (math.floor(low / step - 0.5) + 1) * step
        high = (math.ceil(high / step + 0.5) - 1) * step
    return _of_bounds(low, high, is_whole=is_int, step=step)


def _hyperopt_choice(value: Any) -> MeantDomain:
    chosen, *options = value.pos_args
    draw = chosen.pos_args[1] if len(chosen.pos_args) > 1 else None
    values = [_hyperopt_value(option) for option in options]
    weights = {}
    if draw is not None and draw.name == "categorical":
        weights = {"weights": [float(one) for one in _hyperopt_value(draw.pos_args[0])]}
    return MeantDomain("choice", tuple(values), weights)


def _hyperopt_value(node: Any) -> Any:
    """Return the meaning of an option's node: a value, or a group of values and of domains."""
    if hasattr(node, "obj"):
        return node.obj
    if node.name == "dict":
        return {key: _hyperopt_value(item) for key, item in node.named_args}
    if node.name == "pos_args":
        return [_hyperopt_value(item) for item in node.pos_args]
    return node


def _skopt(value: Any) -> MeantDomain:
    if hasattr(value, "categories"):
        return _choice(value.categories)
    is_log = str(getattr(value, "prior", "")).startswith("log")
    return _of_bounds(value.low, value.high, is_whole=type(value).__name__ == "Integer", is_log=is_log)


def _config_space(value: Any) -> MeantDomain:
    name = type(value).__name__
    if hasattr(value, "choices"):
        weights = getattr(value, "weights", None)
        return _choice(value.choices, None if weights is None else [float(one) for one in weights])
    if hasattr(value, "sequence"):
        return _choice(value.sequence)
    if name == "Constant":
        return MeantDomain("constant", (value.value,))
    if not name.startswith("Uniform"):
        raise NoCounterpartError(f"{name} is bounded and not uniform: write uniform or loguniform of its bounds")
    return _of_bounds(value.lower, value.upper, is_whole="Integer" in name, is_log=bool(getattr(value, "log", False)))


_READERS = {
    "optuna": _optuna,
    "ray": _ray,
    "scipy": _scipy,
    "hyperopt": _hyperopt,
    "skopt": _skopt,
    "ConfigSpace": _config_space,
}
"""Name of a library -> the reader of its domains."""


def _normal(kind: str, mean: float, sd: float, step: Any = None) -> MeantDomain:
    return MeantDomain(kind, (float(mean), float(sd)), {} if step is None else {"step": float(step)})


def _choice(values: Iterable[Any], weights: list[float] | None = None) -> MeantDomain:
    return MeantDomain("choice", tuple(values), {} if weights is None else {"weights": weights})


def _of_bounds(low: Any, high: Any, *, is_whole: bool = False, is_log: bool = False, step: Any = None) -> MeantDomain:
    if not (math.isfinite(low) and math.isfinite(high)):
        raise NoCounterpartError("it has no finite bounds: write normal(mean, sd)")
    if step is not None and is_log:
        raise NoCounterpartError("it is logarithmic and rounded to steps: write loguniform, and round in the trainable")
    if is_whole:
        ends = int(low), int(high)
        if step not in (None, 1):
            return MeantDomain("randint", ends, {"step": int(step)})
        return MeantDomain("lograndint" if is_log else "randint", ends)
    if step is not None:
        return MeantDomain("quniform", (float(low), float(high), float(step)))
    return MeantDomain("loguniform" if is_log else "uniform", (float(low), float(high)))


def _shown(number: Any) -> str:
    """Return a number as people write it: 0.0001, not the nearest power of e, and 1, not 1.0."""
    short = float(f"{float(number):.12g}")
    return str(int(short)) if short.is_integer() and abs(short) < 1e15 else repr(short)
