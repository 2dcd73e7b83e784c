"""Workloads of the tests."""

from __future__ import annotations

from asyncsearch.testing.recording import Histories

__all__ = ["Histories"]
