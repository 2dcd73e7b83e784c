"""Checks a lane's requirements on the user's code before it trains. Pure."""

from __future__ import annotations

from asyncsearch.errors import CannotPauseError
from asyncsearch.runner.timeline import LaneTimeline
from asyncsearch.trainable import LoadFunction, SaveFunction

HOW_TO_PAUSE = (
    'write the training as `for epoch in trial.epochs(state={"net": net, "opt": opt}):`, or with your own '
    "`trial.epochs(save=..., load=...)`, or use a scheduler that does not pause"
)


def check_hooks(
    name: str, timeline: LaneTimeline, is_loaded: bool, save: SaveFunction | None, load: LoadFunction | None
) -> None:
    """Check the arguments of ``epochs`` against the requirements of a lane.

    Args:
        name: name of the trial.
        timeline: the lane.
        is_loaded: whether the lane resumes from a checkpoint.
        save: argument of ``epochs``.
        load: argument of ``epochs``.

    Raises:
        CannotPauseError: a required function is missing.
    """
    if is_loaded and load is None:
        raise CannotPauseError(
            f"{name} must resume from its checkpoint at {timeline.start}, but epochs() was called without load=: "
            f"{HOW_TO_PAUSE}."
        )
    missing = [hook for hook, given in (("save=", save), ("load=", load)) if given is None]
    pauses = timeline.pauses()
    if pauses and missing:
        raise CannotPauseError(
            f"{name} must pause at {pauses[0]}, but epochs() was called without {' and '.join(missing)}: "
            f"{HOW_TO_PAUSE}."
        )
