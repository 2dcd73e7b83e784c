"""Why trainers cannot be trained together in one of two ways, in words that name what to change."""

from __future__ import annotations


class NotStackedError(Exception):
    """Members cannot be one computation, and why; they may still share each batch, and step in turn."""


class NotTogetherError(Exception):
    """Members cannot step in turn either, and why: each trains alone."""
