"""Pieces of drawn trainers: data, models and losses, each with one thing that alone has a meaning of its own."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

nn: Any = torch.nn
SAMPLES, TRAINED, FEATURES = 44, 32, 6
Values = Mapping[str, Any]
Piece = Callable[..., Any]


def samples() -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, FEATURES, generator=generator, dtype=torch.float64)
    return x, ((x[:, 0] + x[:, 1] * x[:, 2]) > 0).long()


# Data


class Rows(torch.utils.data.Dataset):  # type: ignore[misc]
    """A data set that may draw."""

    def __init__(self, x: Any, y: Any, draw: str = "") -> None:
        self.x, self.y, self.draw = x, y, draw

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        return self.x[index] + (0.1 * noise(self.draw) if self.draw else 0.0), self.y[index]


def noise(source: str) -> float:
    if source == "python":
        return random.random()
    return float(np.random.random() if source == "numpy" else torch.rand(()))  # noqa: NPY002


def tensors(self: Any, hp: Values) -> Any:
    x, y = samples()
    return (x[:TRAINED], y[:TRAINED]), (x[TRAINED:], y[TRAINED:])


def arrays(self: Any, hp: Values) -> Any:
    return tuple(tuple(part.numpy() for part in one) for one in tensors(self, hp))


def rows(draw: str) -> Piece:
    def data(self: Any, hp: Values) -> Any:
        (x, y), valid = tensors(self, hp)
        return Rows(x, y, draw), Rows(valid[0], valid[1], draw)

    return data


# Models


class Net(nn.Module):  # type: ignore[misc]
    """Layers, and some of the odd things that a forward pass may do."""

    def __init__(self, traits: frozenset[str], width: int, rate: float) -> None:
        super().__init__()
        self.traits = traits
        norm = nn.BatchNorm1d(width) if "norm" in traits else nn.Identity()
        act = nn.ReLU(inplace=True) if "inplace" in traits else nn.Tanh()
        self.first = nn.Linear(FEATURES, width, bias="norm" not in traits)
        self.inner = nn.Sequential(norm, act, nn.Dropout(rate if "dropout" in traits else 0.0))
        self.last = nn.Linear(width, 2)
        self.scale, self.calls, self.seen = 1.0, 0, list[int]()
        self.mean: Any
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(FEATURES), persistent=False)
        self.ghost = nn.Linear(FEATURES, 2).requires_grad_(False)
        self.hidden = [nn.Linear(FEATURES, 2)]
        self.double()
        self.hidden[0].double()

    def forward(self, x: Any) -> Any:
        traits = self.traits
        if "counts in a buffer" in traits:
            self.count += 1
            x = x * (1 + 0.01 * self.count)
        if "replaces a buffer" in traits and self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
            x = x - self.mean
        if "counts when evaluated" in traits and not self.training:
            self.count.add_(1)
        if "counts in a number" in traits:
            self.calls += 1
            x = x * (1.1 if self.calls % 5 == 0 else 1.0)
        if "keeps a list" in traits and len(self.seen) < 3:
            self.seen.append(len(self.seen))
        if "changes its input" in traits:
            x = x.to(torch.float64).div_(1.5)
        if "draws" in traits and self.training:
            x = x * (1 + 0.1 * noise("python"))
        if "draws always" in traits:
            x = nn.functional.dropout(x, 0.2)
        h = self.inner(self.first(x)) * self.scale
        out = self.last(h)
        if "moves a ghost" in traits:
            if self.training:
                with torch.no_grad():
                    self.ghost.weight.lerp_(self.first.weight[:2], 0.1)
            out = out + 0.5 * self.ghost(x)
        return out + self.hidden[0](x).detach() if "hides a layer" in traits else out


NET_TRAITS = (
    "norm", "inplace", "dropout", "counts in a buffer", "replaces a buffer", "counts when evaluated",
    "counts in a number", "keeps a list", "changes its input", "draws", "draws always", "moves a ghost",
    "hides a layer",
)  # fmt: skip


def plain_net(self: Any, hp: Values) -> Any:
    act = nn.LeakyReLU(inplace=True) if self.inplace else nn.Tanh()
    first = [nn.LeakyReLU(inplace=True)] if self.inplace else []
    return nn.Sequential(
        *first,
        nn.Linear(FEATURES, hp.get("width", 5)),
        act,
        nn.Dropout(hp.get("p", 0.2)),
        nn.Linear(hp.get("width", 5), 2),
    ).double()


def written_net(self: Any, hp: Values) -> Any:
    return Net(self.traits, hp.get("width", 5), hp.get("p", 0.2))


# Losses: each gets the trainer, the model, the batch and the plain loss


def unpacked(batch: Any) -> tuple[Any, Any]:
    return (batch["x"], batch["y"]) if isinstance(batch, Mapping) else (batch[0], batch[1])


def cross(model: Any, batch: Any) -> Any:
    x, y = unpacked(batch)
    return nn.functional.cross_entropy(model(x), y)


LOSSES: dict[str, Piece] = {
    "plain": lambda self, model, batch: cross(model, batch),
    "reads": lambda self, model, batch: cross(model, batch) * self.hp.get("cost", 1.0),
    "reads in training": lambda self, model, batch: cross(model, batch) * (self.hp["cost"] if model.training else 1.0),
    "reads in evaluation": lambda self, model, batch: (
        cross(model, batch) * (1.0 if model.training else self.hp["cost"])
    ),
    "reads without gradients": lambda self, model, batch: (
        cross(model, batch) * (1.0 if torch.is_grad_enabled() else self.hp["cost"])
    ),
    "reads with gradients": lambda self, model, batch: (
        cross(model, batch) * (self.hp["cost"] if torch.is_grad_enabled() else 1.0)
    ),
    "reads by the batch": lambda self, model, batch: cross(model, batch) * (self.hp["cost"] if is_rare(batch) else 1.0),
    "reads an attribute": lambda self, model, batch: cross(model, batch) * self.alpha,
    "reads a parameter of the trial": lambda self, model, batch: cross(model, batch) * self.trial.params["cost"],
}


def _changes_the_batch(self: Any, model: Any, batch: Any) -> Any:
    unpacked(batch)[0].mul_(0.8)
    return cross(model, batch)


def _counts(self: Any, model: Any, batch: Any) -> Any:
    self.looked += 1
    return cross(model, batch) * (1.1 if self.looked % 4 == 0 else 1.0)


def _mixes(self: Any, model: Any, batch: Any) -> Any:
    x, y = unpacked(batch)
    share = np.random.random() if model.training else 1.0  # noqa: NPY002
    return nn.functional.cross_entropy(model(share * x + (1 - share) * x.flip(0)), y)


def is_rare(batch: Any) -> bool:
    """Return what is so of a few batches, and of the first one of a search not."""
    return float(unpacked(batch)[0][0, 3]) > 1.0


def _draws_rarely(self: Any, model: Any, batch: Any) -> Any:
    rare = model.training and is_rare(batch)
    return cross(model, batch) * (1.0 + (noise("python") if rare else 0.0))


def _noisy(self: Any, model: Any, batch: Any) -> Any:
    x, y = unpacked(batch)
    return nn.functional.cross_entropy(model(x + 0.1 * torch.randn_like(x) if model.training else x), y)


def _clamps(self: Any, model: Any, batch: Any) -> Any:
    if model.training:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.clamp_(-0.6, 0.6)
    return cross(model, batch)


def _averages_data(self: Any, model: Any, batch: Any) -> Any:
    if model.training:
        for name, parameter in model.named_parameters():
            if "ghost.bias" in name:
                parameter.data.mul_(0.9).add_(0.01)
    return cross(model, batch)


def _assigns_data(self: Any, model: Any, batch: Any) -> Any:
    if model.training:
        for name, parameter in model.named_parameters():
            if "ghost.weight" in name:
                parameter.data = 0.9 * parameter.data + 0.01
    return cross(model, batch) + (model.ghost(unpacked(batch)[0]).pow(2).mean() if hasattr(model, "ghost") else 0.0)


def _replaces_a_parameter(self: Any, model: Any, batch: Any) -> Any:
    if hasattr(model, "ghost"):
        model.ghost.bias = nn.Parameter(0.9 * model.ghost.bias.detach(), requires_grad=False)
        return cross(model, batch) + model.ghost(unpacked(batch)[0]).pow(2).mean()
    return cross(model, batch)


def _sets_modes(self: Any, model: Any, batch: Any) -> Any:
    if is_rare(batch):
        model.eval()
    return cross(model, batch)


def _fails(self: Any, model: Any, batch: Any) -> Any:
    if self.hp["cost"] > 1 and model.training and is_rare(batch):
        raise RuntimeError("this loss fails here")
    return cross(model, batch)


def _remembers(self: Any, model: Any, batch: Any) -> Any:
    """Distill from a teacher that the trainer holds, and that follows the model."""
    if not hasattr(self, "teacher"):
        self.teacher = copy.deepcopy(model)
    return (
        cross(model, batch)
        + 0.1 * (model(unpacked(batch)[0]) - self.teacher(unpacked(batch)[0]).detach()).pow(2).mean()
    )


def _keeps_a_table(self: Any, model: Any, batch: Any) -> Any:
    self.table["calls"] = self.table.get("calls", 0) + 1
    return cross(model, batch) * (1 + 0.01 * self.table["calls"])


LOSSES |= {
    "fails": _fails,
    "remembers": _remembers,
    "keeps a table": _keeps_a_table,
    "changes the batch": _changes_the_batch,
    "counts": _counts,
    "mixes": _mixes,
    "draws rarely": _draws_rarely,
    "noisy": _noisy,
    "clamps": _clamps,
    "averages by data": _averages_data,
    "sets modes": _sets_modes,
}
RARE_LOSSES: dict[str, Piece] = {"assigns data": _assigns_data, "replaces a parameter": _replaces_a_parameter}
