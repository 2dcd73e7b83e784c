"""The searcher of a program of Ray Tune: what Ray calls variants, and beside them the proposals of one that learns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from asyncsearch.errors import SpaceError
from asyncsearch.ids import TrialId
from asyncsearch.ray.space.configurations import ParamSpace, decoded, encoded, leaves, name_of
from asyncsearch.ray.trial.settings import TrialSettings
from asyncsearch.searchers.base_searcher import Searcher, SearcherState
from asyncsearch.searchers.observations import Observed
from asyncsearch.space import Domain, Space, choice
from asyncsearch.trial import Params


class ConfigSpace(Space):
    """The space of params whose names a program's ``param_space`` gives; each configuration of it is allowed."""

    def __init__(self, names: Iterable[str]) -> None:
        """``names``: of the places that vary; none where only the program can run it."""
        super().__init__({"open": True})
        self._nodes, self._parameters, self._order = {}, {}, ()
        self._varying = frozenset(names)

    @property
    def names(self) -> frozenset[str]:
        return self._varying

    @property
    def is_open(self) -> bool:
        return False  # the program knows them, if not the study

    def plain(self, params: Mapping[str, Any]) -> Params:
        return dict(params)


@dataclass(frozen=True, kw_only=True)
class Variants(Searcher):
    """Proposes the configurations of a ``param_space``, each of them once."""

    param_space: ParamSpace
    settings: TrialSettings
    learner: Searcher | None = None
    """Proposes the domains that have a counterpart of ours; the rest is drawn beside them. None if all are drawn."""
    program: bytes = field(default=b"", compare=False, repr=False)
    """What the program has asked for, pickled, by which ``Tuner.restore`` goes on. Empty if it cannot be pickled."""

    def begin(self, space: Space, seed: int) -> SearcherState:
        return self.begin_with(space, seed, ())

    def begin_with(self, space: Space, seed: int, earlier: Sequence[Observed]) -> SearcherState:
        if self.learner is None:
            return VariantsState(self.param_space, seed)
        domains = learned(self.param_space)
        if not domains:
            raise SpaceError(
                "Nothing in param_space can be searched by a search_alg: give it domains, or leave it out."
            )
        names = {name: f"p{number}" for number, name in enumerate(domains)}  # ours have no "/" and no "."
        inner = Space({names[name]: domain for name, domain in domains.items()})
        return LearnedState(self.param_space, seed, self.learner.begin(inner, seed), names)

    def describe(self) -> str:
        names = [name_of(place) for place, _ in leaves(self.param_space.space)]
        how = "as Ray's BasicVariantGenerator" if self.learner is None else f"by {self.learner.describe()}"
        return f"{', '.join(names) or 'one configuration'}, {how}"


class VariantsState(SearcherState):
    """Draws each configuration when it is asked for, so it keeps nothing."""

    def __init__(self, param_space: ParamSpace, seed: int) -> None:
        self._param_space, self._seed = param_space, seed

    def propose(self, number: int) -> Params | None:
        return self._param_space.draw(number, self._seed)

    def length(self) -> int | None:
        return self._param_space.length()


class LearnedState(SearcherState):
    """Passes on what it is told to the searcher that learns, in the names of that one's space."""

    def __init__(self, param_space: ParamSpace, seed: int, inner: SearcherState, names: Mapping[str, str]) -> None:
        self._param_space, self._seed, self._inner = param_space, seed, inner
        self._names = dict(names)
        self._leaves = {name_of(place): leaf for place, leaf in leaves(param_space.space)}

    @property
    def learns(self) -> bool:
        return self._inner.learns

    def propose(self, number: int) -> Params | None:
        if self._param_space.is_beyond(number) or number < len(self._param_space.presets):
            return self._param_space.draw(number, self._seed)
        proposed = self._inner.propose(number)
        if proposed is None:
            return None
        given = {name: decoded_of(self._leaves[name], proposed[ours]) for name, ours in self._names.items()}
        return self._param_space.draw(number, self._seed, given)

    def notes(self, number: int) -> dict[str, Any]:
        return self._inner.notes(number)

    def length(self) -> int | None:
        return self._param_space.length()

    def created(self, trial: TrialId, params: Params) -> None:
        self._inner.created(trial, {ours: self._known(name, params[name]) for name, ours in self._names.items()})

    def _known(self, name: str, value: Any) -> Any:
        options = getattr(self._leaves[name], "categories", None)
        if options is None:
            return value
        labels = [encoded(self._leaves[name], option, name) for option in options]
        return labels.index(value) if value in labels else 0

    def noted(self, trial: TrialId, notes: dict[str, Any]) -> None:
        self._inner.noted(trial, notes)

    def run_requested(self, num_trials: int | None) -> None:
        self._inner.run_requested(num_trials)

    def reported(self, trial: TrialId, resource: int, score: float | None) -> None:
        self._inner.reported(trial, resource, score)

    def completed(self, trial: TrialId, resource: int, score: float | None) -> None:
        self._inner.completed(trial, resource, score)

    def stopped(self, trial: TrialId, resource: int, score: float | None) -> None:
        self._inner.stopped(trial, resource, score)

    def failed(self, trial: TrialId, resource: int) -> None:
        self._inner.failed(trial, resource)

    def snapshot(self) -> dict[str, Any]:
        return self._inner.snapshot()

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._inner.restore(snapshot)


def learned(param_space: ParamSpace) -> dict[str, Domain]:
    """Return the domains of ours that a searcher may search, by name; choices by their numbers."""
    found: dict[str, Domain] = {}
    for place, leaf in leaves(param_space.space):
        options = getattr(leaf, "categories", None)
        domain = choice(*range(len(options))) if options is not None else getattr(leaf, "counterpart", lambda: None)()
        if domain is not None:
            found[name_of(place)] = domain
    return found


def decoded_of(leaf: Any, value: Any) -> Any:
    """Return the program's value of a proposal: choices come by their numbers."""
    options = getattr(leaf, "categories", None)
    return decoded(leaf, value) if options is None else options[value]
