"""What was measured of a pack, in words: how fast its trainings are together, and how many have memory enough."""

from __future__ import annotations

from asyncsearch.events import PackMeasured, PackMemory, PacksTimed
from asyncsearch.report.cleaning_lines import size
from asyncsearch.sizing.pack_probe import fastest, most_that_fit
from asyncsearch.sizing.packing import MAX_LANES


def of_pack(event: PackMeasured) -> str:
    """Return what the runner of a pack has told; empty: nothing but what earlier versions told."""
    words = f"some of its pack are sequential, not one computation: {event.sequential}" if event.sequential else ""
    has_more = bool(event.seconds or event.refusal or event.memory)
    return "; ".join(filter(None, (_of_measures(event) if has_more else "", words)))


def _of_measures(event: PackMeasured) -> str:
    if event.refusal:
        return f"its pack trains one after another: {event.refusal}"
    if not event.seconds and event.memory is not None:
        most = most_that_fit(event.memory)
        return (
            f"its pack asks for more memory than there is{_of_memory(event.memory)}; the others wait for these: write "
            f"pack={most}, or give the workers more memory"
        )
    times = ", ".join(f"{one.lanes} in {one.seconds:.3g} s" for one in event.seconds)
    return f"its pack was measured on {event.device}: a unit of {times}{_of_best(event)}{_of_memory(event.memory)}"


def _of_best(event: PackMeasured) -> str:
    """Return what the times say, if one training alone is among them."""
    seconds = dict(event.seconds)
    if len(seconds) < 2 or 1 not in seconds:
        return ""
    best = fastest(seconds)
    return "; each trains alone, since that is as fast" if best == 1 else f"; {best} together gain most of these"


def of_others_packs(event: PacksTimed) -> str:
    """Return what was known of packs before the study had trained one."""
    best = fastest(dict(event.seconds))
    most = "each trains alone" if best == 1 else f"{best} train together"
    return f"study {event.study!r} had timed packs of its structure on {event.device}: {most}"


def _of_memory(memory: PackMemory | None) -> str:
    """Return how many trainings fit together, as predicted; empty: as many as there may be."""
    if memory is None or most_that_fit(memory) >= MAX_LANES:
        return ""
    return (
        f"; one takes {size(memory.one)} and each further one {size(memory.each)}, so that {most_that_fit(memory)} fit "
        f"into the {size(memory.limit)} that {memory.limited_by} leaves"
    )
