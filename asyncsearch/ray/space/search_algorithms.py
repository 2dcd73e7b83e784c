"""The search algorithms that a program names: Ray's variants, Optuna's samplers, and others by one that is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from asyncsearch.errors import UsageError
from asyncsearch.ray.space.foreign_spaces import with_chosen_values, with_tune_domains
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.searchers.optuna import OptunaSearch as SamplerSearch


class SearchAlgorithm:
    """Says what proposes the configurations."""

    is_grid_constant = False
    name: ClassVar[str] = "BasicVariantGenerator"

    def __init__(
        self,
        space: Any = None,
        *,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        seed: Any = None,
    ) -> None:
        self.space, self.metric, self.mode = space, metric, mode
        self.points_to_evaluate = points_to_evaluate
        self.seed = seed_of(seed)
        self.notes: list[str] = []

    def learner(self) -> Searcher | None:
        """Return the searcher of ours that learns. None if nothing does."""
        return None

    def space_of(self, param_space: Any) -> Any:
        """Return the space that is searched: the tuner's, with that of the algorithm."""
        if self.space is None:
            return param_space
        if not isinstance(self.space, Mapping):
            raise UsageError(
                f"{self.name}(space=...) is a {type(self.space).__name__}: give the domains of tune in "
                "param_space= of the "
                "tuner, {'lr': tune.loguniform(1e-4, 1e-1)}; spaces in code are programs of Optuna, "
                "docs/migrate_optuna.md."
            )
        # What is foreign in the tuner's own space is a constant there.
        space = {**(param_space or {}), **with_tune_domains(self.space)}
        if self.points_to_evaluate is not None:
            given = self.points_to_evaluate
            self.points_to_evaluate = [with_chosen_values(one, space, self.space) for one in given]
        return space


class BasicVariantGenerator(SearchAlgorithm):
    """Draws from the domains, and tries each point of a grid."""

    def __init__(
        self,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        max_concurrent: int = 0,
        constant_grid_search: bool = False,
        random_state: Any = None,
    ) -> None:
        super().__init__(points_to_evaluate=points_to_evaluate, seed=random_state)
        self.max_concurrent, self.is_grid_constant = max_concurrent, constant_grid_search


class SamplerAlgorithm(SearchAlgorithm):
    """What learns: by a sampler of Optuna; in programs it is ``OptunaSearch``."""

    name: ClassVar[str] = "OptunaSearch"
    sampler: ClassVar[str] = "tpe"
    replaces: ClassVar[str] = ""
    """The algorithm of another library that it stands for. Empty means Optuna's own."""

    def __init__(
        self,
        space: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        sampler: Any = None,
        *,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        if sampler is not None and self.replaces:  # the place of another argument in each of them
            raise UsageError(f"{self.name}(..., {sampler!r}): write what follows points_to_evaluate with its name.")
        given = space if space is not None else options.pop("search_space", None)
        super().__init__(given, metric=metric, mode=mode, points_to_evaluate=points_to_evaluate, seed=seed)
        self.max_concurrent = options.pop("max_concurrent", None)
        self._sampler = sampler
        if options and not self.replaces:
            raise UsageError(
                f"OptunaSearch({next(iter(options))}=...) is not known here; it has space, metric, mode, "
                "points_to_evaluate, "
                "sampler and seed."
            )
        if isinstance(metric, list | tuple):
            raise UsageError(f"OptunaSearch(metric={metric!r}): a search has one metric here; name the first.")
        if self.replaces:
            named = f", and {', '.join(options)} of it have no effect" if options else ""
            self.notes.append(f"{self.replaces} is not run here: Optuna's {self.sampler} proposes instead{named}.")

    def learner(self) -> Searcher | None:
        return SamplerSearch(self.sampler if self._sampler is None else self._sampler)


def substitute_of(name: str, sampler: str) -> type[SamplerAlgorithm]:
    """Return the class of an algorithm of another library, by the sampler that takes its place."""
    fields = {"name": name, "sampler": sampler, "replaces": name, "__module__": __name__}
    return type(name, (SamplerAlgorithm,), fields)


OTHERS = {
    name: substitute_of(name, sampler)
    for name, sampler in {
        "HyperOptSearch": "tpe",
        "TuneBOHB": "tpe",
        "BayesOptSearch": "gp",
        "AxSearch": "gp",
        "SkOptSearch": "gp",
        "DragonflySearch": "gp",
        "HEBOSearch": "gp",
        "ZOOptSearch": "cmaes",
        "NevergradSearch": "cmaes",
    }.items()
}
"""Algorithms of other libraries, by name."""


class ConcurrencyLimiter(SearchAlgorithm):
    """Lets at most ``max_concurrent`` trials run at a time."""

    def __init__(self, searcher: SearchAlgorithm, max_concurrent: int, batch: bool = False) -> None:
        super().__init__()
        if batch:
            raise UsageError(
                "ConcurrencyLimiter(batch=True) is not known here: trials begin as workers are free. Leave it."
            )
        if max_concurrent < 1:
            raise UsageError(f"ConcurrencyLimiter(max_concurrent={max_concurrent!r}) must be a whole number from 1.")
        self.searcher, self.max_concurrent = algorithm_of(searcher), max_concurrent


_BY_NAME = {"variant_generator": BasicVariantGenerator, "random": BasicVariantGenerator, "optuna": SamplerAlgorithm} | {
    "hyperopt": OTHERS["HyperOptSearch"],
    "bayesopt": OTHERS["BayesOptSearch"],
    "bohb": OTHERS["TuneBOHB"],
    "ax": OTHERS["AxSearch"],
}


def create_searcher(search_alg: str, **options: Any) -> SearchAlgorithm:
    """Return the algorithm of a name, as ``tune.run(search_alg="optuna")``."""
    kind = _BY_NAME.get(search_alg.lower())
    if kind is None:
        raise UsageError(f"search_alg={search_alg!r} is not known here; these are: {', '.join(_BY_NAME)}.")
    made: SearchAlgorithm = kind(**options)
    return made


def algorithm_of(given: Any) -> SearchAlgorithm:
    """Return the algorithm that a program names; by default Ray's own.

    Raises:
        UsageError: it is an algorithm of its own.
    """
    if given is None:
        return BasicVariantGenerator()
    if isinstance(given, str):
        return create_searcher(given)
    if isinstance(given, SearchAlgorithm):
        return given
    raise UsageError(
        f"search_alg={type(given).__name__}(...) is not known here: use OptunaSearch, or a searcher of "
        "asyncsearch in a "
        "Study (docs/searchers.md)."
    )


def seed_of(given: Any) -> int:
    """Return a seed; that of a generator is the next number that it draws."""
    if given is None:
        return 0
    return int(given.randint(2**31)) if hasattr(given, "randint") else int(given)


def __getattr__(name: str) -> Any:
    """Return the algorithm of another library, by its name."""
    try:
        return OTHERS[name]
    except KeyError:
        raise AttributeError(name) from None
