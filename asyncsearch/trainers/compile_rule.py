"""Whether compiling the step of a pack pays. Pure: times are arguments.

What a step takes is measured. How long compiling takes, and how fast the result is, is known once something was
compiled, and assumed before: so that the first one does not pay with certainty, what is saved must be a multiple.
"""

from __future__ import annotations

from typing import NamedTuple

MARGIN = 2.0
"""What is saved must be so many times what compiling takes: how much is left to train, and the rest, is uncertain."""
ASSUMED_SHARE = 0.6
"""Of the time of a step, the part that a compiled one is taken to need."""
ASSUMED_COST_S = 20.0
"""CPU time that compiling is taken to need."""
LEAST_GAIN = 0.1
"""The part of the time of a step that a compiled one must save to be used at all: what is measured varies."""
MOST_COMPILED = 4
"""Steps that a process compiles at most: shapes that change for ever would be compiled for ever."""


class CompileTimes(NamedTuple):
    """What is known of a step."""

    eager_s: float
    """What it takes."""
    compiled_s: float | None = None
    """What it takes compiled; None: not known."""
    cost_s: float | None = None
    """What compiling took; None: not known."""


def pays(times: CompileTimes, steps_left: float) -> bool:
    """Return whether compiling a step saves more than it takes, with a margin.

    Args:
        times: of the step.
        steps_left: how many such steps are to come, at least.
    """
    compiled_s = ASSUMED_SHARE * times.eager_s if times.compiled_s is None else times.compiled_s
    cost_s = ASSUMED_COST_S if times.cost_s is None else times.cost_s
    return steps_left * (times.eager_s - compiled_s) > MARGIN * cost_s


def is_faster(times: CompileTimes) -> bool:
    """Return whether a compiled step is to be used, now that it is there."""
    return times.compiled_s is not None and times.compiled_s < (1 - LEAST_GAIN) * times.eager_s


def steps_to_break_even(times: CompileTimes) -> float:
    """Return after how many steps a compiled one has saved what compiling took; infinite: never."""
    assert times.compiled_s is not None
    saved_s = times.eager_s - times.compiled_s
    return (times.cost_s or 0.0) / saved_s if saved_s > 0 else float("inf")
