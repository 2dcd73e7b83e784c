"""Which strategy a trainer has, by its name."""

from __future__ import annotations

from typing import Any

from asyncsearch.trainers.torch.gangs.strategy import TorchStrategy


def strategy_refusal(name: str, strategy: str, precision: str | None) -> str:
    """Return why several workers cannot train by a strategy, and the line to change; empty: they can.

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
    """Return the strategy of a trainer, on as many workers as its trial has."""
    if trainer.trial.world_size == 1:
        return TorchStrategy()
    # Imported where several workers train a trial: torch.distributed takes time.
    if trainer.strategy == "zero1":
        from asyncsearch.trainers.torch.gangs import zero1 as chosen
    elif trainer.strategy == "fsdp2":
        from asyncsearch.trainers.torch.gangs import fsdp2 as chosen  # type: ignore[no-redef]
    else:
        from asyncsearch.trainers.torch.gangs import gang_model as chosen  # type: ignore[no-redef]
    made: TorchStrategy = chosen.strategy_for(trainer)
    return made
