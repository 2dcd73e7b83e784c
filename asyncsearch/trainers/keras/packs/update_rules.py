"""The updates of Keras's optimizers for K members at once, each member with its own numbers.

The tensors of a variable are stacked, (K, ...), and a number is a column, (K, 1, ...). The formulas, their order
included, are those of ``update_step`` in ``keras.optimizers``, so that the results differ by rounding only. Two things
in them are easily missed: Keras rounds some numbers to single precision in any case, and the square of a sparse
gradient is the sum of the squares of its parts.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import keras
import tensorflow as tf


class Columns(Protocol):
    """The numbers of all members as columns."""

    def __call__(self, name: str, *, is_single: bool = False) -> Any:
        """Return a number by its name, as Keras has it: some are rounded to single precision."""


Slots = dict[str, Any]


class KerasUpdateRule:
    """How one class of optimizers updates one variable.

    Args:
        optimizer: of one member; what it has besides its numbers is that of all.
    """

    numbers: ClassVar[tuple[str, ...]] = ()
    """Settings that may differ from member to member, besides the learning rate and the weight decay."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def slots(self) -> tuple[str, ...]:
        """Return the attributes of the optimizer that hold one variable for each variable of the model."""
        raise NotImplementedError

    def flags(self) -> tuple[Any, ...]:
        """Return the options that must match in a stack."""
        return ()

    def update(self, weight: Any, grad: Any, square: Any, slots: Slots, column: Columns) -> Any:
        """Return the new weight, and put the new slots in place of the present ones.

        Args:
            weight: (K, ...).
            grad: (K, ...).
            square: of the gradient, (K, ...).
            slots: (K, ...) by name.
            column: returns a number as a column, (K, 1, ...).
        """
        raise NotImplementedError


class KerasSGDRule(KerasUpdateRule):
    """Stochastic gradient descent with momentum and Nesterov's momentum."""

    numbers = ("momentum",)

    def slots(self) -> tuple[str, ...]:
        return ("momentums",) if self.optimizer.momentum != 0 else ()

    def flags(self) -> tuple[Any, ...]:
        return (bool(self.optimizer.nesterov),)

    def update(self, weight: Any, grad: Any, square: Any, slots: Slots, column: Columns) -> Any:
        step = grad * column("learning_rate")
        if not slots:
            return weight - step
        share = column("momentum", is_single=True)
        momentum = slots["momentums"] = slots["momentums"] * share - step
        return weight + (momentum * share - step if self.optimizer.nesterov else momentum)


class KerasAdamRule(KerasUpdateRule):
    """Adam and AdamW, with and without AMSGrad."""

    numbers = ("beta_1", "beta_2", "epsilon")

    def slots(self) -> tuple[str, ...]:
        return ("_momentums", "_velocities", *(("_velocity_hats",) if self.optimizer.amsgrad else ()))

    def flags(self) -> tuple[Any, ...]:
        return (bool(self.optimizer.amsgrad),)

    def update(self, weight: Any, grad: Any, square: Any, slots: Slots, column: Columns) -> Any:
        step, mean, velocity = column("iterations") + 1, slots["_momentums"], slots["_velocities"]
        first, second = (1 - tf.pow(column(name, is_single=True), step) for name in ("beta_1", "beta_2"))
        alpha = column("learning_rate") * tf.sqrt(second) / first
        mean = slots["_momentums"] = mean + (grad - mean) * (1 - column("beta_1"))
        velocity = slots["_velocities"] = velocity + (square - velocity) * (1 - column("beta_2"))
        if "_velocity_hats" in slots:
            velocity = slots["_velocity_hats"] = tf.maximum(slots["_velocity_hats"], velocity)
        return weight - mean * alpha / (tf.sqrt(velocity) + column("epsilon"))


class KerasRMSpropRule(KerasUpdateRule):
    """RMSprop, plain or centered, with and without momentum."""

    numbers = ("rho", "momentum", "epsilon")

    def slots(self) -> tuple[str, ...]:
        optimizer = self.optimizer
        more = [("_momentums", optimizer.momentum > 0), ("_average_gradients", optimizer.centered)]
        return ("_velocities", *(name for name, is_there in more if is_there))

    def update(self, weight: Any, grad: Any, square: Any, slots: Slots, column: Columns) -> Any:
        rho = column("rho")
        velocity = slots["_velocities"] = rho * slots["_velocities"] + (1 - rho) * square
        if "_average_gradients" in slots:
            mean = slots["_average_gradients"] = rho * slots["_average_gradients"] + (1 - rho) * grad
            velocity = velocity - tf.square(mean)
        increment = column("learning_rate") * grad / tf.sqrt(velocity + column("epsilon"))
        if "_momentums" in slots:
            increment = slots["_momentums"] = column("momentum") * slots["_momentums"] + increment
        return weight - increment


class KerasAdagradRule(KerasUpdateRule):
    """Adagrad."""

    numbers = ("epsilon",)

    def slots(self) -> tuple[str, ...]:
        return ("_accumulators",)

    def update(self, weight: Any, grad: Any, square: Any, slots: Slots, column: Columns) -> Any:
        total = slots["_accumulators"] = slots["_accumulators"] + square
        return weight - column("learning_rate") * grad / tf.sqrt(total + column("epsilon"))


RULES: dict[type[Any], type[KerasUpdateRule]] = {
    keras.optimizers.SGD: KerasSGDRule,
    keras.optimizers.Adam: KerasAdamRule,
    keras.optimizers.AdamW: KerasAdamRule,
    keras.optimizers.RMSprop: KerasRMSpropRule,
    keras.optimizers.Adagrad: KerasAdagradRule,
}
"""The rule of each class; a subclass may do anything in its ``update_step``, so it has none."""


def numbers_of(optimizer: Any) -> list[float]:
    """Return the numbers of an optimizer as they are now, in the order of ``number_names``."""
    names = number_names(optimizer)[1:]
    return [float(optimizer.learning_rate), *(float(getattr(optimizer, name)) for name in names)]


def number_names(optimizer: Any) -> tuple[str, ...]:
    """Return the names of the numbers that a step reads."""
    decay = () if optimizer.weight_decay is None else ("weight_decay",)
    return ("learning_rate", *decay, *RULES[type(optimizer)].numbers)
