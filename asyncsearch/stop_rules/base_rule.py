"""The interface of stop rules, and how they are joined by ``|`` and ``&``.

Rule 1: pure. A rule knows only the ``StopProgress`` that it is given, time included, and keeps nothing: the same facts,
the same answer.
Rule 2: that a rule holds is a decision of the engine, in the journal with its reason; a replay asks no rule.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from asyncsearch.checked_calls import CheckedCalls
from asyncsearch.errors import UsageError
from asyncsearch.stop_rules.progress import StopProgress

_EXAMPLES = "Reached(0.99), Plateau(trials=20), Trained(10_000), Elapsed(3600), these joined by | and &, or a function"


class StopRule(metaclass=CheckedCalls):
    """Says when enough is trained. ``a | b`` holds when one of both does, ``a & b`` when both do."""

    @abc.abstractmethod
    def reason(self, progress: StopProgress) -> str:
        """Return why enough is trained, in words. Empty if it is not."""

    @abc.abstractmethod
    def describe(self) -> str:
        """Return the rule as it is written."""

    def due_s(self, progress: StopProgress) -> float | None:
        """Return the ``seconds`` of a progress beyond this one at which time alone may let it hold. None if none is."""
        return None

    def parts(self) -> Iterator[StopRule]:
        """Yield the rules that it consists of, none of them joined."""
        yield self

    def __or__(self, other: object) -> StopRule:
        return AnyOf((self, rule_of("|", other)))

    def __ror__(self, other: object) -> StopRule:
        return AnyOf((rule_of("|", other), self))

    def __and__(self, other: object) -> StopRule:
        return AllOf((self, rule_of("&", other)))

    def __rand__(self, other: object) -> StopRule:
        return AllOf((rule_of("&", other), self))

    def __bool__(self) -> bool:
        raise UsageError(f"{self.describe()} is a rule, neither true nor false: join rules by | and &, not or and and.")


@dataclass(frozen=True)
class _Joined(StopRule):
    rules: tuple[StopRule, ...]

    def due_s(self, progress: StopProgress) -> float | None:
        return min((due for rule in self.rules if (due := rule.due_s(progress)) is not None), default=None)

    def parts(self) -> Iterator[StopRule]:
        for rule in self.rules:
            yield from rule.parts()


class AnyOf(_Joined):
    """Holds when one of its rules does, for the reason of the first of them."""

    def reason(self, progress: StopProgress) -> str:
        return next((reason for rule in self.rules if (reason := rule.reason(progress))), "")

    def describe(self) -> str:
        return " | ".join(rule.describe() for rule in self.rules)


class AllOf(_Joined):
    """Holds when all of its rules do."""

    def reason(self, progress: StopProgress) -> str:
        reasons = [rule.reason(progress) for rule in self.rules]
        return ", and ".join(reasons) if all(reasons) else ""

    def describe(self) -> str:
        words = [(f"({one.describe()})" if isinstance(one, AnyOf) else one.describe()) for one in self.rules]
        return " & ".join(words)


@dataclass(frozen=True)
class FunctionRule(StopRule):
    """A function of the ``StopProgress``, which returns whether enough is trained, or the reason in words.

    It is asked from the first finite value on, so that it may compare ``progress.best`` with a number.
    """

    function: Callable[[StopProgress], Any]

    def reason(self, progress: StopProgress) -> str:
        if progress.best is None:
            return ""
        found = self.function(progress)
        if isinstance(found, str):
            return found
        if found is None or type(found).__name__ in ("bool", "bool_"):
            return f"{self._name} says so" if found else ""
        raise UsageError(
            f"{self._name} returned {found!r} where a stop rule returns True, False or a reason in words: write "
            "`return progress.best < 0.1`, for example."
        )

    def describe(self) -> str:
        return self._name

    @property
    def _name(self) -> str:
        return str(getattr(self.function, "__qualname__", type(self.function).__name__))


def rule_of(argument: str, given: object) -> StopRule:
    """Return a rule as it is, and a function as one.

    Raises:
        UsageError: it is neither; the message names what there is.
    """
    if isinstance(given, StopRule):
        return given
    if isinstance(given, type) and issubclass(given, StopRule):
        raise UsageError(f"{argument}={given.__name__} is a class: write {argument}={given.__name__}(...).")
    if callable(given):
        return FunctionRule(given)
    raise UsageError(f"{argument}={given!r} is no stop rule: write {_EXAMPLES} of the progress.")
