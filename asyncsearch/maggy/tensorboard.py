"""Maggy's ``tensorboard.logdir()``: the folder of the trial, whose event files the study keeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from asyncsearch.errors import UsageError
from asyncsearch.trainable import TrialContext

_trials: list[TrialContext] = []


def logdir() -> str:
    """Return the folder of the trial that runs in this process; what is written there goes into the study's store."""
    if not _trials:
        raise UsageError("tensorboard.logdir() is the folder of a trial: call it in the function that trains.")
    return str(_trials[-1].dir)


@contextmanager
def folder_of(trial: TrialContext) -> Iterator[None]:
    """Make a trial's folder the present one."""
    _trials.append(trial)
    try:
        yield
    finally:
        _trials.remove(trial)
