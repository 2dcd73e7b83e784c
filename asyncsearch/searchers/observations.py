"""The reports that a searcher learns from, and the resource at which it compares trials.

Values at different resources do not compare, so all are taken at one: the *level*, the highest resource at which
enough trials that did not fail have a result. A trial that completed below it (its function returned) keeps its last
result at every level above. This is BOHB's choice of a budget (Falkner et al. 2018, section 3.2), at any time.

A searcher that does not learn begins with the best trials of earlier studies instead, in a warm start.

Rule 1: pure; knows facts only. Rule 2: scores as the engine gives them: smaller is better, None is no result.
"""

from __future__ import annotations

import bisect
import enum
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from asyncsearch.errors import SpaceError
from asyncsearch.randomness import below, generator
from asyncsearch.sequences import is_sequence
from asyncsearch.space import Space
from asyncsearch.space.dotted_names import nest
from asyncsearch.space.parameter_values import show_plain
from asyncsearch.trial import Params


class TrialPosition(enum.Enum):
    """The state of a trial, as far as a searcher needs it."""

    RUNNING = "running"
    """It trains, or waits for a worker."""
    PAUSED = "paused"
    COMPLETED = "completed"
    STOPPED = "stopped"
    BRANCHED = "branched"
    """It took over another's weights: its later reports do not follow from its params, so they do not count."""
    FAILED = "failed"


class Observed(msgspec.Struct):
    """One trial: its params and its reports."""

    params: Params
    notes: dict[str, Any] = {}
    """The searcher's own notes on the proposal."""
    values: dict[int, float | None] = {}
    """Resource -> score, of every report."""
    position: TrialPosition = msgspec.field(default=TrialPosition.RUNNING, name="stand")
    resource: int = 0
    """At which resource it ended; 0 while it has not."""
    score: float | None = None
    """Its last one, once it has ended."""


class Observations:
    """Trials in the order in which they began, and the level at which they are compared.

    Args:
        enough: how many results a resource needs to become the level, at least 1.
    """

    def __init__(self, enough: int) -> None:
        self._enough = enough
        self.trials: list[Observed] = []
        self.level = 0
        """Resource at which trials are compared; 0 while there are not enough results at any."""
        self._counts: dict[int, int] = {}
        """Resource -> how many trials that did not fail have reported a result there."""
        self._ends: list[int] = []
        """Resources at which trials completed with a result, ascending."""

    def add(self, params: Params) -> None:
        """A trial began."""
        self.trials.append(Observed(params))

    def report(self, number: int, resource: int, score: float | None) -> bool:
        """A trial reported; return whether the level has risen."""
        self.trials[number].values[resource] = score
        if score is None:
            return False
        self._counts[resource] = self._counts.get(resource, 0) + 1
        return self._raise_to(resource)

    def end(self, number: int, position: TrialPosition, resource: int, score: float | None) -> bool:
        """A trial ended; return whether the level has changed: it falls when too many of its trials have failed."""
        trial = self.trials[number]
        trial.position, trial.resource, trial.score = position, resource, score
        if position is TrialPosition.FAILED:
            return self._leave_out(trial)
        if position is not TrialPosition.COMPLETED or score is None:
            return False
        bisect.insort(self._ends, resource)
        before = self.level
        for reported in sorted(other for other in self._counts if other > max(resource, before)):
            self._raise_to(reported)
        return self.level > before

    def result(self, number: int) -> float | None:
        """Return the score of a trial at the level. None if it has none."""
        trial = self.trials[number]
        if trial.position is TrialPosition.FAILED:
            return None
        if trial.position is TrialPosition.COMPLETED and trial.resource <= self.level:
            return trial.score
        return trial.values.get(self.level)

    def snapshot(self, start: int = 0) -> list[Any]:
        """Return the trials from a number on as JSON values."""
        return [
            [its.params, its.notes, list(map(list, its.values.items())), its.position.value, its.resource, its.score]
            for its in self.trials[start:]
        ]

    def restore(self, snapshot: list[Any]) -> None:
        """Add the trials of a snapshot; the level does not depend on the order of facts."""
        for params, notes, values, position, resource, score in snapshot:
            self.add_observed(Observed(params, notes, dict(values), TrialPosition(position), resource, score))

    def add_observed(self, trial: Observed) -> None:
        """Add a trial with all its reports."""
        number = len(self.trials)
        self.add(trial.params)
        self.trials[number].notes = trial.notes
        for resource, score in trial.values.items():
            self.report(number, resource, score)
        if trial.resource or trial.position is TrialPosition.FAILED:
            self.end(number, trial.position, trial.resource, trial.score)
        else:
            self.trials[number].position = trial.position

    def _leave_out(self, trial: Observed) -> bool:
        """Remove the results of a trial that failed; return whether the level has fallen."""
        for resource, score in trial.values.items():
            if score is not None:
                self._counts[resource] -= 1
        if not self.level or self._is_enough(self.level):
            return False
        self.level = max((at for at in self._counts if at < self.level and self._is_enough(at)), default=0)
        return True

    def _raise_to(self, resource: int) -> bool:
        """Make a resource the level if it is higher and has enough results; return whether it was done."""
        if resource <= self.level or not self._is_enough(resource):
            return False
        self.level = resource
        return True

    def _is_enough(self, resource: int) -> bool:
        count = self._counts[resource]
        return count > 0 and count + bisect.bisect_left(self._ends, resource) >= self._enough


BEST = 5
"""How many of the earlier trials a searcher that does not learn proposes again."""


def with_best_initial(space: Space, earlier: Sequence[Observed]) -> Space:
    """Return the space with the best earlier trials as further initial points, except those that it has.

    The best are the trials that trained furthest, and of these the ones with the best last score.
    """
    if not earlier:
        return space
    ended = [(trial, _last(trial)) for trial in earlier if trial.position is not TrialPosition.FAILED]
    ranked = sorted((-resource, score, at) for at, (_, (resource, score)) in enumerate(ended) if score is not None)
    points = {str(ended[at][0].params): ended[at][0].params for _, _, at in ranked}
    own = {str(space.flatten(point)) for point in space.initial}
    return space.with_initial([point for point in list(points.values())[:BEST] if str(space.flatten(point)) not in own])


def continued_seed(seed: int, earlier: Sequence[Observed]) -> int:
    """Return the seed of a search that continues earlier trials.

    With the seed itself it would repeat their proposals if the earlier study had the same seed.
    """
    if not earlier:
        return seed
    trained = hashlib.sha256(msgspec.json.encode([trial.params for trial in earlier])).hexdigest()
    return below(generator(seed, f"searchers.earlier/{trained}", 0), 1 << 63)


def differences(space: Space, params: Params) -> Iterator[tuple[str, str]]:
    """Yield (name, reason) for every parameter because of which params of another space do not fit this one."""
    known: dict[str, Any] = {}
    for path, value in _leaves(space, "", params):
        if path in space.names:
            known[path] = value
        else:
            yield path, "is not in this space"
    try:
        given = space.flatten(nest(known))
    except SpaceError as error:
        yield str(error).partition(":")[0], f"is not a sequence of this space ({error})"
        return
    flat: dict[str, Any] = {}
    for name in space.order:
        is_active = space.is_active(name, flat)
        if is_active and name not in given:
            yield name, "is in this space only"
        elif name in given and not is_active:
            yield name, "is given there where it does not exist here"
        elif is_active:
            domain = space.parameters[name]
            if not domain.contains(given[name]):
                yield name, f"has a value outside {domain.call()}: {show_plain(given[name])}"
            flat[name] = given[name]


def _last(trial: Observed) -> tuple[int, float | None]:
    """Return the resource and the score of the last report that has one."""
    found = [(resource, score) for resource, score in trial.values.items() if score is not None]
    return max(found) if found else (0, None)


def _leaves(space: Space, prefix: str, params: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in params.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping) and path not in space.names and not is_sequence(value):
            yield from _leaves(space, f"{path}.", value)
        else:
            yield path, value
