"""Traced steps that a process keeps, for later trainers of an equal configuration, each with variables of its own.

A trace has as constants whatever it read in Python, and as arguments the variables. So a step is kept with a key of all
that Keras holds of model, loss, metrics and optimizer, besides the values of variables and what is listed here as read
by no step; the variables of another trainer of that key take the places of the first one's. This is known of Keras's
own classes alone: where code or a class of anybody else is reached, as in a subclassed model, a loss of one's own or a
Lambda, the trainer traces by itself.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from asyncsearch.trainers.keras.batches import as_tensors, kind_of
from asyncsearch.trainers.keras.traced_values import Itself, array_mark, plain_mark
from asyncsearch.trainers.keras.trainer_state import drawn_state
from asyncsearch.trainers.packs.pack_training import known_of
from asyncsearch.trainers.state.global_generators import tensorflow_state

_LIBRARIES = frozenset({"keras", "tensorflow"})
_READ_BY_NO_STEP = frozenset({
    "_tracker", "_lock", "_auto_config", "_tracked", "build", "quantize", "_called", "_compile_config",
    "_saved_model_inputs_spec", "_saved_model_arg_spec", "_build_shapes_dict", "_call_signature", "_initial_epoch",
    "_inbound_nodes", "_outbound_nodes", "_nodes", "_operations_by_depth", "_losses", "_loss_ids", "_losses_override",
    "train_function", "test_function", "predict_function", "stop_training", "_compiled_trainable_state",
    "_trainable_variables_indices", "_distribution_strategy", "apply", "_exclude_from_weight_decay",
    "_exclude_from_weight_decay_cache", "_exclude_from_weight_decay_pattern", "_initial_seed", "_init_seed",
})  # fmt: skip
"""Attributes of Keras's objects that say how they were made or are saved, or that are read here in another way."""
_NAMES = frozenset({"name", "_name", "_path", "_parent_path"})
"""Names count on in a process. Those of metrics are read all the same, since results have them."""
_OPTIMIZERS = tuple(
    getattr(keras.optimizers, name)
    for name in ("SGD", "Adam", "AdamW", "Nadam", "Adamax", "RMSprop", "Adagrad", "Adadelta", "Lion", "Ftrl", "Lamb",
                 "Adafactor", "LossScaleOptimizer")
    if hasattr(keras.optimizers, name)
)  # fmt: skip
"""Those that read no path of a variable, besides where weights decay, which is read here."""
_CONSTANTS = range, slice, type(Ellipsis), Enum, tf.TensorShape

_DRAWING = ("Random", "Rng", "TruncatedNormal", "Multinomial", "StatefulUniform", "StatefulStandardNormal")
"""How the names of operations begin that draw from a generator of TensorFlow."""
_MOST_OPERATIONS = 50_000
"""Of all kept steps of a class of trainers: graphs of large networks have some 10,000 each."""


class NotKnownError(Exception):
    """A trainer reaches something of which nobody knows what a trace reads of it."""


class Configuration:
    """All that a step of a trainer may hold as a constant, as a key; and its variables, in the order of the key.

    Raises:
        NotKnownError: the trainer has to trace by itself.
    """

    def __init__(self, trainer: Any) -> None:
        self.variables: list[Any] = []
        self._tokens: list[Any] = [_settings()]
        self._seen: dict[int, tuple[int, Any]] = {}
        net = trainer.net
        if trainer._gang is not None or net.run_eagerly or net._distribute_strategy or tf.distribute.has_strategy():
            raise NotKnownError
        self._walk([net, trainer.loss, trainer.metrics, trainer._limit, net.jit_compile])

    @functools.cached_property
    def key(self) -> tuple[Any, ...]:
        """Equal for trainers whose steps compute the same."""
        return tuple(self._tokens)

    def _walk(self, roots: list[Any]) -> None:
        todo = roots[::-1]
        while todo:
            value = todo.pop()
            try:
                todo.extend(self._read(value)[::-1])
            except NotKnownError:
                raise
            except Exception as error:  # a handle, as that of a layer's table of words, or what refuses to be read
                raise NotKnownError(type(value)) from error

    def _read(self, value: Any) -> list[Any]:
        """Add what a value is to the key, and return its parts."""
        mark = plain_mark(value)
        if mark is None:
            mark = array_mark(value)
        if mark is not None:
            self._tokens.append(mark)
        elif id(value) in self._seen:
            self._tokens.append(("again", self._seen[id(value)][0]))
        else:
            self._seen[id(value)] = len(self._seen), value  # kept, so that nothing else gets its address
            mark, parts = self._parts(value)
            self._tokens.append((type(value), mark, len(parts)))
            return parts
        return []

    def _parts(self, value: Any) -> tuple[Any, list[Any]]:
        """Return the mark by which a value itself is compared, and its parts."""
        if isinstance(value, Mapping):
            return "mapping", [part for pair in value.items() for part in pair]
        if isinstance(value, AbstractSet):
            if all(plain_mark(one) is not None for one in value):
                return "set", sorted(value, key=repr)
            raise NotKnownError(value)
        if isinstance(value, list | tuple):
            return "items", list(value)
        if isinstance(value, FunctionType):
            return _of_function(value)
        if isinstance(value, MethodType):
            return "method", [value.__func__, value.__self__]
        if isinstance(value, functools.partial):
            return "partial", [value.func, value.args, value.keywords]
        if isinstance(value, _CONSTANTS):
            return repr(value), []
        if isinstance(value, type | ModuleType | BuiltinFunctionType):
            return Itself(_of_library(value, value)), []
        return self._of_keras(_of_library(value, type(value)))

    def _of_keras(self, value: Any) -> tuple[Any, list[Any]]:
        if isinstance(value, keras.Variable):
            self.variables.append(value)
            settings = value.trainable, value.regularizer, value.constraint, getattr(value, "autocast", None)
            more = vars(value).get("overwrite_with_gradient"), vars(value).get("_overwrite_with_gradient")
            return (tuple(value.shape), str(value.dtype)), [*settings, *more]
        if isinstance(value, keras.KerasTensor):
            return (value.shape, str(value.dtype), value.sparse), []
        if isinstance(value, keras.initializers.Initializer):  # which makes a variable before any step
            return "initializer", []
        if type(value).__name__ == "Node":
            arguments = value.arguments
            return value.is_input, [value.operation, arguments.args, arguments.kwargs, value.outputs]
        extra = _of_optimizer(value) if isinstance(value, keras.optimizers.Optimizer) else []
        return "keras", [*extra, *(part for pair in _attributes(value) for part in pair)]


def _settings() -> tuple[Any, ...]:
    """Return the settings of a process that a trace reads."""
    config, more = keras.config, tf.config.experimental
    flash = getattr(config, "is_flash_attention_enabled", lambda: None)
    own = config.floatx(), config.epsilon(), config.image_data_format(), config.dtype_policy().name, flash()
    found = tf.config.optimizer.get_experimental_options()
    return (*own, tf.config.functions_run_eagerly(), more.tensor_float_32_execution_enabled(), _is_deterministic(),
            tf.config.optimizer.get_jit(), tuple(sorted(found.items())))  # fmt: skip


def _is_deterministic() -> Any:
    context: Any = sys.modules.get("tensorflow.python.framework.config")
    return context.is_op_determinism_enabled()


def _of_library(value: Any, kind: Any) -> Any:
    """Return a value whose class and its bases are of Keras or TensorFlow."""
    bases = kind.__mro__ if isinstance(kind, type) else (kind,)
    known = (*_LIBRARIES, "builtins", "math", "typing", "abc", "enum", "collections")
    for base in bases:
        module = base.__name__ if isinstance(base, ModuleType) else base.__module__
        if (module or "").partition(".")[0] not in known:
            raise NotKnownError(value)
    if isinstance(value, tf.Variable | tf.Module) or not (value is kind or hasattr(value, "__dict__")):
        raise NotKnownError(value)
    return value


def _of_function(function: FunctionType) -> tuple[Any, list[Any]]:
    """Return the mark of a function of a library, and the values around it where it was made inside of another one."""
    module = function.__globals__.get("__name__", "")
    if module.partition(".")[0] not in _LIBRARIES:
        raise NotKnownError(function)
    found: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    if found is function:
        return Itself(function), []
    try:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError as error:  # it names what is not there yet
        raise NotKnownError(function) from error
    return function.__code__, [function.__defaults__, function.__kwdefaults__, *cells]


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object of Keras that a step may read."""
    is_named = isinstance(value, keras.metrics.Metric)
    for name, one in vars(value).items():
        if name in _READ_BY_NO_STEP or name.startswith("_self_") or (name in _NAMES and not is_named):
            continue
        if name == "output_names" and len(one or ()) < 2:  # what has one output has no name of it in its results
            continue
        if name in ("_dropout_mask", "_recurrent_dropout_mask") and one is None:  # which the first call makes
            continue
        if name == "_flat_losses" and len(one or ()) == 1:
            one = tuple(one[0])[:-1]  # noqa: PLW2901
        yield name, sorted(one.items()) if name == "_nodes_by_depth" else one


def _of_optimizer(optimizer: Any) -> list[Any]:
    """Return how often an optimizer clips gradients, the function that applies them, and which weights decay."""
    if type(optimizer) not in _OPTIMIZERS:
        raise NotKnownError(optimizer)
    apply, clippings = vars(optimizer).get("apply"), 0
    while hasattr(apply, "clipped"):
        apply, clippings = apply.clipped, clippings + 1
    decayed = [bool(optimizer._use_weight_decay(one)) for one in optimizer._trainable_variables]
    return [clippings, apply, *decayed]


class KeptStep:
    """The function of a trace, without the variables of the trainer that made it."""

    def __init__(self, function: Any, captures: list[Any], operations: int) -> None:
        self._function, self.operations = function, operations
        self._captures = captures
        """For each argument after the batch the place of its variable, or a tensor that is in the key."""

    def of(self, variables: list[Any]) -> Any:
        """Return the step of a trainer with these variables, as a function of a batch."""
        handles = [variables[one].value.handle if isinstance(one, int) else one for one in self._captures]
        return functools.partial(_call, self._function, handles)


def _call(function: Any, handles: list[Any], batch: tuple[Any, ...]) -> Any:
    return function.call_preflattened([*as_tensors(batch), *handles])


def kept_step(trainer: Any, purpose: str, batch: tuple[Any, ...]) -> Any:
    """Return a step of a trainer as a function of batches like this one; None if it has to trace by itself.

    Args:
        trainer: a ``KerasTrainer`` whose metrics and loss are built.
        purpose: the method of its model, ``train_step`` or ``test_step``.
        batch: some tensors.
    """
    try:
        Configuration(trainer)  # to build calls the loss and the metrics, which nobody else's code may notice
        _build_results(trainer.net, batch)
        configuration = Configuration(trainer)
        key, steps = (purpose, configuration.key, kind_of(batch)), known_of(type(trainer)).steps
        kept = steps.found(key, lambda: _traced(trainer, purpose, batch, configuration))
    except NotKnownError:
        return None
    while len(steps) > 1 and sum(one.operations for one in steps.values() if one is not None) > _MOST_OPERATIONS:
        del steps[next(iter(steps))]
    return None if kept is None else kept.of(configuration.variables)


def is_known(trainer: Any) -> bool:
    """Return whether a trainer reaches nothing but Keras's own code, which draws from no generator of the process."""
    try:
        Configuration(trainer)
    except NotKnownError:
        return False
    return True


def _build_results(net: Any, batch: tuple[Any, ...]) -> None:
    """Build the loss and the metrics, which Keras does when it traces the first step."""
    parts = [one for one in (net._compile_metrics, net._compile_loss) if one is not None and not one.built]
    outputs = getattr(net, "outputs", None) or []
    if parts and len(outputs) == 1 and len(batch) > 1 and None not in outputs[0].shape[1:]:
        found = keras.KerasTensor((len(batch[0]), *outputs[0].shape[1:]), outputs[0].dtype, name="outputs")
        for one in parts:
            one.build(batch[1], found)
    elif parts:
        net._symbolic_build(data_batch=batch)


def _traced(trainer: Any, purpose: str, batch: tuple[Any, ...], configuration: Configuration) -> KeptStep | None:
    """Trace a step; None if it draws, or reads a variable or a tensor that is not in the key."""
    net = trainer.net
    function = tf.function(getattr(net, purpose), autograph=False, jit_compile=net.jit_compile)
    before = drawn_state(), tensorflow_state()
    try:
        concrete = function.get_concrete_function(tuple(tf.TensorSpec(one.shape, one.dtype) for one in batch))
        inner = concrete._inference_function
    except Exception as error:  # the trainer makes it again, and then it is its own
        raise NotKnownError from error
    if (drawn_state(), tensorflow_state()) != before or drawing_in(concrete.graph):
        return None
    places = {id(one.value.handle): number for number, one in enumerate(configuration.variables)}
    marks = {one for one in configuration.key if isinstance(one, tuple)}
    captures: list[Any] = []
    for tensor in concrete.captured_inputs:
        if id(tensor) in places:
            captures.append(places[id(tensor)])
        elif tensor.dtype not in (tf.resource, tf.variant) and array_mark(tensor) in marks:
            captures.append(tensor)
        else:
            return None
    if len(concrete.inputs) != len(batch) + len(captures):
        return None
    return KeptStep(inner, captures, len(concrete.graph.get_operations()))


class StepFunction:
    """Keras's own function of a step, for whose first kinds of batches kept steps stand in where there are such."""

    def __init__(self, trainer: Any, purpose: str, own: Any, most: int) -> None:
        self._trainer, self._purpose, self._own, self._most = trainer, purpose, own, most
        self._steps: dict[Any, Any] = {}

    def __call__(self, iterator: Any) -> Any:
        if isinstance(iterator, tf.data.Iterator | tf.distribute.DistributedIterator):
            self._trainer._seed_late()
            return self._own(iterator)
        batch = tuple(next(iterator))
        given = batch
        while given and given[-1] is None:  # no weights of samples, or no targets
            given = given[:-1]
        step = self._step_of(given)
        if step is None:
            self._trainer._seed_late()  # this function may draw
            return self._own(iter([batch]))
        return step(given)

    def _step_of(self, batch: tuple[Any, ...]) -> Any:
        if not all(isinstance(one, np.ndarray | tf.Tensor) for one in batch):
            return None
        kind = tuple((tuple(one.shape), one.dtype) for one in batch)
        if kind not in self._steps and len(self._steps) < self._most:
            self._steps[kind] = kept_step(self._trainer, self._purpose, as_tensors(batch))
        return self._steps.get(kind)


def drawing_in(graph: Any) -> str:
    """Return an operation of a graph that draws from a generator of the process; empty if none does."""
    return next((operation for operation in _operations(graph) if operation.startswith(_DRAWING)), "")


def _operations(graph: Any) -> Iterator[str]:
    definition = graph.as_graph_def()
    for body in (definition.node, *(function.node_def for function in definition.library.function)):
        for node in body:
            yield node.op
