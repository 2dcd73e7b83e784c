"""The parts of a gang that are the same for every framework: shares of samples, and proofs of who belongs to it."""

from __future__ import annotations

import hmac
import secrets

from asyncsearch.trainable.gang import Ranks

PROOF_BYTES = 32
PATIENCE_S = 60.0
"""How long a rank that has said where it is may take to connect or to prove itself: it does nothing else meanwhile."""


def share_of(rank: int, size: int, count: int) -> tuple[int, int]:
    """Return the first of a rank's samples, of so many that ranks share evenly in order, and the one after its last."""
    return rank * count // size, (rank + 1) * count // size


def secret_of(ranks: Ranks) -> bytes:
    """Return the secret of a gang, which rank 0 draws for each training and sends through the driver, over TLS."""
    if ranks.seat.rank:
        return bytes.fromhex(ranks.await_value(0, _SECRET))
    secret = secrets.token_hex(PROOF_BYTES)
    ranks.tell(_SECRET, secret)
    return bytes.fromhex(secret)


def proof_of(secret: bytes, statement: str) -> bytes:
    """Return the proof that the author of a statement knows the secret."""
    return hmac.digest(secret, statement.encode(), "sha256")


_SECRET = "gang secret"
