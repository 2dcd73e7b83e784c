"""What the journal keeps of a study of Optuna, and the trials that it tells.

Each fact is one JSON object of one trial, in the order in which it came: ``begun``, ``suggested``, ``reported``,
``judged``, ``user_attr``, ``system_attr``, ``ended``; or ``several`` of them that came together. A trial that has begun
and not ended was lost with its driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState

from asyncsearch.events import Consulted
from asyncsearch.optuna.drawn_ahead import Drawn
from asyncsearch.optuna.messages import MOST_KEPT_BYTES, ValueCodec


class StudyFacts:
    """Writes facts as JSON values."""

    def __init__(self) -> None:
        self._codec = ValueCodec(MOST_KEPT_BYTES)

    def begun(self, trial: FrozenTrial, ahead: Sequence[Drawn] = ()) -> dict[str, Any]:
        """A trial has begun, with values that it may use."""
        return {"begun": trial.number, "trial": self._codec.encode(trial), **self._drawn(ahead)}

    def suggested(
        self, name: str, distribution: BaseDistribution, internal: float, together: Sequence[Drawn] = ()
    ) -> dict[str, Any]:
        """A value was suggested, ``internal`` as storages keep it, and others were drawn together with it."""
        return {
            "suggested": name,
            "value": self._codec.encode(float(internal)),
            "distribution": self._codec.encode(distribution),
            **self._drawn(together),
        }

    def _drawn(self, values: Sequence[Drawn]) -> dict[str, Any]:
        if not values:
            return {}
        return {"drawn": [[name, self._codec.encode(one), self._codec.encode(value)] for name, one, value in values]}

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
    codec = ValueCodec()
    trials: dict[int, FrozenTrial] = {}
    drawn: dict[int, list[Any]] = {}
    for event in facts:
        lease = event.lease.number
        for fact in facts_in(event):
            if "begun" in fact:
                trials[lease], drawn[lease] = codec.decode(fact["trial"]), []
            elif lease in trials:
                _apply(codec, trials[lease], fact)
            drawn.setdefault(lease, []).extend(fact.get("drawn", ()))
    for lease, trial in trials.items():
        if not trial.state.is_finished():
            for name, distribution, value in drawn[lease]:
                _set_param(codec, trial, name, distribution, value)
            trial.state, trial.datetime_complete = TrialState.FAIL, trial.datetime_start
        yield trial


def facts_in(event: Consulted) -> list[dict[str, Any]]:
    """Return the facts of an event: several, if the worker has said them together."""
    several: list[dict[str, Any]] = event.facts.get("several", [event.facts])
    return several


def _set_param(codec: ValueCodec, trial: FrozenTrial, name: str, distribution: Any, value: Any) -> None:
    if name not in trial.distributions:
        known = codec.decode(distribution)
        trial.distributions[name] = known
        trial.params[name] = known.to_external_repr(codec.decode(value))


def _apply(codec: ValueCodec, trial: FrozenTrial, facts: dict[str, Any]) -> None:
    match facts:
        case {"suggested": name, "value": value, "distribution": distribution}:
            _set_param(codec, trial, name, distribution, value)
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
