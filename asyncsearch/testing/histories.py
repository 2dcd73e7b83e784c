"""A workload whose values depend on every unit that was trained, so that wrong sharing is detected."""

from __future__ import annotations

import hashlib

from asyncsearch.ids import TrialId
from asyncsearch.plan.keys import canonical
from asyncsearch.sequences import present
from asyncsearch.trial import Params


class Histories:
    """The loss after some units is a hash of the hyper-parameters of each of them, so it identifies the training.

    Args:
        unit_s: virtual seconds of a unit of training.
    """

    def __init__(self, unit_s: float = 1.0) -> None:
        self.unit_s = unit_s
        self._chains: dict[str, list[bytes]] = {}

    def value(self, trial: TrialId, params: Params, resource: int) -> float:
        """Return the loss, between 0 and 1; it does not depend on the trial."""
        chain = self._chains.setdefault(canonical(params), [b""])
        while len(chain) <= resource:
            step = canonical(present(params, len(chain) - 1)).encode()
            chain.append(hashlib.blake2b(chain[-1] + step, digest_size=8).digest())
        return int.from_bytes(chain[resource], "big") / 2**64

    def seconds(self, trial: TrialId, params: Params) -> float:
        """Return the virtual seconds of a unit."""
        return self.unit_s
