"""``Study(..., backend="threads")``: what trials cannot have that train in threads of one process."""

from __future__ import annotations

from asyncsearch.errors import UsageError
from asyncsearch.launch.base_launcher import Launcher
from asyncsearch.study.kept.definition import StudyDefinition
from asyncsearch.trainable import Trainable

_NAME = "threads"
_INSTEAD = 'write backend="processes", or "spark"'


def is_in_threads(backend: str | Launcher) -> bool:
    """Return whether trials train in threads of this process."""
    return (backend if isinstance(backend, str) else backend.name) == _NAME


def require_threads(backend: str | Launcher, study: StudyDefinition, trainable: Trainable | None = None) -> None:
    """Check that a study asks for nothing that needs workers of their own, if it is one in threads.

    Args:
        backend: of the run.
        study: what it asks for.
        trainable: what it trains; None if it is not known here.

    Raises:
        UsageError: it does; the message says what, why and what to write.
    """
    if not is_in_threads(backend):
        return
    given = f'backend="{_NAME}"'
    if study.gang is not None:
        raise UsageError(
            f"{given} and workers_per_trial= or autoscale=: the workers of a trial are processes, which here are none. "
            f"A trial that starts Spark jobs has the whole cluster: leave the argument out, or {_INSTEAD}."
        )
    if study.packing is not None:
        raise UsageError(
            f"{given} and pack=: a pack is one model on one worker, and each thread trains a trial of its own. Leave "
            f"out pack=, or {_INSTEAD}."
        )
    if study.devices is not None:
        raise UsageError(
            f"{given} and devices_per_trial={study.devices:g}: threads of one process see the same devices. Leave "
            f"out devices_per_trial=, or {_INSTEAD}."
        )
    if study.worker.get("fresh_process"):
        raise UsageError(
            f"{given} and WorkerOptions(fresh_process=True): trials in threads share one process. Leave it out, or "
            f"{_INSTEAD}."
        )
    owner = next((one for one in getattr(trainable, "__mro__", ()) if one.__module__.startswith(_TRAINERS)), None)
    if owner is not None:
        raise UsageError(
            f"{given} and {getattr(trainable, '__name__', owner.__name__)}, a {owner.__name__}: it sets the random "
            "generators and devices of its process, which trials in threads share, so that no result could be repeated."
            f" {_INSTEAD[0].upper()}{_INSTEAD[1:]}."
        )


_TRAINERS = "asyncsearch.trainers."
