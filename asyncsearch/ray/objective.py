"""The worker's half: a program's trainable as a function of a trial of this project."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from asyncsearch.ray import session as sessions
from asyncsearch.ray.configurations import ParamSpace
from asyncsearch.ray.messages import DriverCalls, FinishedTrial
from asyncsearch.ray.session import TrialSession
from asyncsearch.ray.settings import TrialSettings
from asyncsearch.ray.trainables import run_class, run_function
from asyncsearch.trainable import TrialContext


class StandIn:
    """Comes before a program's function in its pickle: where it is unpickled, ``ray`` is this project's."""

    def __reduce__(self) -> tuple[Any, ...]:
        return install_on_worker, ()


def install_on_worker() -> StandIn:
    """Let ``import ray`` in this process give what this project has for it."""
    from asyncsearch.ray.installing import install_quietly

    install_quietly()
    return StandIn()


class RayObjective:
    """Runs a trial of a program."""

    def __init__(self, function: Any, param_space: ParamSpace, settings: TrialSettings) -> None:
        self._function, self._param_space, self._settings = function, param_space, settings
        self.__name__ = settings.function_name

    def __reduce__(self) -> tuple[Any, ...]:
        # In this order: the function may name modules of ray, which are looked up where it is unpickled.
        return _made, (StandIn(), self._function, self._param_space, self._settings)

    def __call__(self, trial: TrialContext) -> Any:
        settings = self._settings
        environment, arguments = dict(os.environ), sys.argv
        config = self._param_space.config(trial.params)
        session = TrialSession(trial, settings, DriverCalls(trial) if settings.asks_driver else None)
        sessions.begin(session)
        sys.argv = list(settings.arguments) or sys.argv
        os.environ["TUNE_ORIG_WORKING_DIR"] = settings.home
        if settings.changes_folder:
            os.chdir(trial.dir)
        try:
            self._run(config, session)
        except FinishedTrial:
            pass
        finally:
            sessions.end(session)
            sys.argv = arguments
            _restore(environment)
        if not session.iteration:
            return {"training_iteration": 0}
        return None

    def _run(self, config: Any, session: TrialSession) -> None:
        (run_class if isinstance(self._function, type) else run_function)(self._function, config, session)


def _made(_first: StandIn, function: Any, param_space: ParamSpace, settings: TrialSettings) -> RayObjective:
    return RayObjective(function, param_space, settings)


def _restore(environment: Mapping[str, str]) -> None:
    """Undo the changes of a trial to the variables of the environment: the next one must not read them."""
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    for name, value in environment.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
