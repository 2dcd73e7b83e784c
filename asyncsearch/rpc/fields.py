"""Kinds of message fields, and the codec that combines them; each checks in both directions.

Numbers must be in the engine's range, and a node must have 32 digits, because stores derive paths from it. Metrics are
doubles on the wire, NaN and infinities included; reading spells those as text (``asyncsearch.nonfinite``). Text that
UTF-8 cannot encode (lone surrogates, from bytes that were not text) is escaped, never refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn

from asyncsearch.errors import ProtocolError
from asyncsearch.nonfinite import spell, unspell
from asyncsearch.rpc.pb import search_pb2 as pb
from asyncsearch.trial import Metrics, Params

COUNT = 2**53
"""Upper bound (exclusive) of resources, trials, leases and sizes: exact in every language and in JSON."""

Convert = Callable[[str, Any], Any]
"""Takes the field's name, for errors, and a value; returns the value on the other side."""


class Field(NamedTuple):
    """Conversions of one field in both directions."""

    read: Convert
    write: Convert
    has_presence: bool = False
    """Whether the wire distinguishes an absent field from a zero."""
    is_optional: bool = False
    """Whether the field may be absent: None in Python."""
    wire: str | None = None
    """Name on the wire, if different."""


class Codec:
    """Converts between a message and a value of ``kind`` with the same fields."""

    def __init__(self, kind: type, message: Any, prefix: str = "", **fields: Field) -> None:
        self.kind = kind
        self._message = message
        self._fields = [
            (name, field.wire or name, prefix + (field.wire or name), field) for name, field in fields.items()
        ]

    def read(self, _field: str, message: Any) -> Any:
        """Return the value of a message."""
        values: dict[str, Any] = {}
        for name, wire, path, field in self._fields:
            if field.has_presence and not message.HasField(wire):
                if not field.is_optional:
                    fail(path, "is missing")
                values[name] = None
            else:
                values[name] = field.read(path, getattr(message, wire))
        return self.kind(**values)

    def write(self, _field: str, value: Any) -> Any:
        """Return the message of a value."""
        values: dict[str, Any] = {}
        for name, wire, path, field in self._fields:
            part = getattr(value, name)
            if part is not None or not field.is_optional:
                values[wire] = field.write(path, part)
        return self._message(**values)


def fail(field: str, rule: str) -> NoReturn:
    """Reject a message because of one field."""
    raise ProtocolError(f"{field}: {rule}.")


def counts(low: int = 0, high: int = COUNT, *, is_optional: bool = False) -> Field:
    """Make a field for low <= integer < high."""

    def check(name: str, value: int) -> int:
        if not low <= value < high:
            fail(name, f"{value} is not in {low} .. {high - 1}")
        return value

    return Field(check, check, has_presence=is_optional, is_optional=is_optional)


def messages(codec: Codec, *, is_optional: bool = False) -> Field:
    """Make a field for another message."""
    return Field(codec.read, codec.write, has_presence=True, is_optional=is_optional)


def tuples(item: Field, *, may_be_empty: bool = False) -> Field:
    """Make a field for a tuple, with at least one element unless ``may_be_empty``."""

    def convert_all(convert: Convert) -> Convert:
        def convert_each(name: str, values: Iterable[Any]) -> tuple[Any, ...]:
            converted = tuple([convert(name, value) for value in values])
            if not converted and not may_be_empty:
                fail(name, "is empty")
            return converted

        return convert_each

    return Field(convert_all(item.read), convert_all(item.write))


def choices(wire_values: dict[Any, int]) -> Field:
    """Make a field for an enum that rejects unspecified and unknown values."""
    values = {wire_value: value for value, wire_value in wire_values.items()}

    def read(name: str, value: int) -> Any:
        if value not in values:
            fail(name, f"{value} is unspecified or unknown")
        return values[value]

    return Field(read, lambda _name, value: wire_values[value])


def _as_is(_name: str, value: Any) -> Any:
    return value


def _escape(_name: str, value: str) -> str:
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")


def _read_name(name: str, value: str) -> str:
    if not value:
        fail(name, "is empty")
    return value


def _check_node(name: str, value: str) -> str:
    if re.fullmatch(r"[0-9a-f]{32}", value) is None:
        fail(name, f"{value[:40]!r} is not a key of 32 hexadecimal digits")
    return value


def _check_time(name: str, value: float) -> float:
    if not math.isfinite(value):
        fail(name, f"{value} is not a time")
    return value


def _read_metrics(name: str, metrics: Iterable[pb.Metric]) -> Metrics:
    values: Metrics = {}
    for metric in metrics:
        if not metric.name or metric.name in values:
            fail(name, f"the name {metric.name[:40]!r} is empty or comes twice")
        values[metric.name] = spell(metric.value)
    return values


def _write_metrics(name: str, metrics: Metrics) -> list[pb.Metric]:
    # float() fails for None, which would be written as absent and read as 0.
    return [
        pb.Metric(name=_escape(name, _read_name(name, key)), value=float(unspell(value)))
        for key, value in metrics.items()
    ]


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a value of JSON")


def _read_params(name: str, value: str) -> Params:
    try:
        params = json.loads(value, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        fail(name, f"is not JSON ({error})")
    if not isinstance(params, dict):
        fail(name, "is not a JSON object")
    return params


def _write_params(name: str, params: Params) -> str:
    try:
        return json.dumps(params, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        fail(name, f"{str(params)[:200]} cannot be written as JSON ({error})")


PLAIN = Field(_as_is, _as_is)
TEXT = Field(_as_is, _escape)
NAME = Field(_read_name, lambda name, value: _escape(name, _read_name(name, value)))
NODE = Field(_check_node, _check_node)
TIME = Field(_check_time, _check_time)
METRICS = Field(_read_metrics, _write_metrics)
PARAMS = Field(_read_params, _write_params, wire="params_json")
