"""``KerasTrainer.train_pack`` and ``evaluate_pack``: each unit forms its packs anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from asyncsearch.events import is_of_all
from asyncsearch.trainable import PackOutcome
from asyncsearch.trainers.keras.packs.samples import (
    has_default_evaluation,
    in_step,
    is_equal_tensor,
    seed_now,
    train_alone,
)
from asyncsearch.trainers.keras.packs.trainer_refusals import why_not_together
from asyncsearch.trainers.keras.packs.units import KerasPack, metrics_of_stacks
from asyncsearch.trainers.packs.pack_training import PackReport, PackTraining, train_packs, with_own_metrics
from asyncsearch.trainers.packs.sample_streams import EqualData, TrainerUnit, streams_of
from asyncsearch.trainers.turns import fail


def train_pack(trainers: Sequence[Any]) -> PackOutcome:
    """Train one unit of each trainer; each ends as after its own ``train``, within rounding."""
    units = _settled(trainers)
    if not units:
        return PackOutcome()

    def packs(report: PackReport) -> Iterator[tuple[Sequence[Any], PackTraining[Any] | None]]:
        # Data are compared in each unit, since a trainer may change its own in place.
        # The seed counts in any case: reading a sample may draw from generators that are seeded by it.
        streams = streams_of(units, EqualData(is_equal_tensor), lambda one: one.trial.seed)
        for together in in_step(streams):
            found = [unit.trainer for stream in together for unit in stream.units]
            yield found, KerasPack(together, report) if len(found) > 1 else None

    settled = [unit.trainer for unit in units]
    return train_packs(settled, why_not_together(settled), packs, train_alone)


def evaluate_pack(trainers: Sequence[Any]) -> list[Mapping[str, Any] | Exception]:
    """Return the metrics of each trainer, as its own ``evaluate`` does, within rounding, or its error."""
    # One that has failed in its unit raises its error instead; its variables say nothing.
    sound = [one for one in trainers if "evaluate" not in vars(one)]
    found = metrics_of_stacks(sound) if has_default_evaluation(trainers[0]) else {}
    if len(found) < len(trainers):
        seed_now(type(trainers[0]))
    return with_own_metrics(trainers, found)


def _settled(trainers: Sequence[Any]) -> list[TrainerUnit]:
    """Let each trainer take in the changes by its user's code; return the units of those that did not fail."""
    found = []
    for trainer in trainers:
        try:
            with trainer._own_generators():
                trainer._settle()
            found.append(TrainerUnit(trainer))
        except Exception as error:
            if is_of_all(error):
                raise
            fail(trainer, error)
    return found
