"""Maggy's optimizers with a model."""

from asyncsearch.maggy.optimizer import GP, TPE

__all__ = ["GP", "TPE"]
