"""A trainer for Keras 3 on TensorFlow: you write model, optimizer and data, and resuming is bit-identical."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from asyncsearch.errors import UsageError
from asyncsearch.files.plain import read_file
from asyncsearch.trainable import PackOutcome, SaveFunction
from asyncsearch.trainable.gang import TrialGang
from asyncsearch.trainers.base_trainer import EVALUATION_BATCH, FrameworkTrainer, checked_norm
from asyncsearch.trainers.keras.batches import batch_of, tested
from asyncsearch.trainers.keras.clipping import clip
from asyncsearch.trainers.keras.gangs.connection import open_ring
from asyncsearch.trainers.keras.gangs.strategy import KerasGang, jit_words, require_averageable
from asyncsearch.trainers.keras.kept_traces import StepFunction, is_known
from asyncsearch.trainers.keras.packs import pack_training
from asyncsearch.trainers.keras.packs.samples import has_default_units, has_plain_data, may_draw
from asyncsearch.trainers.keras.traced_values import HeldValues
from asyncsearch.trainers.keras.trainer_state import (
    OwnGenerators,
    captured,
    drawn_state,
    forget_traces,
    give_state,
    has_own,
    inner,
    kind,
    read_variables,
    restore,
    restored,
    seed_tensorflow,
    without_weights,
    write_state,
)
from asyncsearch.trainers.sample_order import Indices
from asyncsearch.trial import Params


class KerasTrainer(FrameworkTrainer):
    """One network; override ``model``, ``optimizer`` and ``data``, and any other default.

    The trainer compiles the model, and trains it by ``train_on_batch``. ``optimizer`` is called again whenever a value
    changes, and its settings are copied to the current optimizer, which keeps its state; an optimizer of another class
    begins with an empty state. Inside a unit only the learning rate changes.

    Where several workers train a trial, each takes its share of a batch, and the optimizer applies averages of their
    gradients: that of the whole batch, within rounding, unless the model has batch norm, dropout or masks.
    """

    loss: Any = "sparse_categorical_crossentropy"
    """The loss, as for ``compile``."""
    metrics: Any = ("accuracy",)
    """The metrics, as for ``compile``; their values on the validation data are reported, and the loss."""
    deterministic: bool = True
    """Whether TensorFlow refuses operations whose results differ from run to run."""
    threads: int | None = 1
    """Threads of TensorFlow on the CPU: their number changes results. None for TensorFlow's default."""
    clip_grad_norm: float | None = None
    """The largest norm of the whole gradient if the hyper-parameters have no ``clip_grad_norm``; None for no limit. It
    changes between units, as all values of an optimizer but the learning rate."""
    jit_compile: bool = False
    """Whether XLA compiles the training."""

    run_eagerly: bool = False
    """Whether to train without tracing, which is slow and permits debugging."""

    _ordered_data = tf.data.Dataset, keras.utils.PyDataset
    _data_words = "arrays, (x, y), or a list of samples"
    net: Any
    """The result of ``model``, compiled."""
    _held: HeldValues | None
    """The values that the traced functions may hold; None if nothing was traced."""
    _draws_in_traces: bool
    _is_known: bool | None = None
    """Whether all that its steps run is Keras's own code; None if that is to be found out."""
    _late: int | None = None
    """The seed of TensorFlow's generators that was put off; None if none was."""
    _generators: OwnGenerators | None = None
    """The generators of the process as this trainer left them; None if nobody has taken its turn since."""

    def model(self, hp: Params) -> Any:
        """Return the network, a ``keras.Model`` that is not compiled."""
        raise NotImplementedError(f"{type(self).__name__} has no model(): return a keras.Model.")

    def optimizer(self, hp: Params) -> Any:
        """Return an optimizer: a pure function of the hyper-parameters, called at each change."""
        raise NotImplementedError(f"{type(self).__name__} has no optimizer(): return a keras.optimizers.Optimizer.")

    def learning_rate(self, hp: Params) -> float | None:
        """Return the learning rate inside a unit of training; None if it stays as at the beginning of the unit."""
        found = hp.get("lr", hp.get("learning_rate"))
        return None if found is None else float(found)

    @property
    def opt(self) -> Any:
        """The current optimizer; with mixed precision the one that scales the loss, around yours."""
        return self.net.optimizer

    def train(self) -> None:
        self._settle()
        with contextlib.nullcontext() if self._gang is None else self._gang.unit():
            super().train()
        if not has_own(self.net, "train_on_batch"):  # it may change a value at each step, and not where one is traced
            self._held = HeldValues(self)  # with what the traces themselves have changed, such as a count of calls
        self._keep_generators()

    def evaluate(self) -> Mapping[str, Any]:
        """Return the metrics on the validation data; no variable and no generator is changed by it.

        Where it is overridden, the weights that it changes stay changed; the other variables of the model are restored.
        """
        with self._untouched():
            self._settle()
            is_traced_now = self.net.test_function is None
            variables = [*self.net.variables, *self.net.metrics_variables, *self.opt.variables]
            with self._noting_draws(is_traced_now), restored(variables):
                found = self._metrics()
            if not has_own(self.net, "test_on_batch"):
                self._held = HeldValues(self)
            return found

    @classmethod
    def train_pack(cls, trainers: Sequence[Self]) -> PackOutcome:
        """Train one unit of several trainers together: alike ones as stacked weights, others one after another.

        Each ends as after its own ``train``, within rounding. What cannot be packed trains one after another, and says
        why.
        """
        return pack_training.train_pack(trainers)

    @classmethod
    def gang_refusal(cls) -> str:
        return jit_words(cls) if cls.jit_compile else ""

    @classmethod
    def evaluate_pack(cls, trainers: Sequence[Self]) -> list[Mapping[str, Any] | Exception]:
        """Return the metrics of trainers that ``train_pack`` has just trained, at once where they are the default ones.

        They are those of each one's ``evaluate``, within rounding.
        """
        return pack_training.evaluate_pack(trainers)

    def save(self, path: Path) -> None:
        write_state(path, self._state(), self._values())

    def _copied_state(self, may_take: Callable[[int], bool]) -> SaveFunction | None:
        if not may_take(sum(_bytes_of(variable) for _, variable in self._variables())):
            return None
        state, values = self._state(), self._values()
        return lambda path: write_state(path, state, values)

    def _values(self) -> dict[str, Any]:
        """Return copies of the values of all variables."""
        # Not save_weights: it leaves out the state of seed generators (measured, Keras 3.15).
        return {name: variable.value.numpy() for name, variable in self._variables()}

    def _state(self) -> dict[str, Any]:
        known = {id(variable): number for number, variable in enumerate(self.net.variables)}
        trained = [known.get(id(variable), -1) for variable in inner(self.opt)._trainable_variables]
        return {"optimizer": kind(self.opt), "trained": trained, "counters": self._counters()}

    def load(self, path: Path) -> None:
        state = json.loads(read_file(path / "state.json"))
        self._restore_counters(state["counters"])
        self._train_as_saved(state.get("trained", []))
        self._require_same_optimizer(state["optimizer"], kind(self.opt))
        read_variables(path / "variables.npz", self._variables())

    # Implementation of the base class

    def _build(self, hp: dict[str, Any]) -> None:
        if keras.backend.backend() != "tensorflow":
            raise UsageError(
                f"Keras runs on {keras.backend.backend()} here, and a KerasTrainer needs TensorFlow: set "
                "KERAS_BACKEND=tensorflow before Keras is imported."
            )
        self._gang = self._joined(self.trial.gang) if self.trial.world_size > 1 else None
        self.net = self._ablated(self.model(hp))
        self._limit = checked_norm(hp.get("clip_grad_norm", self.clip_grad_norm))
        self._held, self._draws_in_traces = None, False
        if type(self).evaluate is not KerasTrainer.evaluate:
            self.evaluate = self._evaluate_by_override  # type: ignore[method-assign]
        self._compile(self.optimizer(hp))

    def _joined(self, gang: TrialGang | None) -> KerasGang:
        assert gang is not None, "a trial of several workers has a gang"
        ring = open_ring(gang)
        gang.agree_by(ring.pass_on)
        return KerasGang(self, ring)

    def _gradient_bytes(self) -> int:
        return sum(map(_bytes_of, self.net.trainable_variables))

    def _call(self, inputs: tuple[Any, ...]) -> None:
        self.net(*inputs, training=False)

    def _compile(self, optimizer: Any) -> None:
        self.net.compile(
            optimizer=optimizer,
            loss=self.loss,
            metrics=list(self.metrics),
            jit_compile=self.jit_compile,
            run_eagerly=self.run_eagerly,
        )
        self._traced: dict[Any, Any] = {}
        self._compiled_with = self._for_compiling()
        if not self.net.built:
            self.net(self._batch(self._train_data, np.arange(1))[0])
        if not self.opt.built:
            self.opt.build(self.net.trainable_variables)
        clip(inner(self.opt), lambda: self._limit)
        if self._gang is not None:
            require_averageable(self)
            self._gang.average(self.opt)

    def _put(self, hp: dict[str, Any]) -> None:
        limit = checked_norm(hp.get("clip_grad_norm", self.clip_grad_norm))
        if limit != self._limit:
            self._limit = limit
            self._traced.clear()
        fresh, mine = self.optimizer(hp), inner(self.opt)
        if type(fresh) is type(mine):
            old, new = mine.get_config(), fresh.get_config()
            changed = {name: value for name, value in new.items() if name != "name" and value != old[name]}
        else:
            changed = {"class": type(fresh)}
        if isinstance(changed.get("learning_rate"), dict):
            raise UsageError(
                "The learning rate of optimizer() is a schedule, and it changed in the middle of training: let it be a "
                "number, and let the hyper-parameter be a sequence."
            )
        rate = changed.pop("learning_rate", None)
        if changed:
            fresh.build(mine._trainable_variables)
            if kind(fresh) != kind(mine):
                self._compile(fresh)
                return
        if rate is not None:
            mine.learning_rate = rate
        for name, value in changed.items():
            setattr(mine, name, value)
        if changed:
            self._traced.clear()  # the traced functions hold these values as constants

    def _settle(self) -> None:
        """Take in the changes by the user's code since the last step: see that no trace holds a former value."""
        if self._compiled_with != self._for_compiling():
            self._compile(self.opt)
        known = {id(variable) for variable in inner(self.opt)._trainable_variables}
        new = [variable for variable in self.net.trainable_variables if id(variable) not in known]
        if new:  # a layer is trainable now, and was not
            self._train_more([*inner(self.opt)._trainable_variables, *new])
        now = HeldValues(self)
        if now != self._held or self._draws_in_traces:
            self._forget_traces(now)
        self._held = now

    @contextlib.contextmanager
    def _own_generators(self) -> Iterator[None]:
        if self._generators is not None:
            restore(self._generators, self)
        try:
            yield
        finally:
            self._keep_generators()

    def _keep_generators(self) -> None:
        """Remember how this trainer leaves the generators, for its next call beside others."""
        self._generators = captured(with_framework=may_draw(self))

    def _forget_traces(self, held: HeldValues) -> None:
        self._traced.clear()
        self._is_known = None
        self.net.train_function = self.net.test_function = self.net.predict_function = None
        for function in held.functions:
            forget_traces(function)

    def _for_compiling(self) -> tuple[Any, ...]:
        """Return the arguments of ``compile``, besides the optimizer."""
        return self.loss, list(self.metrics), self.jit_compile, self.run_eagerly

    def _train_more(self, variables: list[Any]) -> None:
        """Let the optimizer train other variables, and keep its state of those that it has trained."""
        former = self.opt
        fresh = self.optimizer(self._applied or self.hp)
        fresh.build(variables)
        give_state(inner(former), inner(fresh))
        self._compile(fresh)

    def _train_as_saved(self, numbers: list[int]) -> None:
        """Let the optimizer have the variables of a checkpoint: which layers were trainable may have changed since."""
        variables = self.net.variables
        wanted = [variables[number] for number in numbers if 0 <= number < len(variables)]
        mine = inner(self.opt)._trainable_variables
        if len(wanted) == len(numbers) and wanted and [*map(id, wanted)] != [*map(id, mine)]:
            self._train_more(wanted)

    def _evaluate_by_override(self) -> Mapping[str, Any]:
        """Call an ``evaluate`` that is the user's own, and restore all but weights."""
        self._settle()
        with restored(without_weights(self.net, self.net.variables)):
            return type(self).evaluate(self)

    @contextlib.contextmanager
    def _noting_draws(self, is_traced_now: bool) -> Iterator[None]:
        """Notice that a trace draws from a generator of Python or numpy: each unit has draws of its own."""
        before = drawn_state() if is_traced_now else None
        yield
        if is_traced_now and drawn_state() != before:
            self._draws_in_traces = True

    def _follow(self, fraction: float) -> None:
        if fraction == 0.0:
            super()._follow(fraction)
        elif (values := self._values_at(fraction)) != self._applied:
            rate = self.learning_rate(values)
            if rate is not None:
                inner(self.opt).learning_rate = rate
            self._applied = dict(values)

    def _train_batch(self, batch: Any) -> None:
        # Keras traces the second shape as a shape of any size, which adds in another order: then the bits of a batch
        # depend on earlier batches, which a resumed training has not seen. So each size has its own function.
        size = len(keras.tree.flatten(batch)[0])
        is_new = size not in self._traced
        if is_new:
            self.net.make_train_function(force=True)
            self._traced[size] = StepFunction(self, "train_step", self.net.train_function, 1)
        self.net.train_function = self._traced[size]
        with self._noting_draws(is_new), contextlib.nullcontext() if self._gang is None else self._gang.step():
            self.net.train_on_batch(*batch)

    def _metrics(self) -> Mapping[str, Any]:
        count = self._count(self._validation_data)
        first, last = (0, count) if self._gang is None else self._gang.range_of_rank(count)
        places = (np.arange(at, min(at + EVALUATION_BATCH, last)) for at in range(first, last, EVALUATION_BATCH))
        self.net.reset_metrics()
        if self.net.test_function is None:
            self.net.make_test_function()
            self.net.test_function = StepFunction(self, "test_step", self.net.test_function, 2)
        found = tested(self.net, (self._batch(self._validation_data, indices) for indices in places))
        if self._gang is not None and last - first < count:
            found = self._gang.whole_metrics()
        self.net.reset_metrics()
        return found

    def _fetched(self, found: Iterator[tuple[int, Indices]], number: int) -> Iterator[tuple[int, Any]]:
        for at, indices in found:
            yield at, self._batch(self._train_data, indices)

    def _batch(self, data: Any, indices: Indices) -> tuple[Any, ...]:
        return batch_of(data, indices)

    def _seed(self, purpose: str, number: int) -> None:
        # TensorFlow prepares its functions again after it was seeded, which takes longer than many a unit.
        self._late = self._seed_python(purpose, number)
        if purpose != "unit" or not self._draws_nothing():
            self._seed_late()

    def _seed_late(self) -> None:
        """Seed TensorFlow's generators, if that was put off, before something that may draw from them."""
        late, self._late = self._late, None
        if late is not None:
            self._seed_framework(late)

    def _draws_nothing(self) -> bool:
        """Return whether nothing of a unit, and of what follows it, is known to draw from TensorFlow's generators."""
        if self._is_known is None:
            self._is_known = has_default_units(self) and has_plain_data(self) and is_known(self)
        return self._is_known

    def _seed_framework(self, seed: int) -> None:
        seed_tensorflow(seed, self.threads, is_deterministic=self.deterministic)

    def _variables(self) -> Iterator[tuple[str, Any]]:
        """Yield every variable, with a name that is the same in each process."""
        for number, variable in enumerate(self.net.variables):
            yield f"model/{number}", variable
        for number, variable in enumerate(self.opt.variables):
            yield f"optimizer/{number}", variable


def _bytes_of(variable: Any) -> int:
    return int(math.prod(variable.shape) * tf.as_dtype(variable.dtype).size)
