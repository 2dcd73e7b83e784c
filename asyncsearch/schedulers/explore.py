"""How PBT explores: the values with which a trial goes on that took over the weights of another one.

Rule 1: pure; all randomness comes from the generator that a function is given.
Rule 2: no earlier value is forgotten. The new value is appended to the donor's schedule, so that the params of a trial
are the whole schedule with which its weights were trained, and can be trained again as a sequence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asyncsearch.errors import SpaceError
from asyncsearch.randomness import below
from asyncsearch.sequences import has_sequences, is_sequence
from asyncsearch.sequences.formulas import scaled
from asyncsearch.space import MAX_CANDIDATES, Choice, Domain, QRandInt, Quantiled, QUniform, RandInt, Space
from asyncsearch.space.dotted_names import did_you_mean, put
from asyncsearch.space.numbers import LogUniform, Uniform
from asyncsearch.space.parameter_values import copy_plain, identity
from asyncsearch.trial import Params

if TYPE_CHECKING:
    import numpy as np


def perturbed_domains(space: Space, names: Sequence[str] | None) -> dict[str, Domain]:
    """Return dotted name -> domain of the parameters to perturb. None stands for all that can be.

    Raises:
        SpaceError: one of them cannot be perturbed, or none can.
    """
    if names is not None:
        for name in names:
            reason = _objection(space, name)
            if reason:
                able = _able(space)
                advice = f"perturb some of {', '.join(map(repr, able))}" if able else "use another scheduler"
                raise SpaceError(f"perturb={name!r}: {reason}; {advice}.")
        return {name: space.parameters[name] for name in names}
    found = {name: space.parameters[name] for name in _able(space)}
    if not found:
        reasons = "; ".join(f"{name}: {_objection(space, name)}" for name in space.parameters)
        raise SpaceError(
            f"No parameter of the space can be perturbed ({reasons}): use another scheduler, such as ASHA."
        )
    return found


def moves(domain: Domain, value: Any, factors: Iterable[float]) -> list[Any]:
    """Return the values to which a value of a domain may be moved, except itself. Empty if it has no neighbours.

    Numbers are multiplied by each of ``factors`` and kept within the domain, those with steps by a step at least.
    Choices of numbers move to the next smaller and the next larger one.
    """
    if isinstance(domain, Choice):
        return _neighbours(domain, value)
    found = [_moved(domain, value, scaled(value, factor, 1)) for factor in factors]
    return [moved for at, moved in enumerate(found) if moved != value and moved not in found[:at]]


def explored(
    domain: Domain, value: Any, factors: Iterable[float], resample_probability: float, source: np.random.Generator
) -> Any:
    """Return the value with which a parameter goes on: drawn anew, or else moved, if it can be."""
    if source.random() >= resample_probability:
        near = moves(domain, value, factors)
        if near:
            return near[below(source, len(near))]
    return domain.sample(source)


def current(value: Any, resource: int) -> Any:
    """Return the value that a parameter has in the unit of training after ``resource``."""
    values, milestones = _schedule(value)
    return values[sum(milestone <= resource for milestone in milestones)]


def continued(value: Any, resource: int, new: Any) -> Any:
    """Return a parameter's schedule up to a resource, continued by ``new``: a value, or a sequence in JSON form."""
    values, milestones = _schedule(value)
    kept = sum(milestone < resource for milestone in milestones)
    values, milestones = values[: kept + 1], milestones[:kept]
    if identity(values[-1]) != identity(new):
        values, milestones = [*values, new], [*milestones, resource]
    if not milestones:
        return copy_plain(values[0])
    # As ``sequences.values(...).to_json()`` writes it, which would look at every value again.
    return {"sequence": "values", "values": copy_plain(values), "milestones": milestones}


@dataclass(frozen=True)
class Explorer:
    """Explores a space: multiplies values by one of ``factors``, or draws them anew with ``resample_probability``."""

    space: Space
    domains: Mapping[str, Domain]
    """Of the perturbed parameters; one that a configuration does not have is left out there."""
    factors: Sequence[float]
    resample_probability: float

    def explore(self, params: Params, resource: int, source: np.random.Generator) -> tuple[Params, str]:
        """Return params that are the given ones up to a resource and explored from there, and the changes in words.

        Where the constraints reject all of a bounded number of draws, the values stay as they are.
        """
        flat = self.space.flatten(params)
        now = {name: current(flat[name], resource) for name in self.domains if name in flat}
        then = self._allowed({**flat, **now}, now, source)
        result: Params = copy_plain(params)
        for name, value in then.items():
            put(result, name, continued(flat[name], resource, value))
        changed = [f"{name} {_show(now[name])} -> {_show(then[name])}" for name in now if then[name] != now[name]]
        return result, ", ".join(changed) or "keeps its values"

    def _allowed(self, flat: Mapping[str, Any], now: dict[str, Any], source: np.random.Generator) -> dict[str, Any]:
        for _ in range(MAX_CANDIDATES):
            drawn = {
                name: explored(self.domains[name], value, self.factors, self.resample_probability, source)
                for name, value in now.items()
            }
            if not self.space.is_constrained or self.space.allows({**flat, **drawn}):
                return drawn
        return now


def _able(space: Space) -> list[str]:
    return [name for name in space.parameters if not _objection(space, name)]


def _objection(space: Space, name: str) -> str:
    """Return why a parameter cannot be perturbed; empty if it can be."""
    domain = space.parameters.get(name)
    if domain is None:
        if name in space.names:
            return "it is a sequence, and changes by itself"
        if any(other.startswith(f"{name}.") for other in space.names):
            return "it is a group"
        return f"the space has no such parameter, {did_you_mean(name, space.parameters).rstrip('.')}"
    if name not in space.names:
        chosen = (path for path, one in space.parameters.items() if isinstance(one, Choice) and one.groups)
        if any(name.startswith(f"{path}.") for path in chosen):
            return "it is part of a dictionary that is chosen"
        return "it shapes a sequence, which changes by itself"
    if isinstance(domain, Choice) and domain.groups:
        return "some of its values are dictionaries with domains in them"
    if isinstance(domain, Choice) and (domain.templates or has_sequences(domain.arguments())):
        return "some of its values are sequences, which change by themselves"
    if domain.size == 1:
        value = domain.grid(None)[0]
        return "it is a sequence, and changes by itself" if is_sequence(value) else "it is a constant"
    children = [other for other, its in space.parameters.items() if any(c.parent == name for c in its.conditions)]
    return f"whether {children[0]!r} exists depends on it" if children else ""


def _moved(domain: Domain, value: Any, goal: float) -> Any:
    match domain:
        case QUniform():
            goal = max(domain.low, min(goal, domain.high))
            steps = (goal - domain.low) / domain.step
            here = round((value - domain.low) / domain.step)
            return domain.at(_at_least_a_step(here, steps, 0, domain.size - 1, goal - value))
        case QRandInt():
            steps = (max(domain.low, min(goal, domain.high)) - domain.low) / domain.step
            here = (value - domain.low) // domain.step
            found = _at_least_a_step(here, steps, 0, domain.size - 1, goal - value)
            return domain.low + domain.step * found
        case RandInt():
            return _at_least_a_step(
                value, max(domain.low, min(goal, domain.high)), domain.low, domain.high, goal - value
            )
        case Uniform() | LogUniform():
            return float(max(domain.low, min(goal, domain.high)))
        case Quantiled():
            step = getattr(domain, "step", None) or 1.0
            near = domain.near(goal)
            is_still = near == value and goal != value and near != goal
            return domain.near(value + math.copysign(step, goal - value)) if is_still else near
        case _:
            return value


def _at_least_a_step(here: int, goal: float, low: int, high: int, direction: float) -> int:
    """Return the whole number next to ``goal``; if that is ``here``, its neighbour in a direction."""
    if (near := round(goal)) == here and direction:
        near = here + int(math.copysign(1, direction))
    return max(low, min(near, high))


def _neighbours(domain: Choice, value: Any) -> list[Any]:
    numbers = [item for item in domain.values if isinstance(item, int | float) and not isinstance(item, bool)]
    if len(numbers) < domain.size:
        return []
    ordered = sorted(numbers)
    at = ordered.index(value)
    return ordered[max(0, at - 1) : at] + ordered[at + 1 : at + 2]


def _schedule(value: Any) -> tuple[list[Any], list[int]]:
    """Return the values of a parameter that is perturbed, and the milestones between them."""
    return (value["values"], value["milestones"]) if is_sequence(value) else ([value], [])


def _show(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
