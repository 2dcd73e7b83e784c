"""How the workers of a trial divide weights and the optimizer's state; ``TorchStrategy`` is one worker that has all.

A checkpoint has the same contents whatever the strategy. Rank 0 writes it, as one worker alone would have written it,
or each rank its shard.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from asyncsearch.errors import UsageError


class TorchStrategy:
    """One worker, which has all of the model and of the optimizer's state."""

    is_in_step = False
    """Whether every rank must call the model as often as the others, also without gradients."""

    takes_parts = False
    """Whether a rank needs only parts of what a checkpoint holds."""

    shard_file = ""
    """Name of the file in which this rank saves its shard; empty: rank 0 saves all."""

    def divide(self, net: Any) -> Any:
        """Return the model with this rank's part of the weights, of which the optimizer is then made."""
        return net

    def parallel(self, net: Any) -> Any:
        """Return what a step calls in place of the model."""
        return net

    def require_gradients(self, parallel: Any) -> None:
        """Check, after a step, that no parameter lacks a gradient for which the other ranks wait.

        Raises:
            UsageError: one does; the message names it.
        """

    def attach(self, opt: Any) -> Any:
        """Return the optimizer, which from then on updates this rank's part."""
        return opt

    def equalize(self, net: Any) -> None:
        """Make equal, at the end of a unit, what is not a weight and differs between the ranks."""

    def gather(self, net: Any, opt: Any) -> None:
        """Gather the parts of all ranks in rank 0, which saves next; every rank calls it."""

    def forget(self) -> None:
        """Forget what was gathered: training goes on."""

    def model_state(self, net: Any) -> Any:
        """Return the state of the model to save."""
        return net.state_dict()

    def optimizer_state(self, opt: Any) -> Any:
        """Return the state of the optimizer to save."""
        return opt.state_dict()

    def write(self, state: Mapping[str, Any], path: Path) -> None:
        """Write what is to be saved to a path."""
        with path.open("wb") as file:  # given a path, torch would write its name into the file
            torch.save(state, file)

    def load_model(self, net: Any, state: Any) -> None:
        """Put a saved state into the model."""
        net.load_state_dict(state)

    def load_optimizer(self, opt: Any, state: Any) -> None:
        """Put a saved state into the optimizer."""
        opt.load_state_dict(state)


class GatheringStrategy(TorchStrategy):
    """A strategy whose checkpoint no rank has alone."""

    def __init__(self) -> None:
        self._gathered: tuple[Any, Any] | None = None
        """In rank 0, the states of model and optimizer since the last ``gather``."""

    def forget(self) -> None:
        self._gathered = None

    def model_state(self, net: Any) -> Any:
        return self._saved()[0]

    def optimizer_state(self, opt: Any) -> Any:
        return self._saved()[1]

    def _saved(self) -> tuple[Any, Any]:
        if self._gathered is None:
            raise UsageError(
                "The parts of this model are on several workers, which bring them together where the search saves: "
                "leave save() to trial.epochs(), or train with strategy='ddp'."
            )
        return self._gathered
