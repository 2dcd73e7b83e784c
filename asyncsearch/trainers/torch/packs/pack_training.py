"""``TorchTrainer.train_pack`` and ``evaluate_pack``: a pack lasts from unit to unit, and its trainers come and go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.trainable import PackOutcome
from asyncsearch.trainers.packs.pack_training import PackReport, train_packs, with_own_metrics
from asyncsearch.trainers.torch.packs.trainer_refusals import why_not_together
from asyncsearch.trainers.torch.packs.units import PackedTrainers
from asyncsearch.trainers.turns import train_or_fail


def train_pack(trainers: Sequence[Any]) -> PackOutcome:
    """Train one unit of each trainer; one that was not among those of the last call joins, one that was leaves."""
    pack = _pack_of(trainers)
    if isinstance(pack, str):
        return train_packs(trainers, pack, lambda report: (), train_or_fail)

    def packs(report: PackReport) -> Iterator[tuple[Sequence[Any], PackedTrainers]]:
        _take(pack, trainers)
        yield trainers, pack
        if pack.has_stepped:
            _note_outcome(pack, report)

    outcome = train_packs(trainers, "", packs, train_or_fail)
    if outcome.refused and not pack.has_stepped:
        for trainer in trainers:
            trainer._pack = outcome.refused
    return outcome


def evaluate_pack(trainers: Sequence[Any]) -> list[Mapping[str, Any] | Exception]:
    """Return the metrics of each trainer, all of whom ``train_pack`` has just trained, or its error."""
    found: dict[int, Mapping[str, Any]] = {}
    for pack in {id(one._pack): one._pack for one in trainers if hasattr(one, "_pack")}.values():
        if isinstance(pack, PackedTrainers):
            found |= pack.common_metrics()
    return with_own_metrics(trainers, found)


def let_out(trainer: Any, pack: PackedTrainers | str | None = None) -> None:
    """Let a trainer out of any pack but this one: what that has of its state would be older than what it trains now."""
    former = vars(trainer).get("_pack")
    if isinstance(former, PackedTrainers) and former is not pack:
        if _is_among(trainer, former.trainers):
            former.leave(trainer)
        del trainer._pack


def _pack_of(trainers: Sequence[Any]) -> PackedTrainers | str:
    """Return the pack that the first trainer is in, or a new one, or why they cannot be packed."""
    first = trainers[0]
    if not hasattr(first, "_pack"):
        for trainer in trainers:
            let_out(trainer)
        try:
            first._pack = why_not_together(trainers) or PackedTrainers(trainers)
        except UsageError as error:
            first._pack = str(error).rstrip(".")
    found: PackedTrainers | str = first._pack
    for trainer in trainers:
        let_out(trainer, found)
        trainer._pack = found
    return found


def _take(pack: PackedTrainers, trainers: Sequence[Any]) -> None:
    """Let a pack have these trainers and no others."""
    gone = [one for one in pack.trainers if not _is_among(one, trainers)]
    if gone:
        pack.leave(*gone)
        for trainer in gone:
            del trainer._pack
    pack.join(*(one for one in trainers if not _is_among(one, pack.trainers)))


def _note_outcome(pack: PackedTrainers, report: PackReport) -> None:
    """Say which trainers train by themselves: a refusal where none could train with any other, not where two differ."""
    unfit = pack.unfit()
    if len(unfit) == len(pack.trainers):
        report.refuse(unfit[0][1])
        return
    report.note_sequential(pack.apart())
    for trainer, words in unfit:
        report.say(f"{trainer.trial.name} trains by itself in its pack: {words}.", words)


def _is_among(trainer: Any, others: Sequence[Any]) -> bool:
    return any(other is trainer for other in others)
