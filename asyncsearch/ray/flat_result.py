"""A report as programs read it: by flat names, "valid/loss", and by groups, ``result["valid"]["loss"]``."""

from __future__ import annotations

from typing import Any


class FlatResult(dict[str, Any]):
    """Values by their flat names, in which a group of names is found, too."""

    number = 0
    """Of the report among those of its trial, from 1; in a population its iterations are others. 0: not known."""

    def __missing__(self, key: str) -> FlatResult:
        found = self._group(key)
        if not found:
            raise KeyError(key)
        return found

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or a group of them."""
        try:
            return self[key]
        except KeyError:
            return default

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or bool(self._group(key))

    def _group(self, key: object) -> FlatResult:
        start = f"{key}/"
        return FlatResult({name[len(start) :]: value for name, value in self.items() if name.startswith(start)})
