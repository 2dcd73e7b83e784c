"""Workloads of the tests."""

from __future__ import annotations

from asyncsearch.testing.histories import Histories

__all__ = ["Histories"]
