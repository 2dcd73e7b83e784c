"""Any sampler of Optuna as a searcher, through ask and tell: the description that the user writes.

Rule 1: pure. Rule 2: optuna is imported only when a study begins with this searcher; ``optuna_state.py`` and what that
imports need it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsearch.errors import UsageError
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.searchers.observations import Observed
from asyncsearch.space import Space

if TYPE_CHECKING:
    from asyncsearch.searchers.optuna_state import OptunaState

_STARTUP = 10
"""Number of results before which Optuna's model-based samplers draw at random, by default."""

_NAMES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "cmaes": ("CmaEsSampler", {"warn_independent_sampling": False}),
    "gp": ("GPSampler", {}),
    "nsgaii": ("NSGAIISampler", {}),
    "random": ("RandomSampler", {}),
    "tpe": ("TPESampler", {"constant_liar": True, "group": True, "multivariate": True}),
}
"""Name -> class in ``optuna.samplers``, and our options for it."""
SAMPLER_NAMES = tuple(_NAMES)
_OURS = {"QMCSampler": "SobolSearch()", "GridSampler": "GridSearch()", "BruteForceSampler": "GridSearch()"}
"""Samplers whose proposals depend on each other -> what to write instead."""


@dataclass(frozen=True)
class OptunaSearch(Searcher):
    """Proposes the initial points of the space, then the proposals of a sampler of Optuna, without end.

    All trials are compared at one resource, the highest at which enough of them have a result; so with ASHA and TPE
    this is an asynchronous BOHB. docs/searchers.md says which trials a sampler sees as what. Needs optuna.

    Example::

        OptunaSearch()  # TPE
        OptunaSearch("cmaes", options={"n_startup_trials": 20})
        OptunaSearch(TPESampler(multivariate=False))
        OptunaSearch(lambda seed: TPESampler(seed=seed, multivariate=False))
    """

    sampler: str | Callable[[int], Any] | Any = "tpe"
    """``"cmaes"``, ``"gp"``, ``"nsgaii"``, ``"random"`` or ``"tpe"``; or a sampler, of which each proposal gets a copy
    with a seed of its own (the seed that it was made with does not count); or a function of a seed, below 2**32, that
    gives a sampler. It is called for each proposal, and what it returns must depend on the seed only."""
    options: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    """Arguments of the named sampler, except its seed."""
    min_observations: int | None = field(default=None, kw_only=True)
    """How many trials must have a result at a resource for trials to be compared there, at least 1. None means 10, or
    the option ``n_startup_trials`` if larger, and at least 3 more than there are parameters, as in BOHB."""
    max_batch: int | None = field(default=None, kw_only=True)
    """How many trials a worker may train together, at least 1, where a study packs: the later ones of a pack are
    proposed without the results of the earlier ones. None means as many as ``pack=`` says."""

    def __post_init__(self) -> None:
        if isinstance(self.sampler, str) and self.sampler not in _NAMES:
            hint = " Quasi-random points are SobolSearch()." if self.sampler == "qmc" else ""
            raise UsageError(
                f"OptunaSearch({self.sampler!r}): there is no sampler of this name; the names are "
                f"{', '.join(map(repr, _NAMES))}. Any other: a function of a seed that returns it.{hint}"
            )
        kind = type(self.sampler).__name__
        if is_sampler(self.sampler) and kind in _OURS:
            raise UsageError(
                f"OptunaSearch({kind}(...)): each proposal is made by a fresh sampler, and the points of this one "
                f"belong together: write searcher={_OURS[kind]}."
            )
        if not isinstance(self.sampler, str) and not callable(self.sampler) and not is_sampler(self.sampler):
            raise UsageError(
                f"OptunaSearch({self.sampler!r}): write a name such as 'tpe', a sampler such as TPESampler(), or a "
                "function of a seed that returns one, lambda seed: TPESampler(seed=seed)."
            )
        options: Any = self.options
        if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
            raise UsageError(
                f"OptunaSearch(options={options!r}): write the sampler's arguments by name, e.g. "
                "options={'n_startup_trials': 20}."
            )
        if self.options and not isinstance(self.sampler, str):
            raise UsageError(
                "OptunaSearch(options=...) are for a named sampler: give them to the sampler itself, "
                "OptunaSearch(TPESampler(n_startup_trials=20))."
            )
        if "seed" in self.options:
            raise UsageError("OptunaSearch(options={'seed': ...}): seeds come from Study(seed=...): leave it out.")
        for name in ("min_observations", "max_batch"):
            value: Any = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise UsageError(f"OptunaSearch({name}={value!r}): write a number of trials from 1 on, or None.")

    def begin(self, space: Space, seed: int) -> OptunaState:
        return self.begin_with(space, seed, ())

    def begin_with(self, space: Space, seed: int, earlier: Sequence[Observed]) -> OptunaState:
        """Return a fresh state for one study, whose sampler knows the earlier trials.

        Raises:
            UsageError: optuna or what the sampler needs is not installed, or the sampler cannot be made.
            SpaceError: the sampler cannot search this space, or the constraints reject everything.
        """
        try:
            import optuna  # noqa: F401

            from asyncsearch.searchers.optuna_state import OptunaState
        except ImportError as error:
            message = "OptunaSearch() needs optuna, which is not installed: pip install 'asyncsearch[optuna]'."
            raise UsageError(message) from error
        state = OptunaState(self, space, seed, earlier)
        # A sampler that does not support the space fails before a worker starts, not in the middle of a search.
        for number in range(len(space.initial) + 1):
            state.propose(number)
        return state

    def describe(self) -> str:
        sampler = self.sampler
        name = repr(sampler) if isinstance(sampler, str) else getattr(sampler, "__qualname__", type(sampler).__name__)
        if is_sampler(sampler):
            name += "()"
        # Without addresses, so that it is the same in every process.
        shown = re.sub(r" at 0x[0-9a-f]+", "", repr(dict(self.options)))
        options = f", options={shown}" if self.options else ""
        counts = [(word, getattr(self, word)) for word in ("min_observations", "max_batch")]
        others = "".join(f", {word}={value}" for word, value in counts if value is not None)
        return f"OptunaSearch({name}{options}{others})"

    def make(self, seed: int) -> Any:
        """Return a fresh sampler.

        Raises:
            UsageError: it cannot be made, or is none of Optuna's.
        """
        import optuna

        try:
            sampler = self._made(seed)
        except ImportError as error:
            raise self.missing(error) from error
        except Exception as error:
            raise UsageError(f"{self.describe()}: the sampler cannot be made: {error}. {self._remedy}") from error
        if not isinstance(sampler, optuna.samplers.BaseSampler):
            raise UsageError(
                f"{self.describe()}: the function returned {sampler!r}, not a sampler of Optuna. {self._remedy}"
            )
        return sampler

    @property
    def _remedy(self) -> str:
        if isinstance(self.sampler, str):
            return f"Write the options that optuna.samplers.{_NAMES[self.sampler][0]} takes, except its seed."
        return "Write a function of a seed that returns a sampler, lambda seed: TPESampler(seed=seed)."

    def missing(self, error: ImportError) -> UsageError:
        """Return an error that names the packages to install."""
        return UsageError(
            f"{self.describe()} needs a package that is not installed: {error}. pip install 'asyncsearch[optuna]' "
            "installs those of all samplers except 'gp', which also needs torch and scipy: "
            "'asyncsearch[optuna,sobol,torch]'."
        )

    def _made(self, seed: int) -> Any:
        import optuna

        if is_sampler(self.sampler):
            return _reseeded(self.sampler, seed)
        if not isinstance(self.sampler, str):
            return self.sampler(seed)
        kind, ours = _NAMES[self.sampler]
        return getattr(optuna.samplers, kind)(seed=seed, **{**ours, **self.options})

    def enough(self, space: Space) -> int:
        """Return how many results make a resource the one at which trials are compared."""
        if self.min_observations is not None:
            return self.min_observations
        parameters = sum(domain.size != 1 for domain in space.parameters.values())
        startup = self.options.get("n_startup_trials", _STARTUP)
        return max(_STARTUP, startup if isinstance(startup, int) else 0, parameters + 3)


def is_sampler(value: object) -> bool:
    """Return whether a value is a sampler of Optuna, which is not imported for the question."""
    return any(
        base.__name__ == "BaseSampler" and base.__module__.startswith("optuna.samplers") for base in type(value).__mro__
    )


def _reseeded(sampler: Any, seed: int) -> Any:
    """Return a copy of a sampler all of whose generators begin anew, each with a seed that follows from ``seed``."""
    copied = copy.deepcopy(sampler)
    for number, source in enumerate(_generators(copied, set())):
        source.seed((seed + number) % 2**32)
    return copied


def _generators(owner: Any, seen: set[int]) -> Iterator[Any]:
    """Yield the generators of a sampler, and of the samplers that it holds, in the order of their attributes."""
    seen.add(id(owner))
    for value in vars(owner).values():
        if type(value).__name__ == "LazyRandomState":
            yield value.rng
        elif isinstance(value, np.random.RandomState):
            yield value
        elif is_sampler(value) and id(value) not in seen:
            yield from _generators(value, seen)
