"""What the journal keeps of a study of Optuna, and the trials that it tells.

Each fact is one JSON object of one trial, in the order in which it came: ``begun``, ``suggested``, ``reported``,
``judged``, ``user_attr``, ``system_attr``, ``ended``. A trial that has begun and not ended was lost with its
driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState

from asyncsearch.events import Consulted
from asyncsearch.optuna.messages import ValueCodec


class StudyFacts:
    """Writes facts as JSON values."""

    def __init__(self) -> None:
        self._codec = ValueCodec(None)

    def begun(self, trial: FrozenTrial) -> dict[str, Any]:
        """A trial has begun."""
        return {"begun": trial.number, "trial": self._codec.encode(trial)}

    def suggested(self, name: str, distribution: BaseDistribution, internal: float) -> dict[str, Any]:
        """A value was suggested; ``internal`` as storages keep it."""
        return {
            "suggested": name,
            "value": self._codec.encode(float(internal)),
            "distribution": self._codec.encode(distribution),
        }

    def reported(self, step: int, value: float) -> dict[str, Any]:
        """An intermediate value was reported."""
        return {"reported": self._codec.encode(value), "step": step}

    def judged(self, is_pruned: bool) -> dict[str, Any]:
        """The pruner was asked."""
        return {"judged": is_pruned}

    def attribute(self, kind: str, key: str, value: Any) -> dict[str, Any]:
        """An attribute was set; ``kind``: ``user_attr`` or ``system_attr``."""
        return {kind: key, "value": self._codec.encode(value)}

    def ended(self, trial: FrozenTrial) -> dict[str, Any]:
        """A trial has ended."""
        return {
            "ended": trial.state.name,
            "values": self._codec.encode(trial.values),
            "system_attrs": self._codec.encode(trial.system_attrs),
            "complete": self._codec.encode(trial.datetime_complete),
        }


def trials_of(facts: Iterable[Consulted]) -> Iterator[FrozenTrial]:
    """Yield the trials of facts, in the order of their beginnings; those that were lost have failed."""
    codec = ValueCodec(None)
    trials: dict[int, FrozenTrial] = {}
    for event in facts:
        if "begun" in event.facts:
            trials[event.lease.number] = codec.decode(event.facts["trial"])
        elif event.lease.number in trials:
            _apply(codec, trials[event.lease.number], event.facts)
    for trial in trials.values():
        if not trial.state.is_finished():
            trial.state, trial.datetime_complete = TrialState.FAIL, trial.datetime_start
        yield trial


def _apply(codec: ValueCodec, trial: FrozenTrial, facts: dict[str, Any]) -> None:
    match facts:
        case {"suggested": name, "value": value, "distribution": distribution}:
            known = codec.decode(distribution)
            trial.distributions[name] = known
            trial.params[name] = known.to_external_repr(codec.decode(value))
        case {"reported": value, "step": step}:
            trial.intermediate_values.setdefault(step, codec.decode(value))
        case {"user_attr": key, "value": value}:
            trial.set_user_attr(key, codec.decode(value))
        case {"system_attr": key, "value": value}:
            trial.system_attrs[key] = codec.decode(value)
        case {"ended": state, "values": values, "system_attrs": attrs, "complete": complete}:
            trial.state, trial.values = TrialState[state], codec.decode(values)
            trial.system_attrs.update(codec.decode(attrs))
            trial.datetime_complete = codec.decode(complete)
        case _:
            pass  # what a pruner answered changes no trial
