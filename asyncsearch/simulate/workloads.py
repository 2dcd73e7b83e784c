"""Workloads: cost and value of simulated trials, functions of trial and resource, and checks of their answers. Pure.

The optimum of ``NoisyQuadratic`` is known: gradient descent with noisy gradients on a quadratic. The expected loss
after a unit with learning rate a is ``(1 - a)² loss + a² noise²`` (Schaul, Zhang and LeCun, "No more pesky learning
rates", ICML 2013). A large rate is fast and ends high, a small one is slow and ends low: learning curves cross, early
ranks mislead, and the best rate falls during training, so that schedules beat every constant.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple, Protocol

import numpy as np

from asyncsearch.arguments import above_zero, count_of, not_negative
from asyncsearch.errors import UsageError
from asyncsearch.ids import TrialId, trial_name
from asyncsearch.plan.keys import canonical
from asyncsearch.randomness import generator
from asyncsearch.sequences import Sequence, is_sequence, revive
from asyncsearch.space import Space, loguniform, uniform
from asyncsearch.trial import Params
from asyncsearch.values import spell
from asyncsearch.work import Stage


class Workload(Protocol):
    """The values and times of the trials that a simulated cluster trains."""

    def value(self, trial: TrialId, params: Params, resource: int) -> float:
        """Return the metric after ``resource`` units of training."""

    def seconds(self, trial: TrialId, params: Params) -> float:
        """Return how long one unit of training takes, in virtual seconds: positive, finite."""


class Curves:
    """Learning curves with known ends: each trial's loss falls from 1 to its own floor, some faster than others.

    The floor and the speed of a trial are drawn from (seed, trial), so rankings at small resources mislead sometimes,
    as in real life.

    Args:
        seed: of the draws.
        unit_s: mean virtual seconds of a unit of training.
        spread: standard deviation of the normal z in the cost ``unit_s * (1 + |z|)`` (ASHA paper, appendix A.1).

    Raises:
        UsageError: a number that cannot be.
    """

    def __init__(self, seed: int = 0, unit_s: float = 1.0, spread: float = 0.0) -> None:
        self.seed = count_of("seed", seed)
        self.unit_s, self.spread = above_zero("unit_s", unit_s), not_negative("spread", spread)
        self._drawn: dict[TrialId, tuple[float, float, float]] = {}

    def value(self, trial: TrialId, params: Params, resource: int) -> float:
        """Return the loss: smaller is better, between 0 and 1."""
        floor, speed, _ = self._draw(trial)
        return floor + (1 - floor) * math.exp(-speed * math.log1p(resource))

    def seconds(self, trial: TrialId, params: Params) -> float:
        """Return the cost of a unit of this trial."""
        return self._draw(trial)[2]

    def _draw(self, trial: TrialId) -> tuple[float, float, float]:
        drawn = self._drawn.get(trial)
        if drawn is None:
            random = generator(self.seed, "curve", trial)
            cost = self.unit_s * (1 + abs(self.spread * float(random.standard_normal())))
            drawn = self._drawn[trial] = (float(random.random()), 0.5 + float(random.random()), cost)
        return drawn


_MOST_UNITS = 2**63 - 1
"""The largest integer of a journal."""


class Failure(NamedTuple):
    """The unit at which a trial fails, each time that it is tried."""

    units: int
    """Of training that it reports before."""
    seconds: float
    """From there to its failure. 0: it fails at once, and is not paused there either."""


class CheckedWorkload:
    """Asks a workload, and refuses an answer that cannot be, with the form that it must have.

    Args:
        workload: of a simulation.

    Raises:
        UsageError: by every method: the workload returned an impossible value.
    """

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._says_units = hasattr(workload, "units")
        self._says_failures = hasattr(workload, "fails_after")

    def value(self, stage: Stage, resource: int) -> float | str:
        """Return the reported value of a stage, as it is in a journal."""
        value: Any = self._workload.value(stage.trials[0], stage.params, resource)
        number = _number(value)
        if number is None:
            raise self._refusal("value", value, stage.trials[0], "a number, NaN where there is none")
        return spell(number)

    def seconds(self, stage: Stage) -> float:
        """Return how long a unit of a stage takes."""
        seconds: Any = self._workload.seconds(stage.trials[0], stage.params)
        number = _number(seconds)
        if number is None or not 0 < number < math.inf:
            raise self._refusal("seconds", seconds, stage.trials[0], "how long a unit takes, positive and finite")
        return number

    def units(self, trial: TrialId) -> int:
        """Return after how many units the function of a trial returns; 1 if the workload does not say."""
        units = self._workload.units(trial) if self._says_units else 1  # type: ignore[attr-defined]
        if not _is_count(units) or units < 1:
            raise self._refusal("units", units, trial, "after how many units its function returns, an integer from 1")
        return int(units)

    def failure(self, trial: TrialId) -> Failure | None:
        """Return where a trial fails. None if it does not, as all of a workload that does not say."""
        if not self._says_failures:
            return None
        answer: Any = self._workload.fails_after(trial)  # type: ignore[attr-defined]
        if answer is None:
            return None
        units, seconds = answer if isinstance(answer, tuple) and len(answer) == 2 else (-1, None)
        number = _number(seconds)
        if not _is_count(units) or number is None or not 0 <= number < math.inf:
            wanted = "None, or (units, seconds) after which it fails, an integer and a number from 0, e.g. (3, 0.0)"
            raise self._refusal("fails_after", answer, trial, wanted)
        return Failure(int(units), number)

    def _refusal(self, function: str, returned: object, trial: TrialId, wanted: str) -> UsageError:
        name = f"{type(self._workload).__name__}.{function}()"
        return UsageError(f"{name} returned {_shown(returned)} for {trial_name(trial)}: it must return {wanted}.")


def _is_count(value: object) -> bool:
    """Return whether a value is an integer from 0 that a journal can hold."""
    return isinstance(value, int | np.integer) and 0 <= int(value) <= _MOST_UNITS


def _number(value: object) -> float | None:
    """Return a number as a float. None if it is none, or too large for one."""
    if not isinstance(value, int | float | np.integer | np.floating):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _shown(value: object) -> str:
    """Return a value for a message. Python refuses to write integers of more than some thousand digits."""
    try:
        return repr(value)
    except ValueError:
        return "an integer of thousands of digits"


_BEST_X = 0.3
_LOW, _HIGH = 1e-3, 1.0
_NORMAL = NormalDist()
_MASK = (1 << 64) - 1


class NoisyQuadratic:
    """Loss of a learning rate ``lr`` and of numbers ``x0``, ``x1``, ... that are best at 0.3; smaller is better.

    Args:
        dimensions: how many numbers there are besides the learning rate, from 0; each costs ``(x - 0.3)²``.
        gradient_noise: variance of the gradient's noise. At 1 the curves of all good rates cross, and whoever stops
            trials early keeps the wrong ones; at 0.01 the other numbers decide, and early ranks are nearly right.
        report_noise: standard deviation of the noise of each report.
        seed: of that noise.
        unit_s: virtual seconds of a unit of training.

    Raises:
        UsageError: a number that cannot be.
    """

    def __init__(
        self,
        *,
        dimensions: int = 1,
        gradient_noise: float = 0.01,
        report_noise: float = 0.0,
        seed: int = 0,
        unit_s: float = 1.0,
    ) -> None:
        self._names = tuple(f"x{number}" for number in range(count_of("dimensions", dimensions)))
        self._gradient_noise = above_zero("gradient_noise", gradient_noise)
        self._report_noise = not_negative("report_noise", report_noise)
        self._seed, self._unit_s = count_of("seed", seed), above_zero("unit_s", unit_s)
        self._chains: dict[str, list[float]] = {}
        self.space = Space({"lr": loguniform(_LOW, _HIGH)} | {name: uniform(0.0, 1.0) for name in self._names})

    def value(self, trial: TrialId, params: Params, resource: int) -> float:
        """Return the loss that is reported after ``resource`` units.

        Raises:
            UsageError: a parameter is missing.
        """
        if "lr" not in params or any(name not in params for name in self._names):
            raise self._incomplete(params)
        loss = self.loss(params["lr"], resource)
        for name in self._names:
            loss += (_present(params[name], resource) - _BEST_X) ** 2
        if self._report_noise:
            loss += self._report_noise * _NORMAL.inv_cdf(_uniform(self._seed, trial, resource))
        return loss

    def seconds(self, trial: TrialId, params: Params) -> float:
        """Return the cost of a unit, the same for all."""
        return self._unit_s

    def loss(self, lr: Any, resource: int) -> float:
        """Return the expected loss of a learning rate, a number or a sequence, from 1 before the first unit."""
        if is_sequence(lr):
            return self._loss_of_sequence(lr, resource)
        keep, floor = (1 - lr) ** 2, lr * self._gradient_noise / (2 - lr)
        return float(floor + (1 - floor) * keep**resource)

    def optimum(self, resource: int) -> float:
        """Return the least expected loss that any schedule reaches: the rate is ``loss / (loss + noise²)`` always."""
        resource = count_of("resource", resource)
        return self._gradient_noise / (self._gradient_noise + resource)

    def best_constant(self, resource: int) -> tuple[float, float]:
        """Return the best constant learning rate for so many units, and its expected loss."""
        resource = count_of("resource", resource)
        low, high = math.log(_LOW), math.log(_HIGH)
        for _ in range(200):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            if self.loss(math.exp(left), resource) < self.loss(math.exp(right), resource):
                high = right
            else:
                low = left
        lr = math.exp((low + high) / 2)
        return lr, self.loss(lr, resource)

    def _incomplete(self, params: Params) -> UsageError:
        needed = ("lr", *self._names)
        missing = [name for name in needed if name not in params]
        return UsageError(
            f"NoisyQuadratic(dimensions={len(self._names)}) needs the parameters {', '.join(needed)}, and the trials "
            f"lack {', '.join(missing)}: add them in space=, leave space= out, or change dimensions=."
        )

    def _loss_of_sequence(self, lr: Any, resource: int) -> float:
        chain = self._chains.setdefault(canonical({"lr": lr}), [1.0])
        if len(chain) <= resource:
            sequence: Sequence = revive(lr)
            while len(chain) <= resource:
                rate = sequence.at(len(chain) - 1)
                chain.append((1 - rate) ** 2 * chain[-1] + rate**2 * self._gradient_noise)
        return chain[resource]


def _present(value: Any, resource: int) -> float:
    """Return the value of a number in the unit that ended at ``resource``."""
    sequence: Sequence | None = revive(value) if is_sequence(value) else None
    return float(value) if sequence is None else float(sequence.at(max(0, resource - 1)))


def _uniform(seed: int, trial: int, resource: int) -> float:
    """Return a number inside (0, 1): a generator for each report would cost more than the engine."""
    bits = seed
    for part in (trial, resource):
        # The finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
        bits = (bits + (part + 1) * 0x9E3779B97F4A7C15) & _MASK
        bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
        bits ^= bits >> 31
    return ((bits >> 11) + 0.5) / (1 << 53)
