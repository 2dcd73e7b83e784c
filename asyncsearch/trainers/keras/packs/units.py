"""Several ``KerasTrainer`` in one unit: alike ones train as one computation, the others sequentially; and its metrics.

A sequential step is each member's own traced step, one after another, on a batch that is read once. It saves the work
of ``train_on_batch`` around it. One traced function of all steps takes longer on a processor than its parts, and has to
be traced anew whenever a member comes or goes. The metrics of alike trainers on the same data are computed at once, by
Keras's own ``test_step`` for stacked variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from asyncsearch.events import is_of_all
from asyncsearch.trainers.base_trainer import EVALUATION_BATCH
from asyncsearch.trainers.keras.batches import as_tensors, kind_of
from asyncsearch.trainers.keras.kept_traces import drawing_in, kept_step
from asyncsearch.trainers.keras.packs.must_match import Structure, difference_between, structure_of
from asyncsearch.trainers.keras.packs.samples import (
    StreamBatches,
    Streams,
    has_plain_data,
    is_equal_tensor,
    leave_seeded,
    seed_late,
    train_alone,
)
from asyncsearch.trainers.keras.packs.stacks import StackedMembers, stacked
from asyncsearch.trainers.keras.packs.traced_steps import (
    NotStackedError,
    drawing_nothing,
    line_of,
    quiet_vectorizing,
    require_own_state,
)
from asyncsearch.trainers.keras.traced_values import HeldValues
from asyncsearch.trainers.keras.trainer_state import restored
from asyncsearch.trainers.packs.pack_training import NotTogetherError, PackReport, PackTraining, known_of
from asyncsearch.trainers.packs.sample_streams import EqualData, SampleStream, TrainerUnit, grouped
from asyncsearch.trainers.turns import fail


class SequentialSteps:
    """The steps of several trainers in one unit. Each traced step stays with its trainer, for later units."""

    def __init__(self, trainers: Sequence[Any]) -> None:
        self.trainers = list(trainers)

    def prepare(self, batches: StreamBatches) -> None:
        """Trace the steps that batches like these need.

        Raises:
            NotTogetherError: the members would change each other's results.
        """
        for trainer in self.trainers:
            _step_of(trainer, batches.of(trainer))

    def follow(self, trainer: Any) -> None:
        """Take in that the learning rate of a trainer has changed: its step reads it from its optimizer."""

    def step(self, batches: StreamBatches) -> None:
        """Train each member by one step."""
        for trainer in list(self.trainers):
            batch = batches.of(trainer)
            try:
                _step_of(trainer, batch)(batch)
            except Exception as error:  # of its model or its loss
                if is_of_all(error):
                    raise
                fail(trainer, error)
                self.trainers.remove(trainer)

    def end(self) -> None:
        """All state is in the members."""


def _step_of(trainer: Any, batch: tuple[Any, ...]) -> Any:
    """Return the traced step of one member; it goes with the trainer's other traced functions."""
    kind = "pack", kind_of(batch)
    if kind not in trainer._traced:
        trainer._traced[kind] = kept_step(trainer, "train_step", batch) or _own_step(trainer, batch)
    return trainer._traced[kind]


def _own_step(trainer: Any, batch: tuple[Any, ...]) -> Any:
    net = trainer.net
    step = tf.function(net.train_step, autograph=False, jit_compile=net.jit_compile)
    try:
        with drawing_nothing():
            concrete = step.get_concrete_function(batch)
    except (tf.errors.ResourceExhaustedError, NotTogetherError):
        raise
    except Exception as error:
        words = str(error).strip().partition("\n")[0]
        name, line = type(net).__name__, line_of(error)
        raise NotTogetherError(f"train_step of {name} cannot be traced{line}: {words}") from error
    variables = [*net.variables, *net.metrics_variables, *trainer.opt.variables]
    require_own_state(concrete.graph, {id(variable.value) for variable in variables})
    return step


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


def metrics_of_stacks(trainers: Sequence[Any]) -> dict[int, Mapping[str, Any]]:
    """Return metrics by the ids of trainers; none of those that need their own ``evaluate``."""
    found: dict[int, Mapping[str, Any]] = {}
    equal = EqualData(is_equal_tensor)
    for same in grouped(trainers, lambda one: equal.number(one._validation_data)):
        for structure, alike in by_structure(same):
            for group in _by_metrics(alike):
                if structure is not None and len(group) > 1:
                    found |= _together(group, structure)
    return found


def _by_metrics(trainers: Sequence[Any]) -> list[list[Any]]:
    """Return trainers in groups; those of one group have the same metrics, all of them by name."""
    found: dict[tuple[str, ...], list[Any]] = {}
    for trainer in trainers:
        # A metric that is an object may be one for all trainers, and holds what was last counted.
        if all(isinstance(metric, str) for metric in trainer.metrics):
            found.setdefault(tuple(trainer.metrics), []).append(trainer)
    return list(found.values())


def _together(trainers: Sequence[Any], structure: Structure) -> dict[int, Mapping[str, Any]]:
    """Return the metrics by the ids of the trainers; nothing where each needs its own ``evaluate``."""
    first = trainers[0]
    data = first._validation_data
    variables = [stacked(same) for same in zip(*(one.net.variables for one in trainers), strict=True)]
    counts: list[Any] | None = None
    logs: dict[str, Any] = {}
    with first._untouched():
        for start in range(0, first._count(data), EVALUATION_BATCH):
            indices = np.arange(start, min(start + EVALUATION_BATCH, first._count(data)))
            batch = as_tensors(first._batch(data, indices))
            evaluation = _evaluation(first, structure, batch)
            if evaluation is None:
                return {}
            if counts is None:
                counts = [tf.repeat(zero[None], len(trainers), axis=0) for zero in evaluation.zeros]
            logs, counts = evaluation(variables, counts, batch)
    columns = {name: values.numpy().tolist() for name, values in logs.items()}
    return {id(one): {name: column[row] for name, column in columns.items()} for row, one in enumerate(trainers)}


def _evaluation(trainer: Any, structure: Structure, batch: tuple[Any, ...]) -> Any:
    """Return the traced evaluation of a stack; None if each of its members is evaluated by itself."""

    def traced() -> Any:
        try:
            return _Evaluation(trainer.net, batch)
        except tf.errors.ResourceExhaustedError:
            raise
        except Exception:  # whatever the model does that vectorized_map cannot
            return None

    key = structure, tuple(trainer.metrics), kind_of(batch)
    return known_of(type(trainer)).traced.found(key, traced)


class _Evaluation:
    def __init__(self, net: Any, batch: tuple[Any, ...]) -> None:
        # Makes the variables of the metrics, and tells their order: a traced function sorts them by name.
        with restored([*net.variables, *net.metrics_variables]):
            self._names = list(net.test_on_batch(*batch, return_dict=True))
        net.reset_metrics()
        self.zeros = [variable.value.read_value() for variable in net.metrics_variables]
        """The variables of the metrics before the first batch."""
        specs = [tf.TensorSpec([None, *one.shape], one.dtype) for one in (*net.variables, *net.metrics_variables)]
        parts = [tf.TensorSpec(part.shape, part.dtype) for part in batch]
        step = tf.function(_traced_step(net), autograph=False)
        with quiet_vectorizing(), drawing_nothing():
            self._function = step.get_concrete_function(*specs, *parts)
        if drawing_in(self._function.graph):
            raise NotStackedError("the evaluation draws from TensorFlow's own generator")

    def __call__(self, variables: list[Any], counts: list[Any], batch: tuple[Any, ...]) -> tuple[Any, list[Any]]:
        logs, found = self._function(*variables, *counts, *batch)
        return {name: logs[name] for name in self._names}, list(found)


def _traced_step(net: Any) -> Any:
    variables = [*net.variables, *net.metrics_variables]
    counting = net.metrics_variables

    def step(*tensors: Any) -> Any:
        batch = tensors[len(variables) :]

        def of_member(own: Any) -> Any:
            with keras.StatelessScope(
                state_mapping=list(zip(variables, own, strict=True)), collect_losses=True
            ) as scope:
                logs = net.test_step(batch)
            return logs, [scope.get_current_value(variable) for variable in counting]

        return tf.vectorized_map(of_member, list(tensors[: len(variables)]), warn=False)

    return step
