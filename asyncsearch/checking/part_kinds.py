"""The kind of a part of a trainable, derived from its name."""

from __future__ import annotations

import re

_KINDS = (
    ("scaler", r"grad_?scal|loss_?scal|\bscaler\b"),
    ("optimizer", r"optim|\bopt\b|momentum|velocit|\badam|\bms\b|\bvs\b"),
    ("generator", r"rng|random|generator|seed_state"),
    ("buffers", r"running_|moving_|buffer|\bema\b|average"),
    ("order", r"order|perm|shuffl|indices|queue|loader|batches"),
    ("offset", r"offset|position|cursor|samples|\bplace\b"),
    ("counter", r"step|count|epoch|iteration|\bt_?\b|number"),
    ("weights", r"weight|bias|coef|intercept|param|kernel|theta"),
)
_PATTERNS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _KINDS)


def kind_of_name(name: str) -> str:
    """Return the kind that a name suggests, or an empty text."""
    return next((kind for kind, pattern in _PATTERNS if pattern.search(name)), "")
