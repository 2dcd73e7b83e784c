"""What the conformance suites have in common: laws are methods named ``test_...``, and no test runner is needed."""

from __future__ import annotations

import pickle
from typing import Protocol

from asyncsearch.launch.value_pickler import dumps


class Described(Protocol):
    """What a user writes into a study: a scheduler or a searcher."""

    def describe(self) -> str:
        """Return one line for people."""
        ...


class Suite:
    """A set of laws. pytest finds them in a subclass whose name begins with ``Test``; ``run`` tries them without."""

    def run(self) -> list[str]:
        """Try every law and return their names.

        Raises:
            AssertionError: one does not hold.
        """
        names = [name for name in dir(self) if name.startswith("test_")]
        for name in names:
            getattr(self, name)()
        return names


class MethodSuite(Suite):
    """Laws of schedulers and searchers alike."""

    def make(self) -> Described:
        """Return what to try, each time the same."""
        raise NotImplementedError

    def test_it_describes_itself_in_one_line(self) -> None:
        words = self.make().describe()
        assert words.strip(), "describe() is empty"
        assert words.isprintable(), f"describe() is more than one line: {words!r}"

    def test_it_can_be_stored_with_the_study(self) -> None:
        made = self.make()
        copied = pickle.loads(dumps(made))  # noqa: S301
        assert copied.describe() == made.describe(), "a pickled copy describes itself otherwise"
