"""How trials train together, as a pack or on several workers, and the bytes of their checkpoints, in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from asyncsearch.engine.affected import kept_for_later
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.state import StudyState
from asyncsearch.events import PackMeasured, PackMemory, PacksTimed
from asyncsearch.ids import worker_name
from asyncsearch.report.formatting import many, size
from asyncsearch.sizing.lanes import most_lanes
from asyncsearch.sizing.pack_probe import fastest, most_that_fit
from asyncsearch.sizing.packing import MAX_LANES

_ENLARGED = 3
_GANGS, _MEMBERS = 4, 8
_UNMEASURED = (
    'what that saved was not measured, since none of these trained a unit alone: pack="auto" measures it, and '
    "what_if(study, pack_speedup={8: 5.0}) reckons with what you know"
)


def enlarged(state: StudyState) -> tuple[str, ...]:
    """Return the first trials that train on more workers than others: "trial-7 on 4"."""
    least = 1 if state.gang is None else state.gang.size
    larger = [attempt for attempt in state.attempts.values() if attempt.is_training and attempt.size > least]
    return tuple([f"{state.trials[attempt.trial].name} on {attempt.size}" for attempt in larger[:_ENLARGED]])


def gangs(state: StudyState) -> tuple[str, ...]:
    """Return the first trials that several workers train together: "trial-7 on worker-0, worker-2"."""
    together = [attempt for attempt in state.attempts.values() if attempt.is_training and attempt.size > 1]
    return tuple([f"{state.trials[one.trial].name} on {_workers_of(one, state)}" for one in together[:_GANGS]])


def _workers_of(attempt: Attempt, state: StudyState) -> str:
    leader = state.pool.slots[attempt.lease.worker]
    names = [worker_name(worker) for worker in (leader.worker, *leader.followers)]
    return ", ".join(names[:_MEMBERS]) + (f" and {len(names) - _MEMBERS} more" if len(names) > _MEMBERS else "")


def packed(state: StudyState) -> str:
    """Return how many trained together, of all structures: what was measured, and what was in the way."""
    known = [packs for packs in state.packs.values() if not packs.refusal]
    units = sum(sum(packs.units.values()) for packs in known)
    saved = [seconds for packs in known if (seconds := packs.saved_s) is not None]
    most = max((lanes for packs in known for lanes in packs.units), default=0)
    parts = [f"{many(units, 'unit')} trained in packs of up to {most}"] if units else []
    if units:
        others = sorted({packs.timed_by for packs in known if packs.timed_by and packs.units})
        parts.append(_saving(sum(saved), others) if saved else _UNMEASURED)
    if state.packing is not None and known:
        least = min((most_lanes(state.packing, packs) for packs in known), key=lambda lanes: lanes.count)
        parts += [f"at most {least.count} train together: {least.reason}"] if least.count < state.packing.limit else []
    refused = [packs.refusal for packs in state.packs.values() if packs.refusal]
    parts += [f"one after another, not together: {words}" for words in refused[:1]]
    sequential = [packs.sequential for packs in known if packs.sequential]
    parts += [f"some of a pack are sequential, not one computation: {words}" for words in sequential[:1]]
    return "; ".join(parts)


def _saving(seconds: float, others: Sequence[str]) -> str:
    """Return the saving of packs, as measured by this study or others."""
    by = f" by {', '.join(map(repr, others))}" if others else ""
    if seconds < 0:
        return f"that took about {-seconds:.3g} s longer than training alone, as measured{by}"
    return f"that saved about {seconds:.3g} s of training, as measured{by}"


def beyond_quota(state: StudyState) -> str:
    """Return why checkpoints take more than their quota; empty if they do not."""
    if not state.usage.is_over:
        return ""
    return (
        f"{many(len(state.usage.sizes), 'checkpoint')} take {state.usage.total_bytes:,} bytes, more than "
        f"quota_bytes={state.usage.quota_bytes:,}: all are of trials that may go on, or of the best one, and stay. "
        "Raise Sharing(quota_bytes=...), or save less."
    )


def for_later(state: StudyState) -> str:
    """Return the words for checkpoints that a later run with more trials needs, and how to drop them; empty if none."""
    kept = kept_for_later(state)
    known = [state.usage.sizes[checkpoint] for checkpoint in kept if checkpoint in state.usage.sizes]
    return kept_words(len(kept), sum(known), is_least=len(known) < len(kept))


def kept_words(count: int, size_bytes: int, *, is_least: bool = False) -> str:
    """Return the words for checkpoints of paused trials of a search that is over; empty if there are none.

    Args:
        count: how many they are.
        size_bytes: of them all.
        is_least: whether some have more, whose sizes are not known.
    """
    if not count:
        return ""
    least = "at least " if is_least else ""
    return (
        f"{many(count, 'checkpoint')} of paused trials ({least}{size(size_bytes)}) kept for a run with more trials; "
        "Checkpoints(keep_paused=False) drops them when a run ends"
    )


def of_pack(event: PackMeasured) -> str:
    """Return the report of the runner of a pack; empty if it has no more than those of earlier versions."""
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
    """Return the conclusion from the times, if one training alone is among them."""
    seconds = dict(event.seconds)
    if len(seconds) < 2 or 1 not in seconds:
        return ""
    best = fastest(seconds)
    return "; each trains alone, since that is as fast" if best == 1 else f"; {best} together gain most of these"


def of_others_packs(event: PacksTimed) -> str:
    """Return the sentence on packs known before the study had trained one."""
    best = fastest(dict(event.seconds))
    most = "each trains alone" if best == 1 else f"{best} train together"
    return f"study {event.study!r} had timed packs of its structure on {event.device}: {most}"


def _of_memory(memory: PackMemory | None) -> str:
    """Return how many trainings fit together, as predicted; empty means as many as there may be."""
    if memory is None or most_that_fit(memory) >= MAX_LANES:
        return ""
    return (
        f"; one takes {size(memory.one)} and each further one {size(memory.each)}, so that {most_that_fit(memory)} fit "
        f"into the {size(memory.limit)} that {memory.limited_by} leaves"
    )
