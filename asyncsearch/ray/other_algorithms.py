"""The algorithms of other libraries, by their names; see ``search_algorithms``."""

from __future__ import annotations

from typing import Any

from asyncsearch.ray.search_algorithms import OTHERS


def __getattr__(name: str) -> Any:
    try:
        return OTHERS[name]
    except KeyError:
        raise AttributeError(name) from None
