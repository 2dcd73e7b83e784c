"""What a lane asks of the user's code, checked before it trains. Pure."""

from __future__ import annotations

from asyncsearch.errors import CannotPauseError
from asyncsearch.runner.timeline import LaneTimeline
from asyncsearch.trainable import LoadFunction, SaveFunction

HOW_TO_PAUSE = (
    "write the training as `for epoch in trial.epochs(save=..., load=...):`, or use a scheduler that does not pause"
)


def check_hooks(
    name: str, timeline: LaneTimeline, is_loaded: bool, save: SaveFunction | None, load: LoadFunction | None
) -> None:
    """Hold what ``epochs`` was given against what a lane needs.

    Args:
        name: of the trial.
        timeline: the lane.
        is_loaded: whether it goes on from a checkpoint.
        save: as given to ``epochs``.
        load: likewise.

    Raises:
        CannotPauseError: something is missing.
    """
    if is_loaded and load is None:
        raise CannotPauseError(
            f"{name} is to go on from its checkpoint at {timeline.start} and epochs() was called without load=: "
            f"{HOW_TO_PAUSE}."
        )
    missing = [hook for hook, given in (("save=", save), ("load=", load)) if given is None]
    pauses = timeline.pauses()
    if pauses and missing:
        raise CannotPauseError(
            f"{name} is to be paused at {pauses[0]} and epochs() was called without {' and '.join(missing)}: "
            f"{HOW_TO_PAUSE}."
        )
