"""The facts of a study of Optuna in the journal, and the trials that they tell.

Each fact is one JSON object of one trial, in the order in which it came: ``begun``, ``suggested``, ``used``,
``reported``, ``judged``, ``resumed``, ``user_attr``, ``system_attr``, ``ended``; or ``several`` of them that came
together. A trial that has begun and not ended was lost with its driver, unless a scheduler had paused it. Attributes of
the study itself stand behind the fact that they came with.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial, TrialState

from asyncsearch.events import Consulted
from asyncsearch.optuna.drawn_ahead import NOTHING, Ahead, Drawn
from asyncsearch.optuna.messages import MOST_KEPT_BYTES, ValueCodec

_MOST_SHOWN = 60
_STUDY_USER, _STUDY_SYSTEM = "study_user_attr", "study_system_attr"


class StudyFacts:
    """Writes facts as JSON values."""

    def __init__(self) -> None:
        self._codec = ValueCodec(MOST_KEPT_BYTES)
        self._order = 0
        """The last one that was written."""

    def begun(self, trial: FrozenTrial, ahead: Ahead = NOTHING) -> dict[str, Any]:
        """A trial has begun, with values that it may use; what they are is written where it changes."""
        fact = {"begun": trial.number, "trial": self._codec.encode(trial)}
        if ahead.internals:
            fact["ahead"] = self._codec.encode(ahead.internals)
        if ahead.internals and ahead.order.number != self._order:
            self._order = ahead.order.number
            fact["order"] = [[name, self._codec.encode(one)] for name, one in ahead.order.names]
        return fact

    def resumed(self, number: int) -> dict[str, Any]:
        """A trial that was paused, or had lost its worker, goes on under another lease."""
        return {"resumed": number}

    def suggested(
        self, name: str, distribution: BaseDistribution, internal: float, together: Sequence[Drawn] = ()
    ) -> dict[str, Any]:
        """A value was suggested, ``internal`` as storages keep it, and others were drawn together with it."""
        return {
            "suggested": name,
            "params": {name: _shown(distribution.to_external_repr(internal))},
            "value": self._codec.encode(float(internal)),
            "distribution": self._codec.encode(distribution),
            **self._drawn(together),
        }

    def used(self, values: Sequence[Drawn]) -> dict[str, Any]:
        """Values were suggested that were drawn when the trial began, and stand there."""
        shown = {name: _shown(one.to_external_repr(internal)) for name, one, internal in values}
        return {"used": len(values), "params": shown}

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


def _shown(value: Any) -> Any:
    """Return a value of a parameter as people read it: itself where it is plain, else in words."""
    if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
        return value
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


class StudyAttributes:
    """The attributes of a study in memory, which a callback, an objective or a sampler may set."""

    def __init__(self, study: Any) -> None:
        """Begin with those that it has."""
        self._study, self._codec = study, ValueCodec(MOST_KEPT_BYTES)
        self._known = self._now()

    def changed(self) -> list[dict[str, Any]]:
        """Return a fact for each that was set since; of a study with a database of its own none is needed."""
        before, self._known = self._known, self._now()
        return [
            {kind: key, "value": self._codec.encode(value)}
            for kind, now in self._known.items()
            for key, value in now.items()
            if key not in before[kind] or before[kind][key] is not value
        ]

    def _now(self) -> dict[str, dict[str, Any]]:
        storage, number = self._study._storage, self._study._study_id
        if not isinstance(storage, InMemoryStorage):
            return {}
        return {
            _STUDY_USER: dict(storage.get_study_user_attrs(number)),
            _STUDY_SYSTEM: dict(storage.get_study_system_attrs(number)),
        }


def give_attributes(study: Any, facts: Iterable[dict[str, Any]]) -> None:
    """Give a study in memory the attributes that facts tell."""
    codec, storage, number = ValueCodec(), study._storage, study._study_id
    for fact in facts:
        if _STUDY_USER in fact:
            storage.set_study_user_attr(number, fact[_STUDY_USER], codec.decode(fact["value"]))
        elif _STUDY_SYSTEM in fact:
            storage.set_study_system_attr(number, fact[_STUDY_SYSTEM], codec.decode(fact["value"]))


def trials_of(
    facts: Iterable[Consulted], ends: Mapping[int, TrialState] = MappingProxyType({})
) -> Iterator[FrozenTrial]:
    """Yield the trials of facts, in the order of their beginnings.

    Args:
        facts: of one run.
        ends: number of the lease -> what became of a trial that has not said its end; else it has failed.
    """
    codec = ValueCodec()
    trials: dict[int, FrozenTrial] = {}
    first: dict[int, int] = {}
    drawn: dict[int, list[Any]] = {}
    order: list[Any] = []
    for event in facts:
        lease = first.get(event.lease.number, event.lease.number)
        for fact in facts_in(event):
            if "begun" in fact:
                order = fact.get("order", order)
                ahead = zip(order, fact["ahead"], strict=True) if "ahead" in fact else ()
                trials[lease], drawn[lease] = codec.decode(fact["trial"]), [[*one, value] for one, value in ahead]
            elif "resumed" in fact:
                number = fact["resumed"]
                lease = next((one for one, trial in trials.items() if trial.number == number), lease)
                first[event.lease.number] = lease
            elif lease in trials:
                _apply(codec, trials[lease], fact, drawn[lease])
            drawn.setdefault(lease, []).extend(fact.get("drawn", ()))
    became = {first.get(lease, lease): state for lease, state in ends.items()}
    for lease, trial in trials.items():
        if not trial.state.is_finished():
            for name, distribution, value in drawn[lease]:
                _set_param(codec, trial, name, distribution, value)
            _end(trial, became.get(lease, TrialState.FAIL))
        yield trial


def _end(trial: FrozenTrial, state: TrialState) -> None:
    """Give a trial that has not said its own end a state."""
    trial.state = state
    if state.is_finished():
        trial.datetime_complete = trial.datetime_start
    last = trial.intermediate_values[max(trial.intermediate_values)] if trial.intermediate_values else math.nan
    if state is TrialState.PRUNED and not math.isnan(last):
        trial.value = last


def facts_in(event: Consulted) -> list[dict[str, Any]]:
    """Return the facts of an event: several, if the worker has said them together."""
    several: list[dict[str, Any]] = event.facts.get("several", [event.facts])
    return several


def _set_param(codec: ValueCodec, trial: FrozenTrial, name: str, distribution: Any, value: Any) -> None:
    if name not in trial.distributions:
        known = codec.decode(distribution)
        trial.distributions[name] = known
        trial.params[name] = known.to_external_repr(codec.decode(value))


def _apply(codec: ValueCodec, trial: FrozenTrial, facts: dict[str, Any], drawn: Sequence[Any]) -> None:
    """Let a fact change a trial; ``drawn``: names, distributions and values that were drawn for it before."""
    match facts:
        case {"suggested": name, "value": value, "distribution": distribution}:
            _set_param(codec, trial, name, distribution, value)
        case {"suggested": name, "value": value}:
            _set_param(codec, trial, name, next(one[1] for one in drawn if one[0] == name), value)
        case {"used": count}:
            for one in [one for one in drawn if one[0] not in trial.distributions][:count]:
                _set_param(codec, trial, *one)
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
