"""The worker's half: a program's trainable as a function of a trial of this project."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from asyncsearch.ray.space.configurations import ParamSpace, with_changes
from asyncsearch.ray.trial import present_trial
from asyncsearch.ray.trial.messages import DriverCalls, ExploitingTrial, FinishedTrial
from asyncsearch.ray.trial.session import TrialSession
from asyncsearch.ray.trial.settings import TrialSettings
from asyncsearch.ray.trial.trainables import run_class, run_function
from asyncsearch.trainable import TrialContext


class InstalledMark:
    """Comes before a program's function in its pickle: where it is unpickled, ``ray`` is this project's."""

    def __reduce__(self) -> tuple[Any, ...]:
        return install_on_worker, ()


def install_on_worker() -> InstalledMark:
    """Let ``import ray`` in this process give what this project has for it."""
    from asyncsearch.ray.installing import install_quietly

    install_quietly()
    return InstalledMark()


class RayObjective:
    """Runs a trial of a program."""

    def __init__(self, function: Any, param_space: ParamSpace, settings: TrialSettings) -> None:
        self._function, self._param_space, self._settings = function, param_space, settings
        self.__name__ = settings.function_name

    def __reduce__(self) -> tuple[Any, ...]:
        # In this order: the function may name modules of ray, which are looked up where it is unpickled.
        return _made, (InstalledMark(), self._function, self._param_space, self._settings)

    def __call__(self, trial: TrialContext) -> Any:
        settings = self._settings
        environment, arguments = dict(os.environ), sys.argv
        calls = DriverCalls(trial) if settings.asks_driver else None
        session = TrialSession(trial, settings, calls)
        config = self._param_space.config(trial.params)
        if calls is not None and (exploit := calls.begin(trial.params, goes_on=session.iteration > 0)) is not None:
            config = self._taken_over(exploit, session)
        present_trial.begin(session)
        sys.argv = list(settings.arguments) or sys.argv
        os.environ["TUNE_ORIG_WORKING_DIR"] = settings.home
        folder = os.getcwd()
        if settings.changes_folder:
            os.chdir(trial.dir)
        try:
            self._run(config, session)
        finally:
            present_trial.end(session)
            os.chdir(folder)
            sys.argv = arguments
            _restore(environment)
        if not session.iteration:
            session.require_reports()
        return None if session.iteration else {"training_iteration": 0}

    def _run(self, config: Any, session: TrialSession) -> None:
        """Run it, and again with each configuration that it takes over, until it ends."""
        run = run_class if isinstance(self._function, type) else run_function
        is_begun = False
        while True:
            try:
                if not is_begun:
                    is_begun = True
                    session.repeat_last()
                run(self._function, config, session)
            except ExploitingTrial as verdict:
                config = self._taken_over(verdict.exploit, session)
            except FinishedTrial:
                return
            else:
                return

    def _taken_over(self, exploit: Mapping[str, Any], session: TrialSession) -> Any:
        session.take_over(exploit)
        return with_changes(self._param_space.config(exploit["params"]), exploit["changed"])


def _made(_first: InstalledMark, function: Any, param_space: ParamSpace, settings: TrialSettings) -> RayObjective:
    return RayObjective(function, param_space, settings)


def _restore(environment: Mapping[str, str]) -> None:
    """Undo the changes of a trial to the variables of the environment: the next one must not read them."""
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    for name, value in environment.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
