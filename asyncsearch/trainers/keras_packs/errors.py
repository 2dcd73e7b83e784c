"""Why trainers cannot be trained together in one of two ways, in words that name what to change."""

from __future__ import annotations


class NotStackedError(Exception):
    """Members cannot be one computation, and why; they may still be in one traced function."""


class NotTogetherError(Exception):
    """Members cannot be in one traced function either, and why: each trains alone."""
