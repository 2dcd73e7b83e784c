"""What a sequence means in each unit, by the definitions alone and with arithmetic of its own.

Two meanings are equal exactly if the values are equal by construction: as constants, as points of one line, or as the
same curve with the same phase.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

from asyncsearch.sequences import Sequence

Arguments = dict[str, Any]


def decimal(value: float) -> Fraction:
    return Fraction(repr(value))


def _const(value: Any) -> Any:
    return ("const", type(value), value)


def _line(start: int, first: Fraction, stop: int, last: Fraction) -> Any:
    if first == last:
        return _const(float(first))
    slope = (last - first) / (stop - start)
    return ("line", slope, first - slope * start)


def _power(value: float, gamma: float, count: int) -> Any:
    if count == 0:
        return _const(value)
    product = decimal(value) * decimal(gamma) ** count
    return _const(int(product) if isinstance(value, int) and product.denominator == 1 else float(product))


def meaning(s: Any, time: int, origin: int = 0) -> Any:
    """Return what a value is in the unit that begins at ``time``."""
    return _MEANINGS[s.kind](s.arguments(), time, origin) if isinstance(s, Sequence) else _const(s)


def _values(a: Arguments, time: int, origin: int) -> Any:
    return _const(a["values"][sum(m <= time for m in a["milestones"])])


def _multistep(a: Arguments, time: int, origin: int) -> Any:
    return _power(a["value"], a["gamma"], sum(m <= time for m in a["milestones"]))


def _exponential(a: Arguments, time: int, origin: int) -> Any:
    return _const(a["value"]) if a["gamma"] == 1 else ("exponential", a["value"], a["gamma"], origin)


def _curve(kind: str, a: Arguments, time: int, origin: int) -> Any:
    end = a["eta_min"] if kind == "cosine" else a["end"]
    if time - origin >= a["total"] or a["value"] == end:
        return _const(end)
    if kind == "linear" or a.get("power") == 1:
        return _line(origin, decimal(a["value"]), origin + a["total"], decimal(end))
    return (kind, a["value"], end, a["total"], a.get("power"), origin)


def _restarts(a: Arguments, time: int, origin: int) -> Any:
    start, length = origin, a["T_0"]
    while start + length <= time:
        start, length = start + length, length * a["T_mult"]
    if a["value"] == a["eta_min"]:
        return _const(a["value"])
    return ("cosine", a["value"], a["eta_min"], length, None, start)


def _warmup(a: Arguments, time: int, origin: int) -> Any:
    end = origin + a["duration"]
    if time >= end:
        return meaning(a["then"], time, end)
    return _line(origin, decimal(a["start"]), end, decimal(first(a["then"], end)))


def _chain(a: Arguments, time: int, origin: int) -> Any:
    place = sum(b <= time for b in a["boundaries"])
    begin = a["boundaries"][place - 1] if place else 0
    return meaning(a["parts"][place], time, max(begin, origin))


def _cyclic(a: Arguments, time: int, origin: int) -> Any:
    up, down = a["up"], a["down"] or a["up"]
    if a["base"] == a["peak"]:
        return _const(a["base"])
    if a["mode"] == "exp_range" and a["gamma"] != 1:
        return ("exp_range", a["base"], a["peak"], up, down, a["gamma"], origin)
    cycle, phase = divmod(time - origin, up + down)
    start = origin + cycle * (up + down)
    low, high = decimal(a["base"]), decimal(a["peak"])
    if a["mode"] == "triangular2":
        high = low + (high - low) / 2**cycle
    return _line(start, low, start + up, high) if phase < up else _line(start + up, high, start + up + down, low)


def first(s: Any, time: int) -> float:
    """Return the first value of what begins at ``time``."""
    if not isinstance(s, Sequence):
        return float(s)
    a = s.arguments()
    if s.kind == "warmup":
        return float(a["start"]) if a["duration"] else first(a["then"], time)
    if s.kind == "chain":
        return first(a["parts"][sum(b <= time for b in a["boundaries"])], time)
    if s.kind == "cyclic":
        return float(a["base"])
    found = meaning(s, time, time)
    if found[0] == "const":
        return float(found[2])
    return float(found[1]) if found[0] != "line" else float(found[1] * time + found[2])


_MEANINGS: dict[str, Callable[[Arguments, int, int], Any]] = {
    "constant": lambda a, time, origin: _const(a["value"]),
    "values": _values,
    "multistep": _multistep,
    "step": lambda a, time, origin: _power(a["value"], a["gamma"], time // a["step_size"]),
    "exponential": _exponential,
    "linear": partial(_curve, "linear"),
    "polynomial": partial(_curve, "polynomial"),
    "cosine": partial(_curve, "cosine"),
    "cosine_restarts": _restarts,
    "cyclic": _cyclic,
    "warmup": _warmup,
    "chain": _chain,
}
