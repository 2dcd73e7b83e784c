"""Which packs to simulate, and by what their times are reckoned. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from asyncsearch.errors import UsageError
from asyncsearch.report.what_if.recorded_units import Speedups
from asyncsearch.sizing.packing import Packing, packing_for


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
