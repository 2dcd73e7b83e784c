"""Base classes of the conformance suites: laws are methods named ``test_...``, and no test runner is needed."""

from __future__ import annotations

import pickle
import unittest
from typing import Any, Protocol

from asyncsearch.engine.state import StudyState
from asyncsearch.launch.value_pickler import dumps
from asyncsearch.simulate.cluster import Simulation
from asyncsearch.testing.recording import Recorded, Steps, replayed, restored


class Described(Protocol):
    """A scheduler or a searcher, as a user writes it into a study."""

    def describe(self) -> str:
        """Return one line for people."""
        ...


class Suite:
    """A set of laws. pytest finds them in a subclass whose name begins with ``Test``; ``run`` tries them without."""

    def run(self) -> list[str]:
        """Try every law and return their names; of one that does not apply, with the reason.

        Raises:
            AssertionError: one does not hold.
        """
        names = [name for name in dir(self) if name.startswith("test_")]
        for number, name in enumerate(names):
            try:
                getattr(self, name)()
            except unittest.SkipTest as reason:
                names[number] = f"{name}: {reason}"
        return names


class MethodSuite(Suite):
    """Laws of schedulers and searchers alike."""

    num_trials: int
    """How many trials a simulated search has."""

    def make(self) -> Described:
        """Return the scheduler or searcher to try, each time the same."""
        raise NotImplementedError

    def test_it_describes_itself_in_one_line(self) -> None:
        words = self.make().describe()
        assert words.strip(), "describe() is empty"
        assert words.isprintable(), f"describe() is more than one line: {words!r}"

    def test_it_can_be_stored_with_the_study(self) -> None:
        made = self.make()
        copied = pickle.loads(dumps(made))  # noqa: S301
        assert copied.describe() == made.describe(), "a pickled copy describes itself otherwise"

    def test_the_same_seed_gives_the_same_search(self) -> None:
        assert self._searched().lines == self._searched().lines, "the same search again was another one"

    def test_it_goes_on_after_a_restart_as_without(self) -> None:
        first = self._searched()
        states = [first.state, replayed(self._state(), first.lines), restored(first.state, self._state())]
        searches = [Recorded(state) for state in states]
        for search in searches:
            self._search(search, 2 * self.num_trials)
        assert searches[1].lines == searches[0].lines, "after a replay the search goes on otherwise"
        assert searches[2].lines == searches[0].lines, "after a restore the search goes on otherwise"

    def _state(self, *, is_checked: bool = False, mode: str = "min", **config: Any) -> StudyState:
        """Return a fresh study of the scheduler or searcher, whose answers are checked if ``is_checked``."""
        raise NotImplementedError

    def _searched(self, workers: int = 3, max_failures: int = 0, **options: Any) -> Recorded:
        recorded = Recorded(self._state(max_failures=max_failures))
        self._search(recorded, self.num_trials, workers, **options)
        return recorded

    def _search(self, recorded: Recorded, num_trials: int, workers: int = 3, **options: Any) -> None:
        end = Simulation(recorded.state, Steps(), workers=workers, watch=recorded, **options).run(num_trials)
        assert end is not None, "the search never ends: nothing more happens, and it is not over"
        assert end.is_complete, f"the search ended early: {end.reason}"
