"""A unit of each of several ``KerasTrainer`` at once; else one after another, in words why.

Pseudocode of a unit::

    for those whose batches have the same sizes:
        seed the generators as the own ``train`` of the first one does; steps draw from those of their models only
        for each step of the unit; trainers that see the same samples in the same order have their batch read once:
            each applies its values at this fraction of the unit to its optimizer
            alike ones step as one computation, and each of the others by a traced step of its own
        the state of each is in its own ``net`` and ``opt`` again, so ``evaluate`` and ``save`` are those of the trainer
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from asyncsearch.events import is_of_all
from asyncsearch.trainers.keras.packs.errors import NotStackedError, NotTogetherError
from asyncsearch.trainers.keras.packs.graphs import as_tensors
from asyncsearch.trainers.keras.packs.late_seeds import leave_seeded, seed_late, train_alone
from asyncsearch.trainers.keras.packs.line_batches import LineBatches
from asyncsearch.trainers.keras.packs.refusals import why_not_together
from asyncsearch.trainers.keras.packs.sample_lines import has_plain_data, in_step, sample_lines
from asyncsearch.trainers.keras.packs.stacked import StackedMembers
from asyncsearch.trainers.keras.packs.steps_in_turn import StepsInTurn
from asyncsearch.trainers.keras.packs.structure import Structure, difference_between, structure_of
from asyncsearch.trainers.keras.traced_values import HeldValues
from asyncsearch.trainers.sample_order import batches
from asyncsearch.trainers.unit_errors import fail

_refused: dict[type, str] = {}
"""Trainer classes that were last trained one after another, with the reason."""
_in_turn: dict[type, str] = {}
"""Trainer classes some of which stepped in turn in their last pack, with the reason."""
_printed: set[tuple[type, str]] = set()


def train_pack(trainers: Sequence[Any]) -> None:
    """Train one unit of each trainer; each ends as after its own ``train``, within rounding."""
    trainers = _settled(trainers)
    if not trainers:
        return
    kind = type(trainers[0])
    _refused[kind], _in_turn[kind] = why_not_together(trainers) or "", ""
    if _refused[kind]:
        _say(kind, f"these trainings are not packed: {_refused[kind]}.")
    for lines in [[[one]] for one in trainers] if _refused[kind] else in_step(sample_lines(trainers)):
        if len(lines) + len(lines[0]) > 2:
            _train_lines(lines)
        else:
            train_alone(lines[0][0])


def _settled(trainers: Sequence[Any]) -> list[Any]:
    """Let each trainer take in what its user's code has changed; return those that did not fail."""
    found = []
    for trainer in trainers:
        try:
            with trainer._own_generators():
                trainer._settle()
            found.append(trainer)
        except Exception as error:
            if is_of_all(error):
                raise
            fail(trainer, error)
    return found


def refusal_of(kind: type) -> str:
    """Return why trainers of a class are not packed in this process; empty: they are, or none was trained."""
    return _refused.get(kind, "")


def in_turn_of(kind: type) -> str:
    """Return why trainers of a class stepped in turn in the last pack of this process; empty: none did."""
    return _in_turn.get(kind, "")


def _train_lines(lines: list[list[Any]]) -> None:
    """Train a unit of trainers on lines of samples that are in step."""
    try:
        _Unit(lines).train()
    except NotTogetherError as error:  # before the first step
        trainers = list(itertools.chain(*lines))
        kind = type(trainers[0])
        _refused[kind], _in_turn[kind] = str(error), ""
        _say(kind, f"these trainings are not packed: {error}.")
        for trainer in trainers:
            train_alone(trainer)


class _Unit:
    def __init__(self, lines: list[list[Any]]) -> None:
        self._lines, self._trainers = lines, list(itertools.chain(*lines))
        self._batches = LineBatches(lines)
        self._runs: list[StackedMembers | StepsInTurn] = []
        self._has_runs = False
        self._steps = {id(trainer): trainer.steps for trainer in self._trainers}
        self._failed: list[tuple[Any, int]] = []
        """Those whose common step has failed, with the steps that they had made before this unit."""

    def train(self) -> None:
        first = self._trainers[0]
        start, unit = first.samples, first._unit_samples
        seed_late(first, start // unit)
        for steps in zip(*(_batches_of(line[0]) for line in self._lines), strict=True):
            self._batches.take([as_tensors(read) for _, read in steps])
            self._step((steps[0][0] - start) / unit)
        for run in self._runs:
            run.end()
        is_drawn_from = not has_plain_data(first)
        for trainer in self._trainers:
            trainer.samples += unit
            trainer._held = HeldValues(trainer)
            if is_drawn_from:
                trainer._keep_generators()  # of one line, whose data were read for all
            else:
                leave_seeded(trainer, trainer.samples // unit - 1)
        for trainer, steps in self._failed:
            trainer.samples, trainer.steps = trainer.samples - unit, steps
            train_alone(trainer)

    def _step(self, fraction: float) -> None:
        followed = [one for one in self._trainers if not self._has_runs or one.trial.has_sequences]
        for trainer in followed:
            trainer._follow(fraction)
        if not self._has_runs:
            self._runs, self._has_runs = _runs_of(self._trainers, self._batches), True
        else:
            for run in self._runs:
                for trainer in followed:
                    if any(trainer is one for one in run.trainers):
                        run.follow(trainer)
        for run in list(self._runs):
            try:
                run.step(self._batches)
            except Exception as error:
                if is_of_all(error) or isinstance(run, StepsInTurn):
                    raise
                # Of one of them: nothing of this unit is in their variables yet, and each trains it by itself.
                self._runs.remove(run)
                self._failed += [(trainer, self._steps[id(trainer)]) for trainer in run.trainers]
        for trainer in self._trainers:
            trainer.steps += 1


def _batches_of(trainer: Any) -> Iterator[tuple[int, Any]]:
    """Yield the batches of a trainer's next unit, each with the samples consumed before."""
    unit, size, start = trainer._unit_samples, trainer._size, trainer.samples
    batch_size = trainer._checked_batch_size(size, unit)
    found = batches(trainer._order_of, size, start, start + unit, batch_size, drop_last=trainer.drop_last)
    yield from trainer._fetched(found, start // unit)


def _runs_of(trainers: Sequence[Any], batches: LineBatches) -> list[StackedMembers | StepsInTurn]:
    """Return what trains each trainer: stacks of alike ones, and steps in turn for the rest."""
    found: list[StackedMembers | StepsInTurn] = []
    rest: list[Any] = []
    structures = by_structure(trainers)
    known = [structure for structure, _ in structures if structure is not None]
    unlike = f"they are unlike: {difference_between(known[0], known[1])}" if len(known) > 1 else ""
    _note_in_turn(type(trainers[0]), unlike)
    for structure, alike in structures:
        try:
            if structure is None or len(alike) == 1:
                raise NotStackedError("" if structure is None else unlike)
            stack = StackedMembers(alike, structure)
            stack.prepare(batches)
            found.append(stack)
        except NotStackedError as error:
            _say_not_stacked(alike[0], str(error))
            rest += alike
    if rest:
        found.append(StepsInTurn(rest))
        found[-1].prepare(batches)
    return found


def by_structure(trainers: Sequence[Any]) -> list[tuple[Structure | None, list[Any]]]:
    """Return trainers by structure; None: it is not known how to stack them."""
    found: dict[Structure | None, list[Any]] = {}
    for trainer in trainers:
        try:
            found.setdefault(structure_of(trainer), []).append(trainer)
        except NotStackedError as error:
            _say_not_stacked(trainer, str(error))
            found.setdefault(None, []).append(trainer)
    return list(found.items())


def _say_not_stacked(trainer: Any, words: str) -> None:
    kind = type(trainer)
    if words:
        _note_in_turn(kind, words)
        _say(kind, f"these trainings share each batch and step in turn, since their weights are not stacked: {words}.")


def _note_in_turn(kind: type, words: str) -> None:
    _in_turn[kind] = _in_turn.get(kind) or words


def _say(kind: type, text: str) -> None:
    """Say it once in a process."""
    if (kind, text) not in _printed:
        _printed.add((kind, text))
        sys.stderr.write(f"asyncsearch: {text}\n")
