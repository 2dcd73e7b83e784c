"""The result of a check, and its text."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

_SHOWN = 3
_WIDTH = 26


class Finding(NamedTuple):
    """A part that breaks a requirement."""

    kind: str
    """The kind: weights, optimizer, buffers, scaler, order, offset, counter, generator, python generator, ..."""
    places: tuple[str, ...] = ()
    """Its places, as Python expressions in the trainable."""
    is_proved: bool = True
    """Whether restoring it changed the outcome; else it only differs."""

    def __str__(self) -> str:
        doubt = "" if self.is_proved else " (it differs; whether it matters is unknown)"
        return f"{self.kind}{': ' if self.places else ''}{_listed(self.places)}{doubt}"


@dataclasses.dataclass(frozen=True, repr=False)
class CheckResult:
    """The result of a check. It is true if every requirement holds; ``str()`` gives a readable report."""

    name: str
    units: int
    cut: int
    random: tuple[Finding, ...] | None = None
    """The parts that make two equal runs differ; None if they do not differ."""
    forgotten: tuple[Finding, ...] | None = None
    """The parts that a resumed run lacks; None if it continues bit by bit."""
    spoiled: tuple[Finding, ...] | None = None
    """The parts that ``save`` changes in the training that continues after it; None means nothing."""
    disturbed: tuple[Finding, ...] | None = None
    """The parts that ``evaluate`` changes; None means nothing."""
    noted: tuple[Finding, ...] = ()
    """Parts that a resumed run lacks and these few units did not need: no failure, and worth a look."""
    unread: tuple[str, ...] = ()
    """Places that cannot be looked into, each with its class: they are not compared, and may well be right."""
    difference: str = ""
    """The first difference between the uninterrupted run and the resumed one."""
    has_evaluation: bool = True
    """Whether there is an ``evaluate`` that could be checked."""

    @property
    def ok(self) -> bool:
        """Whether every requirement holds."""
        return not any(part is not None for part in self._parts)

    def __bool__(self) -> bool:
        return self.ok

    @property
    def names(self) -> tuple[str, ...]:
        """The kinds of all findings."""
        return tuple(finding.kind for part in self._parts if part for finding in part)

    @property
    def _parts(self) -> tuple[tuple[Finding, ...] | None, ...]:
        return self.random, self.forgotten, self.spoiled, self.disturbed

    def __str__(self) -> str:
        rest = self.units - self.cut
        lines = [f"{self.name}: {self.units} units at one go, and {self.cut} + {rest} with a checkpoint between them"]
        lines += _judged("same twice", "two runs of the same differ", self.random, "depends on")
        if self.random is not None:
            return "\n".join([*lines, _line("resumes bit by bit", "cannot be told before two runs are the same")])
        lines += _judged("resumes bit by bit", self.difference, self.forgotten, "forgotten")
        lines += [f"      not restored, and without effect in so few units: {finding}" for finding in self.noted]
        if self.unread:
            lines.append(f"      not compared, for it cannot be read: {_listed(self.unread)}")
        lines += _judged("save changes nothing", "what goes on after it is another training", self.spoiled, "changes")
        if self.has_evaluation:
            fault = "one more evaluation, another training"
            lines += _judged("evaluate changes nothing", fault, self.disturbed, "changes")
        else:
            lines.append(_line("evaluate changes nothing", "not checked: epochs(evaluate=...) was not given"))
        return "\n".join(lines)

    __repr__ = __str__


def _listed(places: tuple[str, ...]) -> str:
    more = f", and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return ", ".join(places[:_SHOWN]) + more


def _line(what: str, verdict: str) -> str:
    return f"  {what:<{_WIDTH}}{verdict}"


def _judged(what: str, fault: str, findings: tuple[Finding, ...] | None, word: str) -> list[str]:
    if findings is None:
        return [_line(what, "yes")]
    return [_line(what, f"NO: {fault}"), *(f"      {word} {finding}" for finding in findings)]
