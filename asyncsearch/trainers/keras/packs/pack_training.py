"""``KerasTrainer.train_pack`` and ``evaluate_pack``: each unit forms its packs anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from asyncsearch.events import is_of_all
from asyncsearch.trainable import PackOutcome
from asyncsearch.trainers.keras.packs.must_match import CALLED_ALONE
from asyncsearch.trainers.keras.packs.samples import (
    has_default_evaluation,
    in_step,
    is_equal_tensor,
    seed_now,
    train_alone,
)
from asyncsearch.trainers.keras.packs.units import KerasPack, metrics_of_stacks
from asyncsearch.trainers.packs.pack_training import (
    PackReport,
    PackTraining,
    class_refusal,
    place_of,
    train_packs,
    with_own_metrics,
)
from asyncsearch.trainers.packs.sample_streams import EqualData, TrainerUnit, streams_of
from asyncsearch.trainers.turns import fail

_INSTEAD = dict.fromkeys(
    ("train", "_train_batch", "_fetched", "_batch", "_follow", "_put", "_build", "_compile"), "put it into the model"
)
"""Methods that a pack does itself -> the replacement of one's own."""


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


def why_not_together(trainers: Sequence[Any]) -> str:
    """Return why trainers train one after another, and the line to change; empty if that is not known yet."""
    first = trainers[0]
    if words := class_refusal(trainers, _INSTEAD):
        return words
    if first.run_eagerly:
        return f"run_eagerly=True of {type(first).__name__} traces nothing: leave it out"
    for trainer in trainers:
        for name in CALLED_ALONE:
            method = vars(trainer.net).get(name) or getattr(type(trainer.net), name)
            if not method.__module__.startswith("keras."):
                where = f"{type(trainer.net).__name__}.{name} ({place_of(method)})"
                return f"{where} is its own, and a pack does not call it: put it into layers, or into train_step"
    return _shared(trainers)


def _shared(trainers: Sequence[Any]) -> str:
    owners: dict[int, Any] = {}
    for trainer in trainers:
        for variable in (*trainer.net.variables, *trainer.opt.variables):
            if owners.setdefault(id(variable), trainer) is not trainer:
                return f"two models share variable {variable.path}: build each in model(), and each optimizer too"
    return ""
