"""Another study that an objective uses: on a worker a copy, as it was when the search began, to be read only.

What a worker wrote into its copy would be lost, and a trial that is asked for there would be nobody's.
"""

from __future__ import annotations

import copyreg
import functools
from collections.abc import Callable, Sequence
from typing import Any

from optuna.storages import InMemoryStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, Trial

from asyncsearch.errors import UsageError
from asyncsearch.launch.value_pickler import UnsendableError
from asyncsearch.optuna.driver_line import refused
from asyncsearch.optuna.objective import sent_study

_WRITES = (
    "create_new_study",
    "create_new_trial",
    "delete_study",
    "set_study_system_attr",
    "set_study_user_attr",
    "set_trial_intermediate_value",
    "set_trial_param",
    "set_trial_state_values",
    "set_trial_system_attr",
    "set_trial_user_attr",
)


class CopiedStorage(InMemoryStorage):  # type: ignore[misc]  # not typed here
    """The storage of a copy."""

    refusal = ""
    """Why nothing more is written. Empty while it is filled."""


def _refused(name: str) -> Callable[..., Any]:
    own = getattr(InMemoryStorage, name)

    @functools.wraps(own)
    def method(self: CopiedStorage, *arguments: Any, **named: Any) -> Any:
        if self.refusal:
            raise refused(UsageError(self.refusal))
        return own(self, *arguments, **named)

    return method


for _name in _WRITES:
    setattr(CopiedStorage, _name, _refused(_name))


def copy_of(study: Study) -> tuple[Callable[..., Study], tuple[Any, ...]]:
    """Return the function that makes the copy, and its arguments, for ``__reduce__``."""
    attributes = study.user_attrs, dict(study._storage.get_study_system_attrs(study._study_id))
    return _made, (study.study_name, study.directions, study.get_trials(deepcopy=False), *attributes)


def _made(
    name: str,
    directions: Sequence[StudyDirection],
    trials: Sequence[FrozenTrial],
    user_attrs: dict[str, Any],
    system_attrs: dict[str, Any],
) -> Study:
    storage = CopiedStorage()
    number = storage.create_new_study(directions, name)
    for key, value in user_attrs.items():
        storage.set_study_user_attr(number, key, value)
    for key, value in system_attrs.items():
        storage.set_study_system_attr(number, key, value)
    for trial in trials:
        storage.create_new_trial(number, template_trial=trial)
    made = Study(name, storage)
    storage.refusal = (
        f"Study {name!r} is another one than the objective's, and a trial on a worker has a copy of it to read: let "
        "the objective return what is to be written, or keep it by trial.set_user_attr(...), and write it "
        "after optimize()."
    )
    return made


def _reduced_trial(trial: Trial) -> Any:
    if sent_study.get() is not None:
        raise UnsendableError(
            trial,
            f"trial {trial.number} of study {trial.study.study_name!r}, which only the driver has. Read what trials "
            "need before the search, as in params = {name}.params, and use params in the objective",
        )
    return trial.__reduce_ex__(4)


def _reduced_study(study: Study) -> Any:
    return study.__reduce_ex__(4) if sent_study.get() is None else copy_of(study)


copyreg.pickle(Trial, _reduced_trial)
copyreg.pickle(Study, _reduced_study)  # Optuna's own, which would open its database on a worker
