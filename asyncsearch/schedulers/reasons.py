"""Phrases that several schedulers share in reasons, positions and warnings; all others stand beside their rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

WAITS_THERE = "it waits there"
"""The end of the position of a paused trial that may go on; a search that is over leaves it out."""


def short(description: str) -> str:
    """Return the call from a description, for use in a sentence: "ASHA(max_resource=81)"."""
    return description.partition(": ")[0]


def call(scheduler: Any, *shown: str, hidden: str = "") -> str:
    """Return the call that makes a scheduler: the options ``shown``, and each other one that is not the default."""
    options = [(field, getattr(scheduler, field.name)) for field in fields(scheduler) if field.name != hidden]
    given = [f"{field.name}={value!r}" for field, value in options if field.name in shown or value != field.default]
    return f"{type(scheduler).__name__}({', '.join(given)})"


def go_on(quota: int) -> str:
    """Return "4 go on"."""
    return f"{quota} goes on" if quota == 1 else f"{quota} go on"


def place(rank: int, size: int, level: int) -> str:
    """Return "rank 2 of 12 at resource 3"."""
    return f"rank {rank} of {size} at resource {level}"


def towards(level: int) -> str:
    """Return a phrase for a trial that trains, or waits for a worker."""
    return f"on its way to resource {level}"


def rungs(levels: Sequence[int]) -> str:
    """Return the rungs for a description."""
    return ("rungs at " if len(levels) > 1 else "one rung at ") + ", ".join(str(level) for level in levels)


def one_rung(levels: Sequence[int], min_resource: int, reduction_factor: int) -> list[str]:
    """Warn if nothing can ever be stopped early."""
    if len(levels) > 1:
        return []
    top = levels[-1]
    remedies = [f"max_resource >= {min_resource * reduction_factor}"]
    if top // reduction_factor >= 1:
        remedies.append(f"min_resource <= {top // reduction_factor}")
    if top // min_resource >= 2:
        remedies.append(f"reduction_factor <= {top // min_resource}")
    note = f"There is one rung only, at max_resource={top}, so that no trial is stopped early"
    ratio = f"min_resource={min_resource} times reduction_factor={reduction_factor}"
    return [f"{note}: {ratio} lies beyond it. Use {' or '.join(remedies)}."]


def not_at_min(levels: Sequence[int], min_resource: int, reduction_factor: int) -> list[str]:
    """Say that no rung lies at the ``min_resource`` that was asked for, 1 apart, which is the default."""
    if min_resource == 1 or levels[0] == min_resource or len(levels) == 1:
        return []
    ending = [min_resource]
    while ending[-1] <= levels[-1]:
        ending.append(ending[-1] * reduction_factor)
    near = [top for top in ending[-2:] if top > min_resource]
    note = (
        f"No rung lies at min_resource={min_resource}: the first is at {levels[0]}, since rungs are counted from "
        f"max_resource={levels[-1]}, divided by {reduction_factor} each time. For a rung at {min_resource} use "
        f"max_resource={' or '.join(map(str, near))}."
    )
    return [note]


def too_few(
    num_trials: int,
    what: str,
    levels: Sequence[int],
    min_resource: int,
    reduction_factor: int,
    remedies: Sequence[str],
    *,
    is_early: bool = False,
) -> list[str]:
    """Warn if ``num_trials`` trials, each rung passing one of η, leave none for the last rung.

    Args:
        num_trials: How many compete with each other.
        what: The subject of the sentence, e.g. "20 trials are".
        levels: The rungs.
        min_resource: As the user gave it.
        reduction_factor: η.
        remedies: Other changes that would help, e.g. "finish_best=True".
        is_early: Whether trials may be promoted before their rung is full, so that some may reach the last rung.
    """
    steps = len(levels) - 1
    if num_trials >= reduction_factor**steps:
        return []
    need = f"{reduction_factor}^{steps} = {reduction_factor**steps}"
    remedies = [*remedies, f"max_resource <= {_reachable(num_trials, min_resource, reduction_factor)}"]
    who = "Only trials that are promoted early" if is_early else "No trial is expected to"
    note = f"{who} reach max_resource={levels[-1]}: {what} fewer than {need}"
    return [f"{note}, and each rung passes one of {reduction_factor}. Use {' or '.join(remedies)}."]


def _reachable(num_trials: int, min_resource: int, reduction_factor: int) -> int:
    """Return the highest ``max_resource`` whose last rung ``num_trials`` trials can fill."""
    rungs_above = min_resource * reduction_factor
    while num_trials >= reduction_factor:
        num_trials //= reduction_factor
        rungs_above *= reduction_factor
    return rungs_above - 1
