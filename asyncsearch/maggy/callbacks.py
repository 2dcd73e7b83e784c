"""Maggy's callbacks for Keras, which broadcast a metric. The classes are made when a program names them."""

from __future__ import annotations

from typing import Any

_NAMES = ("KerasBatchEnd", "KerasEpochEnd")


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"asyncsearch.maggy.callbacks has no {name!r}: it has {', '.join(_NAMES)}.", name=name)
    from asyncsearch.maggy import keras_callbacks

    return getattr(keras_callbacks, name)
