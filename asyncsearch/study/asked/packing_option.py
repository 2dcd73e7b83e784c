"""``Study(..., pack=)``: which studies may pack, as far as that can be known before they run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from asyncsearch.errors import UsageError
from asyncsearch.ids import NodeKey, TrialId
from asyncsearch.plan.base_plan import Batch, PlannedStage
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.base_searcher import SearcherState
from asyncsearch.sizing.pack_strategies import PackCandidate, PackChoice, PackStrategy, choose
from asyncsearch.sizing.packing import Packing, packing_for
from asyncsearch.trainable import Trainable, Trainer
from asyncsearch.trial import Params


def packing_of(
    trainable: Trainable,
    scheduler: Scheduler,
    pack: int | str | None,
    strategy: str | PackStrategy,
    *,
    share: bool,
    fresh_process: bool = False,
    names: Sequence[str] | None = None,
) -> Packing | None:
    """Return how a study packs; None if it does not. ``pack``: how many trials, or ``"auto"``.

    With ``fresh_process`` nothing joins a pack: its process has trained others before. ``names``: see ``pack_by_of``.

    Raises:
        UsageError: ``pack`` is no number of trials, or the trainable or the scheduler cannot do with packs.
    """
    packing = packing_for(pack, strategy, names)
    if packing is None:
        return None
    _require_packable(trainable)
    if scheduler.branches and not share:
        raise UsageError(
            f"pack={pack!r} and share=False: under {type(scheduler).__name__} a trial continues with the weights of "
            "another one, and with share=False each is to train alone. Leave out one of the two."
        )
    return msgspec.structs.replace(packing, takes_joiners=not fresh_process) if packing.limit > 1 else None


def pack_by_of(trainable: Trainable, known: Collection[str], *, is_packed: bool) -> tuple[str, ...] | None:
    """Return the hyper-parameters in which trials of a trainable must agree to be packed; None if it names none.

    Args:
        trainable: which may have ``pack_by``.
        known: the names of the space.
        is_packed: whether the study packs; one that does not may have another space.

    Raises:
        UsageError: they are no names, or not of the space.
    """
    names: Any = getattr(trainable, "pack_by", None) if isinstance(trainable, type) else None
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise UsageError(
            f"{trainable.__name__}.pack_by={names!r} must be a sequence of names of hyper-parameters, as in "
            "pack_by = ('width', 'depth')."
        )
    missing = [name for name in names if name not in known]
    if missing and is_packed:
        raise UsageError(
            f"{trainable.__name__}.pack_by names {missing[0]!r}, and the space has only "
            f"{', '.join(map(repr, sorted(known)))}: correct it, or leave it out."
        )
    return tuple(names)


def require_choices(packing: Packing | None, searcher: SearcherState) -> None:
    """Ask a strategy of the user's own to choose among the first proposals: a mistake should not wait for a cluster.

    Raises:
        UsageError: it fails, or chooses what it may not.
    """
    if packing is None or isinstance(packing.strategy, str):
        return
    found = [params for number in range(3) if (params := searcher.propose(number)) is not None]
    asked = [_candidate(TrialId(number), params, packing) for number, params in enumerate(found)]
    if asked:
        choose(packing.strategy, PackChoice(asked[0], asked[1:], 1))


def _candidate(trial: TrialId, params: Params, packing: Packing) -> PackCandidate:
    stage = PlannedStage(NodeKey(f"asked {trial}"), 0, 1, (trial,))
    return PackCandidate(Batch(None, (stage,)), params, packing.group(params))


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
