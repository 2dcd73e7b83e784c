"""How the workers of a trial divide weights and the optimizer's state; ``TorchStrategy`` is one worker that has all.

A checkpoint has the same contents whatever the strategy. Rank 0 writes it, as one worker alone would have written it,
or each rank its shard.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from asyncsearch.trainers.torch.gangs.shards import read_checkpoint


class TorchStrategy:
    """One worker, which has all of the model and of the optimizer's state."""

    is_in_step = False
    """Whether every rank must call the model as often as the others, also without gradients."""

    def divide(self, net: Any) -> Any:
        """Return the model with this rank's part of the weights, of which the optimizer is then made."""
        return net

    def parallel(self, net: Any) -> Any:
        """Return the model as a step calls it."""
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
        """Make equal, at the end of a unit, the buffers that differ between the ranks."""

    def forget(self) -> None:
        """Forget the parts that rank 0 has gathered to save them: training goes on."""

    def model_state(self, net: Any) -> Any:
        """Return the state of the model to save."""
        return net.state_dict()

    def optimizer_state(self, opt: Any) -> Any:
        """Return the state of the optimizer to save."""
        return opt.state_dict()

    def write(self, state: Mapping[str, Any], path: Path) -> None:
        """Write a checkpoint, or this rank's shard of it."""
        with path.open("wb") as file:  # given a path, torch would write its name into the file
            torch.save(state, file)

    def read(self, path: Path, device: Any) -> dict[str, Any]:
        """Return a checkpoint, of one worker or in shards of whichever number, as far as this rank needs it."""
        return read_checkpoint(path, device)

    def load_model(self, net: Any, state: Any) -> None:
        """Put a saved state into the model."""
        net.load_state_dict(state)

    def load_optimizer(self, opt: Any, state: Any) -> None:
        """Put a saved state into the optimizer."""
        opt.load_state_dict(state)
