"""Values of a program of Optuna as JSON text: between driver and worker, and in the journal.

Plain values, distributions and trials are JSON. Any other object is a pickle inside it. Rule: what is decoded here has
come behind the seal of a launch (``runner.seal``), or from the journal, the study's own as its pickled trainable is.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
import pickle
from collections.abc import Callable
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from asyncsearch.arguments import is_unicode
from asyncsearch.errors import UsageError
from asyncsearch.programs.pickles import pickled

_PLAIN = (type(None), bool, int, str)
"""Exactly these types: a subclass, such as an enum of integers, would come back as another class."""
MOST_KEPT_BYTES = 2**16
"""Pickles beyond this size are not kept in the journal, which is read as a whole."""


BEGIN_KIND = "begin"
"""The kind of the question of a trial that asks to begin."""
BEGIN = b'["begin"'
"""How that question begins."""


class ValueCodec:
    """Encodes values as JSON, and decodes them."""

    def __init__(self, most_bytes: int | None = None) -> None:
        """Begin; pickles of more than ``most_bytes`` are left out, and come back as None."""
        self._most_bytes = most_bytes

    def dumps(self, value: Any) -> bytes:
        """Return a value as bytes.

        Raises:
            Exception: an object in it cannot be pickled.
        """
        return json.dumps(self.encode(value), separators=(",", ":")).encode()

    def loads(self, data: bytes) -> Any:
        """Return the value of bytes."""
        return self.decode(json.loads(data))

    def encode(self, value: Any) -> Any:
        """Return a value as JSON: plain values and lists are themselves, all others objects of one field, the kind."""
        kind = type(value)
        if kind in _PLAIN and (kind is not str or is_unicode(value)):  # the journal would escape what is no text
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is list:
            return [one if type(one) is float and math.isfinite(one) else self.encode(one) for one in value]
        if kind is tuple:
            return {"tuple": [self.encode(one) for one in value]}
        if kind is dict:
            return {"dict": [[self.encode(name), self.encode(one)] for name, one in value.items()]}
        if isinstance(value, TrialState | StudyDirection):
            return {kind.__name__: value.name}
        if kind is datetime.datetime:
            return {"time": value.isoformat()}
        if isinstance(value, BaseDistribution):
            return self._distribution(value)
        if kind is FrozenTrial:
            return {"trial": self.encode(_fields_of(value))}
        return self._pickled(value)

    def _distribution(self, value: BaseDistribution) -> Any:
        if type(value) is CategoricalDistribution:
            return {"choices": [self.encode(choice) for choice in value.choices]}
        if type(value) in (FloatDistribution, IntDistribution):
            number = float if type(value) is FloatDistribution else int  # of numpy's numbers, too
            step = None if value.step is None else number(value.step)
            return {type(value).__name__: [number(value.low), number(value.high), value.log, step]}
        return self._pickled(value)  # of a former version, which samplers still know

    def _pickled(self, value: Any) -> Any:
        data = pickled(value)
        if self._most_bytes is not None and len(data) > self._most_bytes:
            return {"left_out": len(data)}
        return {"pickle": base64.b64encode(data).decode()}

    def decode(self, value: Any) -> Any:
        """Return the value of its JSON."""
        if isinstance(value, list):
            return [self.decode(one) for one in value]
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        return _DECODED[kind](self, content)


def require_known(name: str, distribution: BaseDistribution) -> None:
    """Refuse a distribution of the program's own, which no sampler of Optuna knows either.

    Raises:
        UsageError: it is derived from none of Optuna's.
    """
    if not isinstance(distribution, FloatDistribution | IntDistribution | CategoricalDistribution):
        raise UsageError(
            f"Parameter {name!r} has a {type(distribution).__name__}, and samplers know floats, integers and choices "
            "alone: suggest one of these, as by trial.suggest_float(...), and make the value of it in the objective."
        )


def _unpickled(content: str) -> Any:
    return pickle.loads(base64.b64decode(content))  # noqa: S301  # behind the seal of a launch, or the study's own file


def _categorical(choices: list[Any]) -> CategoricalDistribution:
    # Not by its constructor, which warns of each choice that is no plain value: where it was suggested, it has warned.
    made = CategoricalDistribution.__new__(CategoricalDistribution)
    made.choices = tuple(choices)
    return made


_FIELDS = (
    "number",
    "state",
    "values",
    "datetime_start",
    "datetime_complete",
    "params",
    "distributions",
    "user_attrs",
    "system_attrs",
    "intermediate_values",
    "_trial_id",
)


def _fields_of(trial: FrozenTrial) -> list[Any]:
    return [getattr(trial, name) for name in _FIELDS]


def _trial_of(fields: list[Any]) -> FrozenTrial:
    given = dict(zip(_FIELDS, fields, strict=True))
    return FrozenTrial(value=None, trial_id=given.pop("_trial_id"), **given)


def _distribution_of(kind: Callable[..., BaseDistribution], content: list[Any]) -> BaseDistribution:
    low, high, log, step = content
    return kind(low, high, log=log, step=step)


_DECODED: dict[str, Callable[[ValueCodec, Any], Any]] = {
    "float": lambda codec, content: float(content),
    "tuple": lambda codec, content: tuple([codec.decode(one) for one in content]),
    "dict": lambda codec, content: {codec.decode(name): codec.decode(one) for name, one in content},
    "TrialState": lambda codec, content: TrialState[content],
    "StudyDirection": lambda codec, content: StudyDirection[content],
    "time": lambda codec, content: datetime.datetime.fromisoformat(content),
    "choices": lambda codec, content: _categorical([codec.decode(one) for one in content]),
    "FloatDistribution": lambda codec, content: _distribution_of(FloatDistribution, content),
    "IntDistribution": lambda codec, content: _distribution_of(IntDistribution, content),
    "trial": lambda codec, content: _trial_of(codec.decode(content)),
    "pickle": lambda codec, content: _unpickled(content),
    "left_out": lambda codec, content: None,
}
"""Kind -> what makes its value."""
