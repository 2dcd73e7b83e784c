"""Pieces of drawn trainers: what their hooks change, how they measure, and their optimizers."""

from __future__ import annotations

import copy
from typing import Any

import torch

from asyncsearch import TorchTrainer
from tests.packing.trainer_models import Piece, Rows, Values, cross, nn, noise, samples, unpacked

# Hooks: what is done before or after the default one


def _every(self: Any) -> list[Any]:
    return list(self.net.parameters())


def _layer(self: Any) -> Any:
    return next(one for one in self.net.modules() if isinstance(one, nn.Linear))


def _lookahead(self: Any) -> None:
    self.slow = getattr(self, "slow", None) or [one.detach().clone() for one in _every(self)]
    with torch.no_grad():
        for slow, one in zip(self.slow, _every(self), strict=True):
            slow.lerp_(one, 0.5)
            one.copy_(slow)


def _by_data(self: Any) -> None:
    for one in _every(self):
        one.data.mul_(0.97)


def _perturbs(source: str) -> Piece:
    def perturb(self: Any) -> None:
        for one in _every(self):
            one.data.add_(0.05 * noise(source))

    return perturb


def _scales(self: Any) -> None:
    if hasattr(self.net, "scale"):
        self.net.scale = self.net.scale * 1.1 + self.hp["lr"]


def _freezes(self: Any) -> None:
    _layer(self).requires_grad_(self.samples // self._unit_samples % 2 == 1)


def _drops_more(self: Any) -> None:
    for one in self.net.modules():
        if isinstance(one, nn.Dropout):
            one.p = min(0.9, one.p + 0.1)


def _slower(self: Any) -> None:
    for group in self.opt.param_groups:
        group["lr"] *= 0.7
        group["weight_decay"] = 0.01


def _forgets(self: Any) -> None:
    self.opt.state.clear()


def _damps(self: Any) -> None:
    for state in self.opt.state.values():
        for value in state.values():
            if isinstance(value, torch.Tensor) and value.dim():
                value.mul_(0.5)


def _steps(self: Any) -> None:
    x, y = samples()
    with torch.enable_grad():
        modes = self.net.training
        self.net.eval()
        self.opt.zero_grad()
        nn.functional.cross_entropy(self.net(x[:4]), y[:4]).backward()
        self.opt.step(lambda: None)
        self.opt.zero_grad()
        self.net.train(modes)


def _buffers(self: Any) -> None:
    for one in self.net.buffers():
        if one.is_floating_point():
            one.mul_(0.9)


def _another_alpha(self: Any) -> None:
    self.alpha = self.alpha * 0.9 + self.hp["lr"]


def _replaces_activation(self: Any) -> None:
    if isinstance(self.net, nn.Sequential):
        self.net[-3] = nn.Sigmoid()
    else:
        self.net.inner[1] = nn.Softplus()


def _replaces_layer(self: Any) -> None:
    if self.samples < 2 * self._unit_samples:
        return
    old = _layer(self)
    new = nn.Linear(old.in_features, old.out_features, bias=old.bias is not None).double()
    name = next(name for name, one in self.net.named_modules() if one is old)
    setattr(self.net, name, new) if not isinstance(self.net, nn.Sequential) else self.net.__setitem__(int(name), new)
    self.opt = self.optimizer(self.hp, self.net)


def _another_network(self: Any) -> None:
    kept = self.opt.state_dict()
    self.net = self.parallel = copy.deepcopy(self.net)
    self.opt = self.optimizer(self.hp, self.net)
    self.opt.load_state_dict(kept)


def _hidden(self: Any) -> None:
    if hasattr(self.net, "hidden"):
        with torch.no_grad():
            self.net.hidden[0].weight.mul_(1 - self.hp["lr"])


def _appends(self: Any) -> None:
    if hasattr(self.net, "seen"):
        self.net.seen.append(1)


def _wastes(source: str) -> Piece:
    def waste(self: Any) -> None:
        noise(source)

    return waste


def _own_clip(self: Any) -> None:
    self.clip_grad_norm = 0.3 + self.hp["lr"]


def _fails_sometimes(self: Any) -> None:
    if self.hp["cost"] > 1 and self.samples > self._unit_samples:
        raise RuntimeError("this trainer fails here")


def _uses_gradients(self: Any) -> None:
    for one in _every(self):
        if one.grad is not None:
            one.data.sub_(0.1 * one.grad)


def _changes_data(self: Any) -> None:
    data = self._train_data
    part = data.x if isinstance(data, Rows) else data[0]
    part *= 1 - self.hp["lr"]


def _swaps(self: Any) -> None:
    """Keep an average of the weights, and evaluate with that; the next call takes the weights back."""
    now = [one.detach().clone() for one in _every(self)]
    self.average = [a.lerp(b, 0.3) for a, b in zip(getattr(self, "average", now), now, strict=True)]
    for one, average in zip(_every(self), self.average, strict=True):
        one.data = average.clone()


def _holds_moments(self: Any) -> None:
    """Change the moments through references that were kept earlier."""
    for one in getattr(self, "held", []):
        one.mul_(0.9)
    states = self.opt.state.values()
    self.held = [v for state in states for v in state.values() if isinstance(v, torch.Tensor) and v.dim()]


def _hooks(self: Any) -> None:
    if not getattr(self, "is_hooked", False):
        self.is_hooked = True
        _layer(self).register_forward_hook(lambda module, inputs, output: output * 1.05)


def _grows(self: Any) -> None:
    """Let the optimizer train one group more."""
    if not getattr(self, "has_grown", False) and hasattr(self.net, "ghost"):
        self.has_grown = True
        known = {id(one) for group in self.opt.param_groups for one in group["params"]}
        new = [one for one in self.net.ghost.parameters() if id(one) not in known]
        for one in new:
            self.opt.add_param_group({"params": [one.requires_grad_()]})


CHANGES: dict[str, Piece] = {
    "lookahead": _lookahead,
    "by data": _by_data,
    "perturbs by python": _perturbs("python"),
    "perturbs by numpy": _perturbs("numpy"),
    "perturbs by torch": _perturbs("torch"),
    "scales": _scales,
    "freezes": _freezes,
    "drops more": _drops_more,
    "slower": _slower,
    "forgets": _forgets,
    "damps": _damps,
    "steps": _steps,
    "buffers": _buffers,
    "another alpha": _another_alpha,
    "replaces an activation": _replaces_activation,
    "replaces a layer": _replaces_layer,
    "another network": _another_network,
    "hidden": _hidden,
    "appends": _appends,
    "wastes python": _wastes("python"),
    "wastes numpy": _wastes("numpy"),
    "wastes torch": _wastes("torch"),
    "own clip": _own_clip,
    "fails sometimes": _fails_sometimes,
    "uses gradients": _uses_gradients,
    "changes data": _changes_data,
    "swaps": _swaps,
    "holds moments": _holds_moments,
    "hooks": _hooks,
    "grows": _grows,
}


def _shrinks(self: Any) -> None:
    """Let the optimizer train less."""
    group = self.opt.param_groups[0]
    group["params"] = group["params"][:2]


RARE_CHANGES: dict[str, Piece] = {"shrinks": _shrinks}
SAVED = {"by data", "damps", "forgets", "steps", "buffers", "uses gradients"} | {
    f"{what} {source}" for what in ("perturbs by", "wastes") for source in ("python", "numpy", "torch")
}
"""Changes of what a checkpoint holds: all others are lost in a pause, which a pack may have at another time."""
LOST = {"counts in a number", "keeps a list"}


def extended(name: str, change: Piece, is_before: bool) -> Piece:
    """Return a hook that extends the default one."""

    def hook(self: Any, *args: Any) -> Any:
        if is_before:
            change(self)
        found = getattr(TorchTrainer, name)(self, *args)
        if not is_before:
            change(self)
        return found

    return hook


def with_value(self: Any, hp: Values) -> None:
    """Extend ``update`` for a value outside the optimizer, as the documentation says."""
    TorchTrainer.update(self, dict(hp))
    if "v" in hp and hasattr(self.net, "scale"):
        self.net.scale = hp["v"]


def with_rate(self: Any, hp: Values) -> None:
    TorchTrainer.update(self, dict(hp))
    for one in self.net.modules():
        if isinstance(one, nn.Dropout) and "v" in hp:
            one.p = 0.1 * hp["v"]


def loss_of_sample(self: Any, model: Any, data: Any) -> Values:
    total = 0.0
    for batch in self.batches(data, 5):
        x, y = unpacked(batch)
        x.mul_(0.9)
        picked = torch.randperm(len(x))[:4]
        total += (
            float(nn.functional.cross_entropy(model(x[picked]), y[picked]))
            + 0.1 * noise("numpy")
            + 0.1 * noise("python")
        )
    return {"loss": total}


def norms(self: Any, model: Any, data: Any) -> Values:
    """Return the loss, and what else a checkpoint would hold."""
    loss = sum(float(cross(model, batch)) for batch in self.batches(data, 7))
    every = [*model.parameters(), *model.buffers()]
    moments = [v for s in self.opt.state.values() for v in s.values() if isinstance(v, torch.Tensor)]
    return {
        "loss": loss,
        "weights": sum(float(one.double().abs().sum()) for one in every),
        "moments": sum(float(one.double().abs().sum()) for one in moments),
        "drawn": noise("python") + noise("numpy") + noise("torch"),
        "gradients": sum(float(one.grad.abs().sum()) for one in model.parameters() if one.grad is not None),
    }


METRICS: dict[str, Piece] = {"of a sample": loss_of_sample, "norms": norms}


# Optimizers: the rate depends on ``cost``, so that no two trials are equal


def _rate(hp: Values) -> float:
    return float(hp["lr"]) * (1 + 0.1 * float(hp["cost"]))


def _groups(hp: Values, model: Any) -> Any:
    every = [one for one in model.parameters() if one.requires_grad]
    return [{"params": every[:1], "lr": _rate(hp) * 2}, {"params": every[1:]}]


def _by_norm(self: Any, hp: Values, model: Any) -> Any:
    """Return an optimizer whose rate depends on the weights."""
    first = next(model.parameters())
    return torch.optim.SGD(model.parameters(), _rate(hp) / (1 + float(first.detach().norm())), momentum=0.5)


def _changes_class(self: Any, hp: Values, model: Any) -> Any:
    if hp["lr"] < 0.06:
        return torch.optim.SGD(model.parameters(), _rate(hp))
    return torch.optim.Adagrad(model.parameters(), _rate(hp), eps=1e-3)


def _unfreezes(self: Any, hp: Values, model: Any) -> Any:
    next(model.parameters()).requires_grad_(hp["lr"] < 0.07)
    return torch.optim.SGD(model.parameters(), _rate(hp), momentum=0.5)


OPTIMIZERS: dict[str, Piece] = {
    "sgd": lambda self, hp, model: torch.optim.SGD(model.parameters(), _rate(hp)),
    "momentum": lambda self, hp, model: torch.optim.SGD(model.parameters(), _rate(hp), momentum=0.9, nesterov=True),
    "groups": lambda self, hp, model: torch.optim.SGD(_groups(hp, model), _rate(hp), momentum=0.8),
    "adam": lambda self, hp, model: torch.optim.Adam(model.parameters(), _rate(hp) / 10, eps=1e-3),
    "adamw": lambda self, hp, model: torch.optim.AdamW(model.parameters(), _rate(hp) / 10, eps=1e-3),
    "rmsprop": lambda self, hp, model: torch.optim.RMSprop(model.parameters(), _rate(hp) / 20, eps=1e-2, momentum=0.5),
    "adagrad": lambda self, hp, model: torch.optim.Adagrad(model.parameters(), _rate(hp), eps=1e-3),
    "adamax": lambda self, hp, model: torch.optim.Adamax(model.parameters(), _rate(hp) / 10, eps=1e-3),
    "by norm": _by_norm,
    "changes class": _changes_class,
    "unfreezes": _unfreezes,
}
