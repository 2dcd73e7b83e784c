"""Any sampler of Optuna as a searcher, through ask and tell: the living half.

Rule 1: pure. A proposal is a function of (space, seed, number, facts so far): each is made by a fresh sampler whose
seed is drawn for its number, so no sampler's own state is lost in a restart. Rule 2: a question changes nothing; what a
sampler writes goes into the journal as the proposal's notes.

    facts ──> Observations (level) ──> Storage ──> sampler ──> Dimensions ──> params

Imports optuna, so it is imported only when a study begins with ``OptunaSearch``.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import optuna
from optuna.trial import TrialState

from asyncsearch.errors import AsyncSearchError, SpaceError
from asyncsearch.ids import TrialId
from asyncsearch.randomness import below, generator
from asyncsearch.searchers.base_searcher import SearcherState
from asyncsearch.searchers.observations import Observations, Observed, TrialPosition
from asyncsearch.searchers.optuna_study import NAME, Dimensions, Storage
from asyncsearch.space import Space
from asyncsearch.trial import Params

MAX_ASKED = 20
"""How many proposals of a sampler the constraints may reject before a configuration is drawn from the space."""

_PURPOSE = "searchers.optuna"


class OptunaState(SearcherState):
    """Observations, and the same in Optuna's storage, which is derived from them."""

    def __init__(self, searcher: Any, space: Space, seed: int, earlier: Sequence[Observed]) -> None:
        self._searcher = searcher
        """The ``OptunaSearch`` that began it, whose module imports this one."""
        self.max_batch = searcher.max_batch
        self._space = space
        self._seed = seed
        self._initial = space.initial
        self._dimensions = Dimensions(space)
        self._observations = Observations(searcher.enough(space))
        for trial in earlier:
            self._observations.add_observed(trial)
        self._first = len(earlier)
        """Index of the study's first own trial among all that are known."""
        self._storage = Storage()
        with _quiet:
            self._study = optuna.load_study(study_name=NAME, storage=self._storage, sampler=searcher.make(0))
        self._last_proposal: tuple[int, Params, dict[str, Any]] | None = None
        """Number, params and notes. None if a fact has come since."""
        self._fill_storage(0)

    def propose(self, number: int) -> Params:
        return self._space.nest(self._space.flatten(self._proposal(number)[1]))

    def notes(self, number: int) -> dict[str, Any]:
        return self._proposal(number)[2]

    def created(self, trial: TrialId, params: Params) -> None:
        self._observations.add(params)
        self._add_to_storage(params)
        self._refresh(self._index(trial), False)

    def noted(self, trial: TrialId, notes: dict[str, Any]) -> None:
        self._observations.trials[self._index(trial)].notes = notes
        self._storage.note(self._index(trial), notes)

    def reported(self, trial: TrialId, resource: int, score: float | None) -> None:
        number = self._index(trial)
        if self._observations.trials[number].position is not TrialPosition.BRANCHED:
            self._add_value(number, resource, score)
            self._refresh(number, self._observations.report(number, resource, score))

    def paused(self, trial: TrialId, resource: int, score: float | None) -> None:
        self._set_position(trial, TrialPosition.PAUSED)

    def promoted(self, trial: TrialId, from_resource: int, to_resource: int) -> None:
        self._set_position(trial, TrialPosition.RUNNING)

    def branched(self, trial: TrialId, donor: TrialId, params: Params, resource: int, to_resource: int) -> None:
        self._set_position(trial, TrialPosition.BRANCHED)

    def completed(self, trial: TrialId, resource: int, score: float | None) -> None:
        self._end(trial, TrialPosition.COMPLETED, resource, score)

    def stopped(self, trial: TrialId, resource: int, score: float | None) -> None:
        self._end(trial, TrialPosition.STOPPED, resource, score)

    def failed(self, trial: TrialId, resource: int) -> None:
        self._end(trial, TrialPosition.FAILED, resource, None)

    def snapshot(self) -> dict[str, Any]:
        return {"trials": self._observations.snapshot(self._first)}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._observations.restore(snapshot["trials"])
        self._fill_storage(self._first)

    def _index(self, trial: TrialId) -> int:
        """Return the index of a trial among all that are known."""
        return self._first + trial

    def _set_position(self, trial: TrialId, position: TrialPosition) -> None:
        observed = self._observations.trials[self._index(trial)]
        if observed.position is not TrialPosition.BRANCHED:
            observed.position = position
            self._refresh(self._index(trial), False)

    def _end(self, trial: TrialId, position: TrialPosition, resource: int, score: float | None) -> None:
        if self._observations.trials[self._index(trial)].position is TrialPosition.BRANCHED:
            return
        self._refresh(self._index(trial), self._observations.end(self._index(trial), position, resource, score))

    def _fill_storage(self, start: int) -> None:
        """Add the trials from a number on to the storage."""
        for number, trial in enumerate(self._observations.trials[start:], start):
            self._add_to_storage(trial.params)
            self._storage.note(number, trial.notes)
            for resource, score in trial.values.items():
                self._add_value(number, resource, score)
        self._refresh(0, True)

    def _add_value(self, number: int, resource: int, score: float | None) -> None:
        self._storage.trials[number].intermediate_values[resource] = math.nan if score is None else score

    def _add_to_storage(self, params: Params) -> None:
        values, distributions = self._dimensions.to_optuna(self._space.flatten(params))
        self._storage.add(values, distributions)

    def _refresh(self, number: int, has_level_changed: bool) -> None:
        """Update the storage for a trial, or for all of them if the level has changed."""
        self._last_proposal = None
        for other in range(len(self._observations.trials)) if has_level_changed else (number,):
            self._update(other)

    def _update(self, number: int) -> None:
        known, position = self._storage.trials[number], self._observations.trials[number].position
        result = self._observations.result(number)
        known.values = None if result is None else [result]
        if position is TrialPosition.FAILED:
            known.state = TrialState.FAIL
        elif result is not None:
            known.state = TrialState.COMPLETE
        elif position is TrialPosition.RUNNING:
            known.state = TrialState.RUNNING
        else:
            known.state = TrialState.PRUNED

    def _proposal(self, number: int) -> tuple[int, Params, dict[str, Any]]:
        if self._last_proposal is None or self._last_proposal[0] != number:
            self._last_proposal = (number, *self._make(number))
        return self._last_proposal

    def _make(self, number: int) -> tuple[Params, dict[str, Any]]:
        source = generator(self._seed, _PURPOSE, number)
        if number < len(self._initial):
            return self._space.complete(self._initial[number], source), {}
        for _ in range(MAX_ASKED):
            flat, notes = self._ask(below(source, 1 << 32))
            if self._space.allows(flat):
                return self._space.nest(flat), notes
        return self._space.sample(source), {}

    def _ask(self, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the flat configuration that a fresh sampler proposes, and its notes."""
        with _quiet:
            self._study.sampler = self._searcher.make(seed)
            try:
                flat = self._dimensions.suggest(self._study.ask())
            except Exception as error:
                raise self._refusal(error) from error
            finally:
                notes = self._storage.withdraw()
        return flat, notes

    def _refusal(self, error: Exception) -> AsyncSearchError:
        sampler = type(self._study.sampler).__name__
        what = f"{self._searcher.describe()}: {sampler}"
        if isinstance(error, ImportError):  # some samplers import what they need when they are asked
            missing: AsyncSearchError = self._searcher.missing(error)
            return missing
        if isinstance(error, SpaceError):
            return SpaceError(f"{what} proposes what the space does not have. {error} Is it made for another space?")
        return SpaceError(
            f"{what} raised {type(error).__name__}: {error}. Give it other options, or take another sampler."
        )


class _Quiet:
    """Suppresses Optuna's log lines and warnings about settings that are intended, in a ``with``.

    Both are settings of the process, and several studies may ask at once: the first one in saves them, the last one out
    restores them. Thread-safe.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._depth = 0
        self._saved = ExitStack()

    def __enter__(self) -> None:
        with self._guard:
            if self._depth == 0:
                with ExitStack() as saved:
                    saved.callback(optuna.logging.set_verbosity, optuna.logging.get_verbosity())
                    saved.enter_context(warnings.catch_warnings())
                    warnings.simplefilter("ignore")
                    optuna.logging.set_verbosity(optuna.logging.ERROR)
                    self._saved = saved.pop_all()
            self._depth += 1

    def __exit__(self, *error: object) -> None:
        with self._guard:
            self._depth -= 1
            if self._depth == 0:
                self._saved.close()


_quiet = _Quiet()
