"""Which strategy a trainer has, by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asyncsearch.trainers.torch.gangs.strategy import Ddp, TorchStrategy


def strategy_refusal(name: str, strategy: str, precision: str | None) -> str:
    """Return why several workers cannot train by a strategy, and the line to change; empty if they can.

    Args:
        name: of the trainer.
        strategy: its strategy.
        precision: its precision.
    """
    if strategy not in ("ddp", "fsdp2", "zero1"):
        return f"{name}.strategy={strategy!r} is unknown: write 'ddp', 'fsdp2' or 'zero1'."
    if strategy == "fsdp2" and precision == "float16":
        return (
            f"{name} has precision='float16', whose gradient scaler strategy='fsdp2' does not have: write "
            "precision='bfloat16', or strategy='ddp'."
        )
    return ""


def strategy_for(trainer: Any) -> TorchStrategy:
    """Return the strategy of a trainer whose trial has several workers."""
    # Imported where several workers train a trial: fully_shard and its tensors take time.
    from asyncsearch.trainers.torch.gangs.fsdp2 import Fsdp2
    from asyncsearch.trainers.torch.gangs.zero1 import Zero1

    makers: dict[str, Callable[[Any], TorchStrategy]] = {"ddp": Ddp, "fsdp2": Fsdp2, "zero1": Zero1}
    return makers[trainer.strategy](trainer)
