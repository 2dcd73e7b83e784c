"""Kinds of message fields, and the codec that combines them; each checks in both directions.

Numbers must be in the engine's range, and a node must have 32 digits, because stores derive paths from it. Metrics are
doubles on the wire, NaN and infinities included; reading spells those as text (``asyncsearch.values``). Text that
UTF-8 cannot encode (lone surrogates, from bytes that were not text) is escaped, never refused. A sender makes a text
fit its field, and a receiver refuses one that does not fit.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, NoReturn

from asyncsearch.errors import ProtocolError
from asyncsearch.rpc.pb import search_pb2 as pb
from asyncsearch.trial import Metrics, Params
from asyncsearch.values import spell, unspell

COUNT = 2**53
"""Upper bound (exclusive) of resources, trials, leases and sizes: exact in every language and in JSON."""

LATEST_S = 253_402_214_400.0
"""Upper bound (exclusive) of times, the last day of the year 9999: every calendar can show those before it."""
LINE_CHARS = 10_000
"""Longest line of a log; agents cut lines at a lower number (``LogLimits``)."""
TEXT_CHARS = 2**18
"""Longest text of several lines, such as a traceback with the last output."""
NAME_CHARS = 1_000
"""Longest name of a metric, a host or a process."""
SECRET_BYTES = 2**20
"""Most bytes of a file of tokens."""
CONTENT_BYTES = 2**20
"""Most bytes of a part of a question or an answer."""
METRICS_MOST = 10_000
"""Most metrics in a report."""

Convert = Callable[[str, Any], Any]
"""Takes the field's name, for errors, and a value; returns the value on the other side."""


class Field(NamedTuple):
    """Conversions of one field in both directions."""

    read: Convert
    write: Convert
    has_presence: bool = False
    """Whether the wire distinguishes an absent field from a zero."""
    is_optional: bool = False
    """Whether the field may be absent."""
    wire: str | None = None
    """Name on the wire, if different."""
    absent: Any = None
    """Value in Python of a field that is absent."""


class Codec:
    """Converts between a message and a value of ``kind`` with the same fields."""

    def __init__(self, kind: type, message: Any, prefix: str = "", **fields: Field) -> None:
        self.kind = kind
        self._message = message
        wires = {name: field.wire or name for name, field in fields.items()}
        self._fields = [(name, wires[name], prefix + wires[name], field) for name, field in fields.items()]

    def read(self, _field: str, message: Any) -> Any:
        """Return the value of a message."""
        values: dict[str, Any] = {}
        for name, wire, path, field in self._fields:
            if field.has_presence and not message.HasField(wire):
                if not field.is_optional:
                    fail(path, "is missing")
                values[name] = field.absent
            else:
                values[name] = field.read(path, getattr(message, wire))
        return self.kind(**values)

    def write(self, _field: str, value: Any) -> Any:
        """Return the message of a value."""
        values: dict[str, Any] = {}
        for name, wire, path, field in self._fields:
            part = getattr(value, name)
            if part is not field.absent or not field.is_optional:
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


def named_counts(kind: type, message: Any, absent: Any) -> Field:
    """Make an optional field for a named tuple of counts: ``messages``, but checked at once, as each report has it."""
    read_all = attrgetter(*kind._fields)  # type: ignore[attr-defined]

    def check(name: str, row: Sequence[int]) -> None:
        if not (min(row) >= 0 and max(row) < COUNT):
            fail(name, f"{tuple(row)} are not all in 0 .. {COUNT - 1}")

    def read(name: str, value: Any) -> Any:
        row = read_all(value)
        check(name, row)
        return kind(*row)

    def write(name: str, row: Any) -> Any:
        check(name, row)
        return message(**row._asdict())

    return Field(read, write, has_presence=True, is_optional=True, absent=absent)


def tuples(item: Field, *, may_be_empty: bool = False, most: int | None = None) -> Field:
    """Make a field for a tuple, with at least one element unless ``may_be_empty``, and at most ``most``."""

    def convert_all(convert: Convert) -> Convert:
        def convert_each(name: str, values: Sequence[Any]) -> tuple[Any, ...]:
            if most is not None and len(values) > most:
                fail(name, f"{len(values)} are more than {most}")
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


def _read_text(name: str, value: str) -> str:
    if len(value) > TEXT_CHARS:
        fail(name, f"{len(value)} characters are more than {TEXT_CHARS}")
    return value


def _write_text(name: str, value: str) -> str:
    # The last lines of a traceback say most; lone surrogates become longer when they are escaped.
    return _escape(name, value[-TEXT_CHARS:])[-TEXT_CHARS:]


def _read_line(name: str, value: str) -> str:
    if len(value) > LINE_CHARS:
        fail(name, f"{len(value)} characters are more than {LINE_CHARS}")
    if "\n" in value or "\r" in value:
        fail(name, "is more than one line")
    return value


def _write_line(name: str, value: str) -> str:
    line = value if "\n" not in value and "\r" not in value else " ".join(value.splitlines())
    return _escape(name, line[:LINE_CHARS])[:LINE_CHARS]


def _read_word(name: str, value: str) -> str:
    if len(value) > NAME_CHARS or not value.isprintable():
        fail(name, f"{value[:40]!r} is longer than {NAME_CHARS} characters, or cannot be printed")
    return value


def _write_word(name: str, value: str) -> str:
    if not value.isprintable():
        value = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in value)
    return _escape(name, value)[:NAME_CHARS]


def _read_name(name: str, value: str) -> str:
    if not value:
        fail(name, "is empty")
    return _read_word(name, value)


def _write_name(name: str, value: str) -> str:
    if not value:
        fail(name, "is empty")
    return _write_word(name, value)


def _check_metric_name(name: str, value: str) -> str:
    if not 0 < len(value) <= NAME_CHARS:
        fail(name, f"the name {value[:40]!r} is empty, or longer than {NAME_CHARS} characters")
    return value


def _check_node(name: str, value: str) -> str:
    if re.fullmatch(r"[0-9a-f]{32}", value) is None:
        fail(name, f"{value[:40]!r} is not a key of 32 hexadecimal digits")
    return value


def _read_time(name: str, value: float) -> float:
    if not 0 <= value < LATEST_S:
        fail(name, f"{value} is not a time from 1970 to 9999")
    return value


def _write_time(_name: str, value: float) -> float:
    # A worker whose clock is wrong trains as well as the others.
    return min(max(value, 0.0), math.nextafter(LATEST_S, 0.0)) if math.isfinite(value) else 0.0


def _check_span(name: str, value: float) -> float:
    if not 0 < value < LATEST_S:
        fail(name, f"{value} is not a number of seconds above 0")
    return value


def _read_metrics(name: str, metrics: Sequence[pb.Metric]) -> Metrics:
    if len(metrics) > METRICS_MOST:
        fail(name, f"{len(metrics)} are more than {METRICS_MOST}")
    values: Metrics = {}
    for metric in metrics:
        if _check_metric_name(name, metric.name) in values:
            fail(name, f"the name {metric.name[:40]!r} comes twice")
        values[metric.name] = spell(metric.value)
    return values


def _write_metrics(name: str, metrics: Metrics) -> list[pb.Metric]:
    if len(metrics) > METRICS_MOST:
        fail(name, f"{len(metrics)} are more than {METRICS_MOST}: report fewer numbers at once")
    # float() fails for None, which would be written as absent and read as 0.
    return [
        pb.Metric(name=_escape(name, _check_metric_name(name, key)), value=float(unspell(value)))
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


def _check_secret(name: str, value: bytes) -> bytes:
    if not 0 < len(value) <= SECRET_BYTES:
        fail(name, f"{len(value)} bytes are not in 1 .. {SECRET_BYTES}")
    return value


def _check_content(name: str, value: bytes) -> bytes:
    if len(value) > CONTENT_BYTES:
        fail(name, f"{len(value)} bytes are more than {CONTENT_BYTES}")
    return value


PLAIN = Field(_as_is, _as_is)
SECRET = Field(_check_secret, _check_secret)
"""Bytes that no message shows."""
CONTENT = Field(_check_content, _check_content)
"""Bytes that only their sender and their receiver understand."""
TEXT = Field(_read_text, _write_text)
"""Text of any number of lines."""
LINE = Field(_read_line, _write_line)
"""Text of one line, which may hold any other character."""
WORD = Field(_read_word, _write_word)
"""Text that can be printed in one line."""
NAME = Field(_read_name, _write_name)
"""The same, never empty."""
NODE = Field(_check_node, _check_node)
TIME = Field(_read_time, _write_time)
SPAN = Field(_check_span, _check_span)
"""Seconds above 0."""
METRICS = Field(_read_metrics, _write_metrics)
PARAMS = Field(_read_params, _write_params, wire="params_json")
