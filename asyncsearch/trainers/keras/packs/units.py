"""Several ``KerasTrainer`` that train one unit together: alike ones as one computation, the others sequentially."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asyncsearch.events import is_of_all
from asyncsearch.trainers.keras.packs.must_match import Structure, difference_between, structure_of
from asyncsearch.trainers.keras.packs.samples import StreamBatches, Streams, has_plain_data
from asyncsearch.trainers.keras.packs.seeds import leave_seeded, seed_late, train_alone
from asyncsearch.trainers.keras.packs.sequential import SequentialSteps
from asyncsearch.trainers.keras.packs.stacks import StackedMembers
from asyncsearch.trainers.keras.packs.traced_steps import NotStackedError
from asyncsearch.trainers.keras.traced_values import HeldValues
from asyncsearch.trainers.packs.known_classes import PackReport
from asyncsearch.trainers.packs.pack_training import PackTraining
from asyncsearch.trainers.packs.sample_streams import SampleStream, TrainerUnit

Run = StackedMembers | SequentialSteps


class KerasPack(PackTraining[TrainerUnit]):
    """The trainers of streams of samples that are in step."""

    def __init__(self, streams: Streams, report: PackReport) -> None:
        self._streams, self._report = streams, report
        self._batches = StreamBatches(streams)
        self._runs: list[Run] = []
        self._trainers = [unit.trainer for stream in streams for unit in stream.units]

    def begin(self) -> Streams:
        first = self._streams[0].units[0]
        # The generators are those of the first one's own training; steps draw from those of their models only.
        seed_late(first.trainer, first.start // first.size)
        return self._streams

    def follow(self, unit: TrainerUnit, fraction: float) -> None:
        unit.trainer._follow(fraction)
        for run in self._runs:
            if any(unit.trainer is one for one in run.trainers):
                run.follow(unit.trainer)

    def step(self, streams: Sequence[SampleStream[TrainerUnit]]) -> None:
        self._batches.take(streams)
        if not self.has_stepped:
            self._runs = _runs_of(self._trainers, self._batches, self._report)
        units = [unit for stream in streams for unit in stream.units]
        for run in list(self._runs):
            try:
                run.step(self._batches)
            except Exception as error:
                if is_of_all(error) or isinstance(run, SequentialSteps):
                    raise
                # Of one of them: nothing of this unit is in their variables yet, and each trains it by itself.
                self._runs.remove(run)
                self.failed += [unit for unit in units if any(unit.trainer is one for one in run.trainers)]
        for unit in units:
            unit.trainer.steps += 1

    def sync(self) -> None:
        for run in self._runs:
            run.end()

    def end(self, unit: TrainerUnit) -> None:
        trainer = unit.trainer
        trainer._held = HeldValues(trainer)
        if has_plain_data(self._trainers[0]):
            leave_seeded(trainer, unit.start // unit.size)
        else:
            trainer._keep_generators()  # of one stream, whose data were read for all

    def train_alone(self, unit: TrainerUnit) -> None:
        unit.trainer.steps = unit.steps
        train_alone(unit.trainer)


def _runs_of(trainers: Sequence[Any], batches: StreamBatches, report: PackReport) -> list[Run]:
    """Return the runs that train each trainer: stacks of alike ones, and sequential steps for the rest."""
    found: list[Run] = []
    rest: list[Any] = []
    structures = by_structure(trainers, report)
    known = [structure for structure, _ in structures if structure is not None]
    unlike = f"they are unlike: {difference_between(known[0], known[1])}" if len(known) > 1 else ""
    report.note_sequential(unlike)
    for structure, alike in structures:
        try:
            if structure is None or len(alike) == 1:
                raise NotStackedError("" if structure is None else unlike)
            stack = StackedMembers(alike, structure)
            stack.prepare(batches)
            found.append(stack)
        except NotStackedError as error:
            _say_not_stacked(str(error), report)
            rest += alike
    if rest:
        found.append(SequentialSteps(rest))
        found[-1].prepare(batches)
    return found


def by_structure(trainers: Sequence[Any], report: PackReport | None = None) -> list[tuple[Structure | None, list[Any]]]:
    """Return trainers by structure; None where it is not known how to stack them."""
    found: dict[Structure | None, list[Any]] = {}
    for trainer in trainers:
        try:
            found.setdefault(structure_of(trainer), []).append(trainer)
        except NotStackedError as error:
            _say_not_stacked(str(error), report)
            found.setdefault(None, []).append(trainer)
    return list(found.items())


def _say_not_stacked(words: str, report: PackReport | None) -> None:
    if words and report is not None:
        report.note_sequential(words)
        report.say(
            f"these trainings share each batch and are sequential, since their weights are not stacked: {words}."
        )
