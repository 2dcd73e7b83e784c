"""What a program of Ray Tune has asked for, as its trials on the workers need it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from asyncsearch.ray.milestones import ITERATION
from asyncsearch.store.base_store import Store


@dataclass(frozen=True, kw_only=True)
class TrialSettings:
    """Is sent to the workers with the trainable."""

    store: Store
    experiment_name: str
    function_name: str
    metric: str = ""
    """Empty: the program names it only when it reads the results."""
    time_attr: str = ITERATION
    stop: Mapping[str, Any] = field(default_factory=dict)
    num_to_keep: int | None = None
    score_attribute: str | None = None
    score_order: str = "max"
    checkpoint_frequency: int = 0
    checkpoint_at_end: bool = False
    changes_folder: bool = True
    """Whether the trial works in its own folder."""
    home: str = "."
    arguments: tuple[str, ...] = ()
    """Those of the script, which functions may parse once more."""
    resources: Any = None
    asks_driver: bool = False
    perturbation: tuple[str, float] = ("", 0.0)
    """By which attribute, and how often, a population compares its trials. Empty if there is none."""
    burn_in: float = 0.0
    """Before it a population compares none."""
    is_strict: bool = True
    """Whether each report must have the metric."""
