"""The metric of a study: its direction must be given, and be the one that its name suggests. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_HIGHER = "accuracy acc auc auroc auprc f1 r2 precision recall reward score iou map bleu rouge dice ndcg mrr kappa mcc"
_LOWER = "loss error err rmse mse mae mape logloss nll perplexity ppl wer cer cost latency regret"
_BETTER = dict.fromkeys(_HIGHER.split(), "max") | dict.fromkeys(_LOWER.split(), "min")
"""Word in the name of a metric -> the usual direction."""


def direction_notes(metric: str, mode: str) -> list[str]:
    """Return a note if a search looks for the worst values of its metric, as far as its name tells."""
    words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", metric).lower())
    # The last word says what is measured in "accuracy_loss" or "score_error"; a sign turns it round.
    last = next((word for word in reversed(words) if word in _BETTER), None)
    if last is None or "neg" in words or "negative" in words or _BETTER[last] == mode:
        return []
    which = "lowest" if mode == "min" else "highest"
    better = _BETTER[last]
    return [f"mode={mode!r} searches the {which} {metric}: if the {_other(which)} is the best, write mode={better!r}."]


def _other(which: str) -> str:
    return "highest" if which == "lowest" else "lowest"


def missing_mode(given: Mapping[str, Any]) -> str:
    """Return the answer to a ``Study`` without ``mode``: both lines."""
    metric = given.get("metric", "loss")
    return (
        f"Study(metric={metric!r}) does not say which values of {metric!r} are better: write\n"
        f"    Study(..., metric={metric!r}, mode='min')  # the lowest\n"
        f"    Study(..., metric={metric!r}, mode='max')  # the highest"
    )
