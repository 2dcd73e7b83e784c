"""How the trials of a simulated search scale: which packs they train in, which have more workers, and what that gains.

Each says by which measured or given times it is reckoned. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from asyncsearch.errors import UsageError
from asyncsearch.report.what_if.recorded_units import Speedups
from asyncsearch.schedulers.base_scheduler import RungForecast
from asyncsearch.simulate.options import TrainingModel
from asyncsearch.sizing.autoscale import Autoscale
from asyncsearch.sizing.gangs import Gang
from asyncsearch.sizing.pack_probe import speedup_at
from asyncsearch.sizing.packing import Packing, packing_for


class Scaling(msgspec.Struct, frozen=True):
    """How many workers train a trial of a simulated search, and what they gain."""

    gang: Gang
    autoscale: Autoscale
    curve: Mapping[int, float]
    """Workers -> how many times as fast as ``gang.size`` they train a trial."""
    source: str
    """Where that is from, in words."""

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of ``simulate``."""
        return {"workers_per_trial": self.gang}

    def most(self, workers: int) -> int:
        """Return how many of so many workers a trial gets at most, by the curve."""
        most, base = min(workers, self.autoscale.max_size or workers), self.gang.size
        sizes = range(base, most + 1, base)
        kept = [k for k in sizes if speedup_at(self.curve, k) * base >= self.autoscale.efficiency * k * (1 - 1e-9)]
        return max(kept, default=base)

    def words(self, rungs: Sequence[RungForecast], workers: int) -> str:
        """Return the gain of more workers in the last rung, in words."""
        most, base = self.most(workers), self.gang.size
        last = rungs[-1]
        if last.to_resource is None or most == base:
            return f"No trial gets more than {base} of {workers} workers, with the gain {self.source}."
        units = last.to_resource - last.from_resource
        alone = "one worker" if base == 1 else f"{base} workers"
        fewer = f"{units / speedup_at(self.curve, most):.3g} on {most}"
        return f"The last rung takes {units:,} units on {alone}, {fewer}, with the gain {self.source}."


def scaling_of(
    gang: Gang | None, workers: int, given: Mapping[int, float] | None, measured: Mapping[int, float], where: str
) -> Scaling | None:
    """Return how a search scales; None if all of its trials have as many workers.

    Args:
        gang: of the study.
        workers: of the search.
        given: by the user, workers -> how many times as fast; None if nothing was.
        measured: the same, as measured.
        where: the call in which it can be given.

    Raises:
        UsageError: what was given breaks its rule, or the study does not scale.
    """
    if given is not None:
        TrainingModel(gang_speedup=given)  # checks it
    if gang is None or gang.autoscale is None:
        if given is not None:
            raise UsageError(
                f"{where} says what autoscaling gains, and the study has none: leave it out, or write Study(..., "
                "autoscale=Autoscale())."
            )
        return None
    curve = given if given is not None else measured
    if curve:
        scale = speedup_at(curve, gang.size)
        relative = {size: speedup / scale for size, speedup in curve.items()}
        source = f"of {where}" if given is not None else "measured in the study"
        return Scaling(gang, gang.autoscale, {**relative, gang.size: 1.0}, source)
    limit = gang.autoscale.efficiency
    sizes = range(2 * gang.size, workers + 1, gang.size)
    curve = {gang.size: 1.0} | {size: max(1.0, limit * size / gang.size) for size in sizes}
    return Scaling(gang, gang.autoscale, curve, f"of the least efficiency, {limit:g}, since nothing was measured")


class Packs(msgspec.Struct, frozen=True):
    """Packs of a simulated search."""

    packing: Packing | None
    """How the search packs; None if each trial trains alone."""
    speedup: Speedups
    """How much packs gain, as of ``TrainingModel``; empty means nothing."""
    source: str = ""
    """Where that is from, in words; empty if nothing is known of it."""

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of ``simulate``."""
        if self.packing is None:
            return {}
        pack = "auto" if self.packing.is_measured else self.packing.limit
        return {"pack": pack, "pack_opt": self.packing.strategy}

    @property
    def words(self) -> str:
        """How many train together, and by what that is reckoned; empty if each trains alone."""
        if self.packing is None:
            return ""
        count = "as many as train fastest" if self.packing.is_measured else f"up to {self.packing.limit:,}"
        if not self.source:
            return f"Workers train {count} together. What that gains is not known, so packs are taken to gain nothing."
        return f"Workers train {count} together, with the gain {self.source}."

    def alone(self) -> Packs:
        """Return these packs as if each trial trained alone."""
        return Packs(None, self.speedup, self.source)


def packing_asked(own: Packing | None, pack: int | str | None, names: Sequence[str] | None = None) -> Packing | None:
    """Return how a search packs of which ``pack`` is asked; None means as the study does, 1: not at all.

    ``names``: of the hyper-parameters that tell which trials are alike.

    Raises:
        UsageError: ``pack`` is no number of trials.
    """
    if pack is None:
        return own
    asked = packing_for(pack, "plan" if own is None else own.strategy, names)
    if asked is None or asked.limit == 1:
        return None
    return asked if own is None else msgspec.structs.replace(own, limit=asked.limit, is_measured=asked.is_measured)


def packs_to_simulate(
    packing: Packing | None, own: Packing | None, given: Speedups | None, measured: Speedups, call: str
) -> Packs:
    """Return the packs of a search whose study packs as ``own``; ``given`` gains count before ``measured`` ones.

    Raises:
        UsageError: nothing is known of how much packs gain, and the search packs in another way than the study.
    """
    if given is not None:
        return Packs(packing, given, "that was given")
    if not measured and packing != own:
        raise UsageError(
            f"{call}: how much packs gain has not been measured here. Write it, e.g. pack_speedup={{8: 5.0}} where 8 "
            "trials train 5 times as fast together as one after another, or run a study with pack='auto', which "
            "measures it."
        )
    return Packs(packing, measured, "that was measured" if measured else "")
