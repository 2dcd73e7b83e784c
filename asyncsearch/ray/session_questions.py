"""What ``session`` of former programs gives as functions: the questions of ``get_context()``."""

from __future__ import annotations

from typing import Any

from asyncsearch.ray.session import TrialInfo

_info = TrialInfo()


def __getattr__(name: str) -> Any:
    return getattr(_info, name)
