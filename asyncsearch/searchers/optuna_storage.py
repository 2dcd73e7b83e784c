"""The storage from which Optuna's samplers read: it holds one study, derived from the facts of ours.

Rule 1: no clock, no lock and no random names, unlike Optuna's own storages: equal facts make equal storages.
Rule 2: a question changes nothing. What a sampler writes goes to a *draft*, the trial that is being proposed, and is
lost with it unless its notes come back as a fact.

Imports optuna, so it is imported only when a study begins with ``OptunaSearch``.
"""

from __future__ import annotations

import copy
from collections.abc import Container, Sequence
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

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
