"""The entries of a heap in ascending order, as far as they are asked for. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any, TypeVar

E = TypeVar("E", bound=tuple[Any, ...])


def ascending(heap: list[E]) -> Iterator[E]:
    """Yield the entries of a heap in ascending order without changing it; the first k of them take O(k log k).

    The heap must not change meanwhile.
    """
    ahead = [(heap[0], 0)] if heap else []
    while ahead:
        entry, index = heapq.heappop(ahead)
        yield entry
        for below in range(2 * index + 1, min(2 * index + 3, len(heap))):
            heapq.heappush(ahead, (heap[below], below))
