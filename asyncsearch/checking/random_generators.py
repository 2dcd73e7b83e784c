"""The global generators of a process, put into other states by a check."""

from __future__ import annotations

import sys

from asyncsearch.trainers.state.global_generators import capture, restore, shared

__all__ = ["FRAMEWORKS", "capture", "loaded", "restore", "shared", "stir"]

FRAMEWORKS = ("torch", "tensorflow")


def stir(number: int) -> None:
    """Give each generator an arbitrary state, as in another process; different numbers give different states."""
    for place, generator in enumerate(shared().values()):
        generator.seed(10_007 * number + place + 1)


def loaded() -> list[str]:
    """Return the frameworks that are imported."""
    return [name for name in FRAMEWORKS if name in sys.modules]
