"""The seal of questions and answers, by which a trial and the one who answers it in the driver know each other.

Other libraries' programs send objects as pickles in them, and a pickle runs code where it is opened. So both sides read
only what was sealed (HMAC-SHA256) with the key of the launch, which comes with the worker's other credentials: who can
read the study's store, or write into its stream, cannot make a seal. A driver in the cluster gives these credentials by
its store; it runs no program of another library, and opens notes alone, which are no pickles.
"""

from __future__ import annotations

import hmac

from asyncsearch.errors import UnauthenticatedError

_MAC_BYTES = 32
_QUESTION, _ANSWER = b"question", b"answer"


def launch_key(secret: bytes, worker: int, epoch: int) -> bytes:
    """Return the key of one launch of a worker, of the secret that stays with the driver."""
    return hmac.digest(secret, f"seal {worker}.{epoch}".encode(), "sha256")


class Seal:
    """Seals what one side writes, and opens what the other side has sealed.

    A seal counts for one number and one direction of a launch. Numbers begin anew with each trial and lane.
    """

    def __init__(self, key: bytes, *, is_driver: bool = False) -> None:
        self._key = key
        self._mine, self._theirs = (_ANSWER, _QUESTION) if is_driver else (_QUESTION, _ANSWER)

    def closed(self, number: int, content: bytes) -> bytes:
        """Return the content behind its seal."""
        return self._mac(self._mine, number, content) + content

    def opened(self, number: int, sealed: bytes) -> bytes:
        """Return the content that the other side has sealed.

        Raises:
            UnauthenticatedError: it did not, or not under this number.
        """
        content = sealed[_MAC_BYTES:]
        if not hmac.compare_digest(sealed[:_MAC_BYTES], self._mac(self._theirs, number, content)):
            raise UnauthenticatedError("a question or an answer of a trial has no seal of its launch")
        return content

    def _mac(self, direction: bytes, number: int, content: bytes) -> bytes:
        return hmac.digest(self._key, b"%s %d " % (direction, number) + content, "sha256")
