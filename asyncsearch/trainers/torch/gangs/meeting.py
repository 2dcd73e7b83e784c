"""How the ranks of a gang meet for a process group of PyTorch: through the driver, and each proves itself to each.

torch's own ``TCPStore`` listens on a port and asks for no secret: whoever reaches it can write where the ranks are. So
the values by which the ranks find each other go through the driver, over TLS. Gloo then takes whoever connects to a
rank and names the right number. So each rank sends each other one a proof first, by a secret of this training.
"""

from __future__ import annotations

import datetime
import hmac
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from asyncsearch.errors import RankLostError, UsageError
from asyncsearch.trainable.gang import Ranks
from asyncsearch.trainers.ranks import PATIENCE_S, PROOF_BYTES, proof_of


class GangStore(dist.Store):  # type: ignore[misc]
    """The store of a process group, whose values the ranks tell each other through the driver."""

    def __init__(self, ranks: Ranks) -> None:
        super().__init__()
        self._ranks = ranks
        self._known: dict[str, bytes] = {}

    def set(self, key: str, value: bytes) -> None:
        self._known[key] = value
        self._ranks.tell(_key(key), value.hex())

    def get(self, key: str) -> bytes:
        self.wait([key])
        return self._known[key]

    def wait(self, keys: Sequence[str], timeout: datetime.timedelta | None = None) -> None:
        """Wait for values, however long: a gang that has lost a rank is ended."""
        for key in keys:
            if key not in self._known:
                self._known[key] = bytes.fromhex(self._ranks.await_value(None, _key(key)))

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether values are known. A thread of NCCL asks each second: it neither waits nor raises an error."""
        return all(key in self._known for key in keys)

    def delete_key(self, key: str) -> bool:
        return self._known.pop(key, None) is not None

    def add(self, key: str, amount: int) -> int:
        raise UsageError(
            f"torch counts {key!r} in the store of its ranks, which here has no counters: leave out "
            "TORCH_DIST_INIT_BARRIER, and let ranks wait for each other by torch.distributed.barrier(group=group)."
        )


def require_members(ranks: Ranks, secret: bytes, group: Any) -> None:
    """Send a proof to each other rank of a group of gloo, and check theirs.

    Raises:
        RankLostError: something else has taken the place of a rank, or it is gone.
    """
    mine = ranks.seat.rank
    others = [rank for rank in range(ranks.seat.size) if rank != mine]
    # All are under way before one is awaited: ranks that received first would wait for each other.
    sent = [group.send([_as_tensor(proof_of(secret, f"{mine} to {other}"))], other, 0) for other in others]
    for other in others:
        found = torch.zeros(PROOF_BYTES, dtype=torch.uint8, device="cpu")
        try:
            group.recv([found], other, 0).wait(datetime.timedelta(seconds=PATIENCE_S))
        except RuntimeError as error:
            raise RankLostError(f"Rank {other} of the trial has not proved itself to rank {mine}: {error}") from None
        if not hmac.compare_digest(found.numpy().tobytes(), proof_of(secret, f"{other} to {mine}")):
            raise RankLostError(f"Something else has connected to rank {mine} in the place of rank {other}.")
    for work in sent:
        work.wait()


def _as_tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _key(key: str) -> str:
    return f"torch {key}"
