"""Orders configurations so that those with a long common beginning of training are neighbours.

Rule 1: pure. A walk over the tree of their training, depth first: for each time t, all configurations that are the
same up to t are adjacent. Ties at a rung are broken by trial id, so neighbours with equal scores are stopped together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from asyncsearch.sequences import segments
from asyncsearch.trial import Params

MAX_WALKED = 100_000
"""Up to this many points a grid is walked; takes about 100 microseconds for each."""

_FOREVER = 2**62


def depth_first(indices: Iterable[int], params_of: Callable[[int], Params]) -> list[int]:
    """Return the indices in the order of the walk; ``params_of`` gives the configuration of an index.

    Configurations that part later come first; otherwise the given order is kept.
    """
    groups: dict[str, list[int]] = {}
    for index in indices:
        _, text = next(segments(params_of(index), 1))
        groups.setdefault(text, []).append(index)
    order: list[int] = []
    for group in groups.values():
        if len(group) == 1:
            order += group
        else:
            # Segments of one group at a time: all of them would not fit into memory.
            order += _walk({index: segments(params_of(index), _FOREVER) for index in group})
    return order


def _walk(remaining: dict[int, Iterator[tuple[int, str]]]) -> Iterator[int]:
    waiting = [list(remaining)]
    while waiting:
        group = waiting.pop()
        if len(group) == 1:
            yield group[0]
            continue
        branches: dict[tuple[int, str] | None, list[int]] = {}
        for index in group:
            branches.setdefault(next(remaining[index], None), []).append(index)
        yield from branches.pop(None, [])
        # The last one pushed is walked first: the latest start, and of equal starts the first that came.
        by_start = sorted(branches.items(), key=lambda branch: -branch[0][0] if branch[0] else 0)
        waiting += [members for _, members in reversed(by_start)]
