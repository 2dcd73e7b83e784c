"""``Study(..., pack=)``: which studies may pack, as far as that can be known before they run."""

from __future__ import annotations

import msgspec

from asyncsearch.errors import UsageError
from asyncsearch.plan.packing import Packing, packing_for
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.trainable import Trainable, Trainer


def packing_of(
    trainable: Trainable,
    scheduler: Scheduler,
    pack: int | str | None,
    strategy: str,
    *,
    share: bool,
    fresh_process: bool = False,
) -> Packing | None:
    """Return how a study packs; None: it does not. ``pack``: how many trials, or ``"auto"``.

    With ``fresh_process`` nothing joins a pack: its process has trained others before.

    Raises:
        UsageError: ``pack`` is no number of trials, or the trainable or the scheduler cannot do with packs.
    """
    packing = packing_for(pack, strategy)
    if packing is None:
        return None
    _require_packable(trainable)
    if scheduler.branches and not share:
        raise UsageError(
            f"pack={pack!r} and share=False: under {type(scheduler).__name__} a trial continues with the weights of "
            "another one, and with share=False each is to train alone. Leave out one of the two."
        )
    return msgspec.structs.replace(packing, takes_joiners=not fresh_process) if packing.limit > 1 else None


def could_pack(trainable: Trainable, scheduler: Scheduler, pack: int | str | None, *, share: bool) -> bool:
    """Return whether a study that says nothing of ``pack=`` might have asked for it."""
    try:
        return pack is None and packing_of(trainable, scheduler, "auto", "plan", share=share) is not None
    except UsageError:
        return False


def _require_packable(trainable: Trainable) -> None:
    name = getattr(trainable, "__name__", repr(trainable))
    if not (isinstance(trainable, type) and issubclass(trainable, Trainer)):
        raise UsageError(
            f"pack= needs a trainable whose units can be trained together, and {name} is a function, which trains its "
            "own loop: write it as a TorchTrainer or a KerasTrainer, which can (docs/packing.md), as a Trainer with a "
            "train_pack(trainers) of its own, or leave out pack=."
        )
    if not trainable.can_pack():
        raise UsageError(
            f"pack= needs a trainable whose units can be trained together, and {name} has no train_pack(trainers): "
            "write it, a class method that trains one unit of each of the trainers that it gets, or leave out pack=."
        )
