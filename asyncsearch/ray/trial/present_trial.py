"""The functions of ``tune`` that a trainable calls, of all ages: they speak to the session of the present trial."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Mapping
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.ray.trial.checkpoints import DirCheckpoint
from asyncsearch.ray.trial.session import RETURNED, TrialSession

_sessions: list[TrialSession] = []
"""That of the present trial; empty outside one."""


def current() -> TrialSession | None:
    """Return the session of the trial that runs in this process. None outside one."""
    return _sessions[-1] if _sessions else None


def begin(session: TrialSession) -> None:
    """Let a session be the present one."""
    _sessions.append(session)


def end(session: TrialSession) -> None:
    """Let a session be the present one no more."""
    _sessions.remove(session)


def report(_metrics: Any = None, /, *, metrics: Any = None, checkpoint: Any = None, **named: Any) -> None:
    """Report metrics of the present trial: a dictionary, named numbers, or one number; and a checkpoint beside them."""
    given = _metrics if _metrics is not None else metrics
    if given is not None and not isinstance(given, Mapping):
        given = {RETURNED: given}
    session = current()
    if session is None:
        warnings.warn("report() was called outside a trial of a search, and nothing was recorded.", stacklevel=2)
        return
    session.report({**(given or {}), **named}, checkpoint)


def get_checkpoint() -> DirCheckpoint | None:
    """Return the last checkpoint of the present trial, from which it goes on. None if there is none."""
    session = current()
    return None if session is None else session.loaded


class TrialInfo:
    """What a trial may ask about itself; in programs it is the context of ``get_context()``."""

    def get_trial_id(self) -> str:
        """Return the id of the trial."""
        session = current()
        return "default" if session is None else session.context.name

    def get_trial_name(self) -> str:
        """Return the name of the trial."""
        session = current()
        return "default" if session is None else f"{session.settings.function_name}_{session.context.name}"

    def get_trial_dir(self) -> str:
        """Return the folder of the trial on this machine."""
        session = current()
        return os.getcwd() if session is None else str(session.context.dir)

    def get_experiment_name(self) -> str:
        """Return the name of the search."""
        session = current()
        return "default" if session is None else session.settings.experiment_name

    def get_trial_resources(self) -> Any:
        """Return the resources that the program has asked for."""
        session = current()
        return None if session is None else session.settings.resources

    def get_storage(self) -> Any:
        raise UsageError("get_storage() has no counterpart: the folder of the trial is get_trial_dir().")

    def get_world_size(self) -> int:
        """Return 1: the trial runs in one process."""
        return 1

    def get_world_rank(self) -> int:
        """Return 0."""
        return 0

    get_local_world_size = get_world_size
    get_local_rank = get_node_rank = get_world_rank


def get_context() -> TrialInfo:
    """Return the context of the present trial."""
    return TrialInfo()


def is_session_enabled() -> bool:
    """Return whether a trial runs in this process."""
    return current() is not None


def text_of(error: BaseException) -> str:
    """Return a traceback without the frames of this package."""
    return "".join(traceback.format_exception(error))


def __getattr__(name: str) -> Any:
    """Return a question of ``get_context()`` as a function, as ``session`` of former programs has it."""
    if not name.startswith("get_"):
        raise AttributeError(name)
    return getattr(TrialInfo(), name)
