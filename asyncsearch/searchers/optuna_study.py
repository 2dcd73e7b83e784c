"""A study in Optuna's terms: its space as distributions, and the storage from which Optuna's samplers read its facts.

Rule 1: no clock, no lock and no random names, unlike Optuna's own storages: equal facts make equal storages.
Rule 2: a question changes nothing. What a sampler writes goes to a *draft*, the trial that is being proposed, and is
lost with it unless its notes come back as a fact.
Rule 3: parameters have their dotted names. One that has a single value, or whose conditions do not hold, is not asked
for.

Imports optuna, so it is imported only when a study begins with ``OptunaSearch``.
"""

from __future__ import annotations

import copy
from collections.abc import Container, Mapping, Sequence
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState

from asyncsearch.errors import SpaceError
from asyncsearch.space import Choice, Domain, LogRandInt, LogUniform, QRandInt, Quantiled, QUniform, RandInt, Space
from asyncsearch.space.parameter_values import show_plain

NAME = "asyncsearch"
"""Name of the one study."""

_SHARED = ":relative_params:"
"""In the keys of attributes for other processes that propose at the same time; there are none."""


class Storage(BaseStorage):  # type: ignore[misc]
    """Trials by number, which is their id too; the last one may be a draft."""

    def __init__(self) -> None:
        self.trials: list[FrozenTrial] = []
        self.attributes: dict[str, Any] = {}
        """Attributes that samplers write to the study."""
        self._kept: dict[str, Any] | None = None
        """``attributes`` before the draft. None if there is no draft."""

    def add(self, params: dict[str, Any], distributions: dict[str, BaseDistribution]) -> None:
        """Add a running trial without reports."""
        self.trials.append(
            FrozenTrial(
                number=len(self.trials),
                trial_id=len(self.trials),
                state=TrialState.RUNNING,
                value=None,
                datetime_start=None,
                datetime_complete=None,
                params=params,
                distributions=distributions,
                user_attrs={},
                system_attrs={},
                intermediate_values={},
            )
        )

    def withdraw(self) -> dict[str, Any]:
        """Remove the draft, if there is one, and return the attributes that the sampler wrote, as JSON values."""
        if self._kept is None:
            return {}
        draft = self.trials.pop()
        trial = {key: value for key, value in draft.system_attrs.items() if _SHARED not in key}
        study = {key: value for key, value in self.attributes.items() if self._kept.get(key) != value}
        self.attributes, self._kept = self._kept, None
        return {name: written for name, written in (("trial", trial), ("study", study)) if written}

    def note(self, number: int, notes: dict[str, Any]) -> None:
        """Write the notes of a draft to the trial that it became."""
        self.trials[number].system_attrs.update(notes.get("trial", {}))
        self.attributes.update(notes.get("study", {}))

    # Optuna's storage interface; ids of studies and trials are numbers.

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        """Begin a draft."""
        self._kept = dict(self.attributes)
        self.add({}, {})
        return len(self.trials) - 1

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        trials = [trial for trial in self.trials if states is None or trial.state in states]
        return copy.deepcopy(trials) if deepcopy else trials

    def get_trial(self, trial_id: int) -> FrozenTrial:
        return self.trials[trial_id]

    def set_trial_param(
        self, trial_id: int, param_name: str, param_value_internal: float, distribution: BaseDistribution
    ) -> None:
        trial = self.trials[trial_id]
        trial.params[param_name] = distribution.to_external_repr(param_value_internal)
        trial.distributions[param_name] = distribution

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        self.trials[trial_id].system_attrs[key] = value

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
        self.trials[trial_id].user_attrs[key] = value

    def set_trial_state_values(self, trial_id: int, state: TrialState, values: Sequence[float] | None = None) -> bool:
        self.trials[trial_id].state, self.trials[trial_id].values = state, values
        return True

    def set_trial_intermediate_value(self, trial_id: int, step: int, intermediate_value: float) -> None:
        self.trials[trial_id].intermediate_values[step] = intermediate_value

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        self.attributes[key] = value

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        return self.attributes

    def set_study_user_attr(self, study_id: int, key: str, value: Any) -> None:
        raise NotImplementedError("samplers write system attributes")

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:
        return {}

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        return [StudyDirection.MINIMIZE]

    def get_study_id_from_name(self, study_name: str) -> int:
        return 0

    def get_study_name_from_id(self, study_id: int) -> str:
        return NAME

    def create_new_study(self, directions: Sequence[StudyDirection], study_name: str | None = None) -> int:
        raise NotImplementedError("there is one study")

    def delete_study(self, study_id: int) -> None:
        raise NotImplementedError("there is one study")

    def get_all_studies(self) -> list[Any]:
        raise NotImplementedError("there is one study")


_Label = str | int | float | bool | None


class Dimensions:
    """The parameters of a space that Optuna decides."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._labels = {
            name: _labels(domain) for name, domain in space.parameters.items() if isinstance(domain, Choice)
        }
        self._distributions = {
            name: self._distribution(name, domain) for name, domain in space.parameters.items() if domain.size != 1
        }

    def suggest(self, trial: Trial) -> dict[str, Any]:
        """Return a flat configuration that a sampler proposes: dotted name -> value of the active parameters.

        Raises:
            SpaceError: a value lies outside its domain.
        """
        flat: dict[str, Any] = {}
        for name in self._space.order:
            if self._space.is_active(name, flat):
                domain = self._space.parameters[name]
                if name in self._distributions:
                    flat[name] = self._inside(name, domain, self._ask(trial, name))
                else:
                    flat[name] = domain.at_quantile(0.0)
        return flat

    def to_optuna(self, flat: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, BaseDistribution]]:
        """Return a flat configuration as Optuna stores it: name -> value, and name -> distribution."""
        params = {name: self._external(name, flat[name]) for name in self._distributions if name in flat}
        return params, {name: self._distributions[name] for name in params}

    def _ask(self, trial: Trial, name: str) -> Any:
        distribution = self._distributions[name]
        if isinstance(distribution, CategoricalDistribution):
            return trial.suggest_categorical(name, distribution.choices)
        low, high = distribution.low, distribution.high
        if isinstance(distribution, IntDistribution):
            return trial.suggest_int(name, low, high, step=distribution.step, log=distribution.log)
        return trial.suggest_float(name, low, high, step=distribution.step, log=distribution.log)

    def _distribution(self, name: str, domain: Domain) -> BaseDistribution:
        if isinstance(domain, Choice):
            if domain.weights is not None:
                raise SpaceError(
                    f"{name}: a sampler of Optuna draws choices evenly at first, and {domain.call()} has weights: "
                    "leave them out, or write searcher='random' or 'sobol'."
                )
            return CategoricalDistribution(self._labels[name])
        if isinstance(domain, Quantiled):
            return FloatDistribution(0.0, 1.0)  # the share of the draws below the value: Optuna has no normal one
        bounds = domain.arguments()
        low, high = bounds["low"], bounds["high"]
        if isinstance(domain, QRandInt):
            return IntDistribution(low, domain.nearest(high), step=domain.step)
        if isinstance(domain, RandInt):
            return IntDistribution(low, high, log=isinstance(domain, LogRandInt))
        if isinstance(domain, QUniform):
            return FloatDistribution(low, domain.at(domain.size - 1), step=domain.step)
        return FloatDistribution(low, high, log=isinstance(domain, LogUniform))

    def _external(self, name: str, value: Any) -> Any:
        domain = self._space.parameters[name]
        if isinstance(domain, Quantiled):
            return domain.quantile_of(value)
        return self._labels[name][domain.index(value)] if isinstance(domain, Choice) else value

    def _inside(self, name: str, domain: Domain, value: Any) -> Any:
        if isinstance(domain, Choice):
            return domain.accept(domain.values[self._labels[name].index(value)])
        if isinstance(domain, Quantiled):
            return domain.at_quantile(value)
        if isinstance(domain, QUniform) and abs(domain.nearest(value) - value) < domain.step * 1e-6:
            value = domain.nearest(value)  # Optuna adds up steps in floats: 0.30000000000000004 means 0.3
        try:
            return domain.accept(value)
        except SpaceError as error:
            raise SpaceError(f"{name}: {error}") from None


def _labels(domain: Choice) -> tuple[_Label, ...]:
    """Return the labels of a choice's values in Optuna: the values, or their code if Optuna has no such values."""
    is_known = all(value is None or isinstance(value, str | int | float) for value in domain.values)
    if is_known and len(set(domain.values)) == domain.size:  # 1 and True are the same to Optuna
        return domain.values
    return tuple(f"{at}: {show_plain(value)}" for at, value in enumerate(domain.values))
