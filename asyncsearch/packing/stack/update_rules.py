"""The updates of torch's optimizers for K members at once, each member with its own numbers.

A rule works on a block: parameters of one group that all have the same number of steps. The tensors of a block are
matrices of K rows, one for each member; a number of the optimizer is a column of K. The formulas, their order included,
are those of the single-tensor functions in ``torch.optim``, so that the results differ by rounding only.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

OptionValues = npt.NDArray[np.float64]
Column = Callable[[OptionValues], Any]
"""Makes a column (K, 1) in the dtype and on the device of the block."""


class MemberNumbers:
    """The options of K members: name -> (K,). Which of them are zero is asked at each step, and computed once."""

    def __init__(self, values: Mapping[str, OptionValues]) -> None:
        self._values = values
        self._some = frozenset(name for name, found in values.items() if found.any())
        self._every = frozenset(name for name, found in values.items() if found.all())

    def __getitem__(self, name: str) -> OptionValues:
        return self._values[name]

    def some(self, name: str) -> bool:
        """Return whether a member has this option, and not zero; a rule need not have it."""
        return name in self._some

    def every(self, name: str) -> bool:
        """Return whether all members have this option, and none has zero."""
        return name in self._every


class BlockStep(NamedTuple):
    """One step of a block: parameters of one group that have all made the same number of steps."""

    weights: Any
    """(K, P)."""
    grads: Any
    """(K, P); may be overwritten."""
    numbers: MemberNumbers
    steps: OptionValues
    """(K,), the steps before this one; for SGD 1 where it has momentum."""
    state: Mapping[str, Any]
    """(K, P) for each name."""
    column: Column


class UpdateRule:
    """How one class of optimizers updates its parameters."""

    options: ClassVar[tuple[str, ...]]
    """The settings of a parameter group that may differ from member to member."""
    common: ClassVar[tuple[str, ...]] = ()
    """The settings on which the names of the state depend: equal in a pack."""
    counts_steps: ClassVar[bool] = True
    """Whether the optimizer's state has ``step``."""
    later: ClassVar[tuple[str, ...]] = ()
    """Names in the state of those members alone whose momentum is not zero."""

    def names(self, common: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of the tensors in the state of a parameter, in the optimizer's order."""
        raise NotImplementedError

    def update(self, block: BlockStep) -> None:
        """Update the weights of a block and its state in place."""
        raise NotImplementedError


class SGDRule(UpdateRule):
    """Stochastic gradient descent with momentum, Nesterov's momentum and weight decay."""

    options = ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize")
    counts_steps = False
    later = ("momentum_buffer",)

    def names(self, common: Mapping[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",)

    def update(self, block: BlockStep) -> None:
        weights, _, numbers, steps, state, column = block
        grads = _decayed(block)
        if numbers.some("momentum"):
            grads = self._direction(grads, state["momentum_buffer"], numbers, steps, column)
        weights.addcmul_(grads, column(-numbers["lr"]))

    def _direction(self, grads: Any, buffer: Any, numbers: MemberNumbers, steps: OptionValues, column: Column) -> Any:
        momentum, nesterov = numbers["momentum"], numbers["nesterov"]
        if numbers.every("momentum") and not numbers.some("dampening") and not numbers.some("nesterov"):
            return torch.addcmul(grads, buffer, column(momentum), out=buffer)
        has_momentum = momentum != 0
        # The first buffer is the gradient itself, not dampened; without momentum the buffer stays as it is.
        share = np.where(steps > 0, 1 - numbers["dampening"], 1.0) * has_momentum
        buffer.mul_(column(np.where(has_momentum, momentum, 1.0)))
        buffer.addcmul_(grads, column(share))
        if not numbers.some("nesterov"):
            return torch.where(column(has_momentum) != 0, buffer, grads)
        ahead = torch.addcmul(grads, buffer, column(momentum))
        plain = torch.where(column(has_momentum) != 0, buffer, grads)
        return ahead if numbers.every("nesterov") else torch.where(column(nesterov) != 0, ahead, plain)


class AdamRule(UpdateRule):
    """Adam and AdamW, with and without AMSGrad."""

    options = ("lr", "beta1", "beta2", "eps", "weight_decay", "maximize", "decoupled_weight_decay")
    common = ("amsgrad",)

    def names(self, common: Mapping[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if common["amsgrad"] else ()))

    def update(self, block: BlockStep) -> None:
        weights, _, numbers, steps, state, column = block
        step, lr, beta1, beta2 = steps + 1, numbers["lr"], numbers["beta1"], numbers["beta2"]
        grads = _ascending(block)
        decay, decoupled = numbers["weight_decay"], numbers["decoupled_weight_decay"]
        if numbers.some("weight_decay") and numbers.some("decoupled_weight_decay"):
            weights.mul_(column(1 - lr * decay * decoupled))
        if numbers.some("weight_decay") and not numbers.every("decoupled_weight_decay"):
            grads = grads.addcmul_(weights, column(decay * (1 - decoupled)))
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(grads, column(1 - beta1))  # as torch's own Adam: beta1 * mean + (1 - beta1) * grads rounds otherwise
        square.mul_(column(beta2)).addcmul_(grads, grads * column(1 - beta2))
        if "max_exp_avg_sq" in state:
            square = torch.maximum(state["max_exp_avg_sq"], square, out=state["max_exp_avg_sq"])
        scale = square.sqrt().div_(column(np.sqrt(1 - beta2**step))).add_(column(numbers["eps"]))
        weights.addcdiv_(mean * column(-lr / (1 - beta1**step)), scale)


class RMSpropRule(UpdateRule):
    """RMSprop, plain or centered, with and without momentum."""

    options = ("lr", "alpha", "eps", "weight_decay", "momentum", "maximize")
    common = ("centered",)
    later = ("momentum_buffer",)

    def names(self, common: Mapping[str, Any]) -> tuple[str, ...]:
        return ("square_avg", "momentum_buffer", *(("grad_avg",) if common["centered"] else ()))

    def update(self, block: BlockStep) -> None:
        weights, _, numbers, _, state, column = block
        alpha, momentum = numbers["alpha"], numbers["momentum"]
        grads = _decayed(block)
        square = state["square_avg"]
        square.mul_(column(alpha)).addcmul_(grads, grads * column(1 - alpha))
        if "grad_avg" in state:
            mean = state["grad_avg"]
            mean.lerp_(grads, column(1 - alpha))
            square = square.addcmul(mean, mean, value=-1)
        direction = grads / square.sqrt().add_(column(numbers["eps"]))
        if numbers.some("momentum"):
            buffer, has_momentum = state["momentum_buffer"], momentum != 0
            buffer.mul_(column(np.where(has_momentum, momentum, 1.0))).addcmul_(direction, column(has_momentum * 1.0))
            direction = buffer if has_momentum.all() else torch.where(column(has_momentum) != 0, buffer, direction)
        weights.addcmul_(direction, column(-numbers["lr"]))


class AdagradRule(UpdateRule):
    """Adagrad."""

    options = ("lr", "lr_decay", "eps", "weight_decay", "maximize")

    def names(self, common: Mapping[str, Any]) -> tuple[str, ...]:
        return ("sum",)

    def update(self, block: BlockStep) -> None:
        weights, _, numbers, steps, state, column = block
        grads = _decayed(block)
        rate = numbers["lr"] / (1 + steps * numbers["lr_decay"])
        total = state["sum"].addcmul_(grads, grads)
        weights.addcdiv_(grads * column(-rate), total.sqrt().add_(column(numbers["eps"])))


RULES: dict[type[Any], UpdateRule] = {
    torch.optim.SGD: SGDRule(),
    torch.optim.Adam: AdamRule(),
    torch.optim.AdamW: AdamRule(),
    torch.optim.RMSprop: RMSpropRule(),
    torch.optim.Adagrad: AdagradRule(),
}
"""The rule of each class; a subclass may do anything in its ``step``, so it has none."""


def settings(optimizer: Any, group: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the settings of a parameter group that an update reads: cheap, to be compared at each step."""
    return _READERS[type(optimizer)](group)


def numbers_of(optimizer: Any, found: tuple[Any, ...]) -> list[float]:
    """Return settings as numbers, in the order of the rule's options."""
    values = dict(zip(_KEYS[type(optimizer)], found, strict=True))
    if "betas" in values:
        values["beta1"], values["beta2"] = values["betas"]
    return [float(values[name]) for name in RULES[type(optimizer)].options]


_KEYS = {
    kind: tuple(dict.fromkeys("betas" if name in ("beta1", "beta2") else name for name in rule.options))
    for kind, rule in RULES.items()
}
OPTION_KEYS = {kind: frozenset(keys) for kind, keys in _KEYS.items()}
"""The settings of a parameter group that may differ from member to member, and that are read at each step."""
_READERS: dict[type[Any], Callable[[Mapping[str, Any]], tuple[Any, ...]]] = {
    kind: operator.itemgetter(*keys) for kind, keys in _KEYS.items()
}


def _ascending(block: BlockStep) -> Any:
    """Return the gradients, turned round for members that maximize."""
    maximize = block.numbers["maximize"]
    return block.grads.mul_(block.column(1 - 2 * maximize)) if block.numbers.some("maximize") else block.grads


def _decayed(block: BlockStep) -> Any:
    """Return the gradients with the part of the weight decay."""
    grads, decay = _ascending(block), block.numbers["weight_decay"]
    return grads.addcmul_(block.weights, block.column(decay)) if block.numbers.some("weight_decay") else grads
