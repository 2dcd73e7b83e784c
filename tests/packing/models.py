"""Small models with each kind of layer, and what trains them; every number differs from member to member.

None has a bias before BatchNorm, or for the keys of attention: its gradient is zero but for rounding, and rules that
divide by the size of the gradient make large steps of that, packed or not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from asyncsearch.packing import Member

nn: Any = torch.nn
FEATURES, CLASSES, SAMPLES = 6, 3, 7


class Attention(nn.Module):  # type: ignore[misc]
    """Self-attention over the features in pairs, with a layer of torch and with the bare function."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Linear(2, 4)
        self.attention = nn.MultiheadAttention(4, 2, bias=False, batch_first=True)
        self.outside = nn.Linear(12, CLASSES)

    def forward(self, x: Any) -> Any:
        tokens = self.inside(x.unflatten(1, (3, 2)))
        tokens = tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]
        tokens = tokens + nn.functional.scaled_dot_product_attention(tokens, tokens, tokens)
        return self.outside(tokens.flatten(1))


class Written(nn.Module):  # type: ignore[misc]
    """A forward of one's own, with dropout, BatchNorm and a sequence inside it."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(FEATURES, 5, bias=False)
        self.norm = nn.BatchNorm1d(5)
        self.drop = nn.Dropout(0.3)
        self.rest = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, CLASSES))

    def forward(self, x: Any) -> Any:
        return self.rest(self.drop(torch.relu(self.norm(self.one(x)))))


class Tokens(nn.Module):  # type: ignore[misc]
    """Makes token numbers of the features, so that one batch fits all models."""

    def forward(self, x: Any) -> Any:
        return (x * 2).round().clamp(-3, 3).long() + 3


def linear() -> Any:
    return nn.Sequential(nn.Linear(FEATURES, 5), nn.ReLU(), nn.Linear(5, CLASSES))


def conv() -> Any:
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)),
        nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 2, groups=2, bias=False), nn.Flatten()),
        nn.Linear(8, CLASSES),
    )


def batch_norm() -> Any:
    return nn.Sequential(nn.Linear(FEATURES, 5, bias=False), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, CLASSES))


def dropout() -> Any:
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, CLASSES))


def embedding() -> Any:
    return nn.Sequential(
        Tokens(), nn.Sequential(nn.Embedding(7, 2, padding_idx=3), nn.Flatten(), nn.Linear(12, CLASSES))
    )


def layer_norm() -> Any:
    return nn.Sequential(nn.Linear(FEATURES, 5), nn.LayerNorm(5), nn.GELU(), nn.Linear(5, CLASSES))


def known() -> Any:
    """Return a model of known layers only."""
    return nn.Sequential(
        nn.Sequential(
            nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU()
        ),
        nn.Sequential(
            nn.Flatten(), nn.Dropout(0.3), nn.Linear(24, 5), nn.LayerNorm(5), nn.GELU(), nn.Linear(5, CLASSES)
        ),
    )


class Mixed(nn.Module):  # type: ignore[misc]
    """An embedding and attention in a forward of one's own, and known layers inside it."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.embedding = Tokens(), nn.Embedding(7, 4, padding_idx=3)
        self.attention = nn.MultiheadAttention(4, 2, bias=False, batch_first=True)
        self.rest = nn.Sequential(
            *(nn.LayerNorm(4, bias=False), nn.Flatten(), nn.Linear(24, 5, bias=False), nn.BatchNorm1d(5), nn.ReLU()),
            *(nn.Dropout(0.3), nn.Linear(5, CLASSES)),
        )

    def forward(self, x: Any) -> Any:
        found = self.embedding(self.tokens(x))
        return self.rest(found + self.attention(found, found, found, need_weights=False)[0])


class Unmixed(nn.Module):  # type: ignore[misc]
    """``Mixed`` without BatchNorm: no layer mixes samples."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.embedding = Tokens(), nn.Embedding(7, 4, padding_idx=3)
        self.attention = nn.MultiheadAttention(4, 2, bias=False, batch_first=True)
        self.rest = nn.Sequential(
            *(nn.LayerNorm(4, bias=False), nn.Flatten(), nn.Linear(24, 5), nn.LeakyReLU(), nn.Dropout(0.3)),
            nn.Linear(5, CLASSES),
        )

    def forward(self, x: Any) -> Any:
        found = self.embedding(self.tokens(x))
        return self.rest(found + self.attention(found, found, found, need_weights=False)[0])


MODELS: dict[str, Callable[[], Any]] = {
    "linear": linear, "conv": conv, "batch_norm": batch_norm, "dropout": dropout, "embedding": embedding,
    "layer_norm": layer_norm, "attention": Attention, "written": Written,
}  # fmt: skip
WHOLE: dict[str, Callable[[], Any]] = {"known": known, "mixed": Mixed}
OTHERS: dict[str, Callable[[], Any]] = {"unmixed": Unmixed}

Make = Callable[[Any, int], Any]
OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda parameters, number: torch.optim.SGD(
        parameters, 0.05 + 0.02 * number, momentum=(0.9, 0.0, 0.5)[number], dampening=(0.0, 0.3, 0.1)[number],
        weight_decay=0.01 * number,
    ),
    "nesterov": lambda parameters, number: torch.optim.SGD(
        parameters, 0.03 + 0.01 * number, momentum=0.9 - 0.2 * number, nesterov=number != 1, maximize=False
    ),
    "adam": lambda parameters, number: torch.optim.Adam(
        parameters, 0.01 + 0.005 * number, betas=(0.9 - 0.1 * number, 0.99), eps=10.0 ** (number - 8),
        weight_decay=0.02 * number,
    ),
    "adamw": lambda parameters, number: torch.optim.AdamW(
        parameters, 0.01 + 0.005 * number, weight_decay=0.1 * number, amsgrad=True
    ),
    "rmsprop": lambda parameters, number: torch.optim.RMSprop(
        parameters, 0.01 + 0.002 * number, alpha=0.99 - 0.1 * number, momentum=(0.0, 0.5, 0.0)[number], centered=True
    ),
    "adagrad": lambda parameters, number: torch.optim.Adagrad(
        parameters, 0.05 + 0.02 * number, lr_decay=0.01 * number, weight_decay=0.01,
        initial_accumulator_value=0.1 * number,
    ),
}  # fmt: skip


def member(
    kind: str = "linear", optimizer: str = "sgd", number: int = 0, dtype: Any = torch.float64, **more: Any
) -> Member:
    """Return a member, with weights, optimizer settings, p of dropout and generator of its number."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number)
        model = (MODELS | WHOLE | OTHERS)[kind]().to(dtype)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.2 + 0.2 * number
    more = {"generator": torch.Generator().manual_seed(10 + number)} | more
    return Member(model, OPTIMIZERS[optimizer](model.parameters(), number), **more)


def batch(step: int, count: int = SAMPLES, dtype: Any = torch.float64) -> tuple[Any, Any]:
    source = torch.Generator().manual_seed(1000 + step)
    x = torch.randn(count, FEATURES, generator=source, dtype=torch.float64).to(dtype)
    return x, torch.randint(0, CLASSES, (count,), generator=source)
