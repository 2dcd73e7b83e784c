"""Patterns of names in an ablation study. Pure."""

from __future__ import annotations

from fnmatch import fnmatchcase


def fits(name: str, pattern: str) -> bool:
    """Return whether a name is the one given, or fits the pattern: ``*`` is any text, ``?`` any letter."""
    return name == pattern or fnmatchcase(name, pattern)
