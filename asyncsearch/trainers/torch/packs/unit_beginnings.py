"""What a trainer was at the beginning of a unit, but for weights: one that fails out of a stack begins the unit anew.

Weights, buffers and rows of the optimizer are those of the beginning anyway, since the stack has its own.
"""

from __future__ import annotations

from typing import Any

_PARTS = ("_parameters", "_buffers", "_modules")


class UnitBeginning:
    """A trainer as it is now, until ``restore``."""

    def __init__(self, trainer: Any) -> None:
        self._trainer, self._own = trainer, dict(vars(trainer))
        self._scaler = dict(trainer.scaler.state_dict())
        # Where values change inside a unit, ``optimizer()`` is called there with the trainer's own model.
        is_changing = trainer.trial.has_sequences
        self._settings = _settings_of(trainer.opt) if is_changing else []
        self._layers = [_Layer(module) for module in trainer.net.modules()] if is_changing else []

    def restore(self) -> None:
        """Undo what was called since with the trainer: its attributes, its optimizer's settings, its model's layers."""
        own = vars(self._trainer)
        own.clear()
        own.update(self._own)
        for group, settings in zip(self._trainer.opt.param_groups, self._settings, strict=False):
            group.update(settings)
        self._trainer.scaler.load_state_dict(self._scaler)
        for layer in self._layers:
            layer.restore()


class _Layer:
    """A module: its attributes, the names of its parts, and which of its parameters are trained."""

    def __init__(self, module: Any) -> None:
        self._module, self._own = module, dict(vars(module))
        self._parts = [(parts, dict(parts)) for parts in map(self._own.__getitem__, _PARTS)]
        self._trained = [(one, one.requires_grad) for one in self._own["_parameters"].values() if one is not None]

    def restore(self) -> None:
        for now, former in ((vars(self._module), self._own), *self._parts):
            now.clear()
            now.update(former)
        for parameter, is_trained in self._trained:
            parameter.requires_grad_(is_trained)


def _settings_of(optimizer: Any) -> list[dict[str, Any]]:
    return [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
