"""Any sampler of Optuna as a searcher, through ask and tell: what one study owns.

Rule 1: pure. A proposal is a function of (space, seed, number, facts so far): each is made by a fresh sampler whose
seed is drawn for its number, so no sampler's own state is lost in a restart. Rule 2: asking leaves nothing behind;
what a sampler writes down goes into the journal as the proposal's notes.

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
from asyncsearch.searchers.optuna_space import Dimensions
from asyncsearch.searchers.optuna_storage import NAME, Storage
from asyncsearch.space import Space
from asyncsearch.trial import Params

MAX_ASKED = 20
"""How many proposals of a sampler the constraints may reject before a configuration is drawn from the space."""

_PURPOSE = "searchers.optuna"


class OptunaState(SearcherState):
    """What the sampler is to know: observations, and the same in Optuna's storage, which is made from them."""

    def __init__(self, searcher: Any, space: Space, seed: int, earlier: Sequence[Observed]) -> None:
        self._searcher = searcher
        """The ``OptunaSearch`` that began it, whose module imports this one."""
        self._space = space
        self._seed = seed
        self._initial = space.initial
        self._dimensions = Dimensions(space)
        self._observations = Observations(searcher.enough(space))
        for trial in earlier:
            self._observations.take_in(trial)
        self._first = len(earlier)
        """Where the study's own trials begin among all that are known."""
        self._storage = Storage()
        with _quiet:
            self._study = optuna.load_study(study_name=NAME, storage=self._storage, sampler=searcher.make(0))
        self._asked: tuple[int, Params, dict[str, Any]] | None = None
        """The last answer: number, params and notes; None: a fact has come since."""
        self._fill_storage(0)

    def propose(self, number: int) -> Params:
        return self._space.nest(self._space.flatten(self._answer(number)[1]))

    def notes(self, number: int) -> dict[str, Any]:
        return self._answer(number)[2]

    def created(self, trial: TrialId, params: Params) -> None:
        self._observations.add(params)
        self._add_to_storage(params)
        self._refresh(self._at(trial), False)

    def noted(self, trial: TrialId, notes: dict[str, Any]) -> None:
        self._observations.trials[self._at(trial)].notes = notes
        self._storage.note(self._at(trial), notes)

    def reported(self, trial: TrialId, resource: int, score: float | None) -> None:
        number = self._at(trial)
        if self._observations.trials[number].stand is not TrialPosition.BRANCHED:
            self._add_value(number, resource, score)
            self._refresh(number, self._observations.report(number, resource, score))

    def paused(self, trial: TrialId, resource: int, score: float | None) -> None:
        self._stand(trial, TrialPosition.PAUSED)

    def promoted(self, trial: TrialId, from_resource: int, to_resource: int) -> None:
        self._stand(trial, TrialPosition.RUNNING)

    def branched(self, trial: TrialId, donor: TrialId, params: Params, resource: int, to_resource: int) -> None:
        self._stand(trial, TrialPosition.BRANCHED)

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

    def _at(self, trial: TrialId) -> int:
        """Return where a trial is among all that are known."""
        return self._first + trial

    def _stand(self, trial: TrialId, stand: TrialPosition) -> None:
        observed = self._observations.trials[self._at(trial)]
        if observed.stand is not TrialPosition.BRANCHED:
            observed.stand = stand
            self._refresh(self._at(trial), False)

    def _end(self, trial: TrialId, stand: TrialPosition, resource: int, score: float | None) -> None:
        if self._observations.trials[self._at(trial)].stand is TrialPosition.BRANCHED:
            return
        self._refresh(self._at(trial), self._observations.end(self._at(trial), stand, resource, score))

    def _fill_storage(self, start: int) -> None:
        """Bring the trials from a number on into the storage."""
        for number, trial in enumerate(self._observations.trials[start:], start):
            self._add_to_storage(trial.params)
            self._storage.note(number, trial.notes)
            for resource, score in trial.values.items():
                self._add_value(number, resource, score)
        self._refresh(0, True)

    def _add_value(self, number: int, resource: int, score: float | None) -> None:
        self._storage.trials[number].intermediate_values[resource] = math.nan if score is None else score

    def _add_to_storage(self, params: Params) -> None:
        told, distributions = self._dimensions.told(self._space.flatten(params))
        self._storage.add(told, distributions)

    def _refresh(self, number: int, has_level_changed: bool) -> None:
        """Say in the storage what is known of a trial now, or of all if they are compared elsewhere than before."""
        self._asked = None
        for other in range(len(self._observations.trials)) if has_level_changed else (number,):
            self._tell(other)

    def _tell(self, number: int) -> None:
        told, stand = self._storage.trials[number], self._observations.trials[number].stand
        result = self._observations.result(number)
        told.values = None if result is None else [result]
        if stand is TrialPosition.FAILED:
            told.state = TrialState.FAIL
        elif result is not None:
            told.state = TrialState.COMPLETE
        elif stand is TrialPosition.RUNNING:
            told.state = TrialState.RUNNING
        else:
            told.state = TrialState.PRUNED

    def _answer(self, number: int) -> tuple[int, Params, dict[str, Any]]:
        if self._asked is None or self._asked[0] != number:
            self._asked = (number, *self._make(number))
        return self._asked

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
    """Keeps Optuna from writing lines and warnings about what we set on purpose, in a ``with``.

    Both are of the whole process, and several studies may ask at once: the first one in saves them, the last one out
    brings them back. Safe from any thread.
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
