"""One training inside the runner: call the user's function, and return its outcome."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from asyncsearch.arguments import metric_in_call
from asyncsearch.errors import UsageError
from asyncsearch.events import KILLED, Outcome
from asyncsearch.runner.agent_link import AgentLink
from asyncsearch.runner.context import SearchContext
from asyncsearch.runner.failures import NoReportError, exception_text, kind_of
from asyncsearch.runner.link import Link
from asyncsearch.runner.metrics import as_metrics, as_number
from asyncsearch.runner.process.process_state import rank_connections
from asyncsearch.runner.process.signals import SigtermGuard
from asyncsearch.runner.protocol import Ended, GangSeat, Train
from asyncsearch.runner.state_copies import StateWriter
from asyncsearch.trainable import ReportError, TrainFunction, TrialStopped
from asyncsearch.trainable.context import StoppedItself


def run_training(
    function: TrainFunction,
    train: Train,
    link: Link,
    interrupts: SigtermGuard,
    metric: str,
    untrusted: str = "",
    copies: StateWriter | None = None,
) -> Ended:
    """Train a batch of stages, whatever the user's function does except ending the process."""
    context = context_of(train, link, metric, untrusted, copies)
    try:
        return msgspec.structs.replace(_run(function, context, interrupts, metric), lane=train.lane)
    finally:
        context.close()


def context_of(
    train: Train, link: Link, metric: str, untrusted: str = "", copies: StateWriter | None = None
) -> SearchContext:
    """Return the trial of a lane; ``copies`` copies its last state if the agent allows it and it trains alone."""
    load = None if train.load is None else Path(train.load)
    if train.gang is not None and isinstance(link, AgentLink):
        return _of_gang(train, link, train.gang, load, metric, untrusted)
    awaited = link.awaited_checkpoint if train.awaits_load and isinstance(link, AgentLink) else None
    return SearchContext(
        train.stages,
        link,
        awaited or load,
        untrusted=untrusted,
        place=train.place,
        metric=metric,
        judged=train.judged,
        copies=copies if train.copies else None,
    )


def _of_gang(
    train: Train, link: AgentLink, seat: GangSeat, load: Path | None, metric: str, untrusted: str
) -> SearchContext:
    from asyncsearch.runner.gangs.agreement import GangContext, GangLink

    link.notes.update({(note.rank, note.key): note.value for note in train.notes})
    ranks = GangLink(link, seat)
    return GangContext(
        train.stages, ranks, load, untrusted=untrusted, place=train.place, metric=metric, judged=train.judged
    )


def _run(function: TrainFunction, context: SearchContext, interrupts: SigtermGuard, metric: str) -> Ended:
    error: BaseException | None = None
    try:
        try:
            interrupts.arm()
            if not context.should_stop:
                report_returned(context, function(context), metric, name_and_line(function))
        finally:
            interrupts.disarm()
    except BaseException as caught:  # a trial that exits or interrupts itself must not end the runner
        interrupts.disarm()
        error = caught
    try:
        return ended_by(error, context, interrupts)
    finally:
        # Its traceback names this call, and the call would name it: the model would stay until the garbage collector
        # comes, while the next trial builds another one.
        error = None


def ended_by(error: BaseException | None, context: SearchContext, interrupts: SigtermGuard) -> Ended:
    """Return how a training ended that an error has unwound. None if its function returned."""
    return msgspec.structs.replace(_ended_by(error, context, interrupts), unwritten=context.unwritten)


def _ended_by(error: BaseException | None, context: SearchContext, interrupts: SigtermGuard) -> Ended:
    if context.is_paused:
        return Ended(Outcome.REACHED, context.resource)
    if error is None and not context.should_stop:
        return Ended(Outcome.RETURNED, context.resource, unreported=context.unreported)
    _note_large_folder(context)
    if context.should_stop:
        return Ended(Outcome.STOPPED, context.resource)
    assert error is not None
    if isinstance(error, StoppedItself):
        return Ended(Outcome.RETURNED, context.resource, str(error))
    if context.world_size > 1 and rank_connections.is_lost_rank(error):
        return Ended(Outcome.FAILED, context.resource, f"{_text_of(error, context)}\nanother rank was lost", KILLED)
    if isinstance(error, TrialStopped) and interrupts.is_received:
        return Ended(Outcome.FAILED, context.resource, "its process got SIGTERM from outside", KILLED)
    return Ended(Outcome.FAILED, context.resource, _text_of(error, context), kind_of(error))


def _note_large_folder(context: SearchContext) -> None:
    try:
        context.require_small_folder()
    except (UsageError, OSError) as error:
        _note(f"{error} It is not stored.")


def _text_of(error: BaseException, context: SearchContext) -> str:
    from asyncsearch.other_libraries.trainables import hinted

    return hinted(exception_text(error), error, context.params)


def name_and_line(function: object) -> str:
    """Return the name of the user's function, its file and its line, for messages."""
    inner: object = function
    while inner is not None:
        function = inner
        inner = function.func if isinstance(function, functools.partial) else getattr(function, "__wrapped__", None)
    function = getattr(function, "trainer_class", function)
    plain = getattr(function, "__func__", function)
    code = getattr(plain, "__code__", None) or getattr(vars(type(plain)).get("__call__"), "__code__", None)
    name = getattr(plain, "__qualname__", type(plain).__qualname__)
    return name if code is None else f"{name} ({code.co_filename}, line {code.co_firstlineno})"


def report_returned(context: SearchContext, returned: Any, metric: str, who: str = "the trainable") -> None:
    """Report the function's return value: a mapping, or a number, which is the study's metric.

    Args:
        context: the trial.
        returned: the value.
        metric: the study's own.
        who: the function, for messages.
    """
    if context.is_paused:  # the function swallowed the pause
        return
    context.require_small_folder()
    if returned is None:
        if not context.has_reported and not context.is_resumed:
            raise NoReportError(
                f"{context.name} ended without a report, since {who} reported nothing and returned None: call "
                f"trial.report({metric_in_call(metric)}) in it, or let it return the value of {metric!r}."
            )
        return
    try:
        values = (
            as_metrics(returned, {}, metric) if isinstance(returned, Mapping) else {metric: as_number(metric, returned)}
        )
    except ReportError as error:
        if not context.has_reported:
            raise ReportError(
                f"{context.name} reported nothing, and {who} returned {_in_short(returned)}: {error}"
            ) from None
        _note(f"the function's return value is not reported: {error}")
        return
    context.report_last(values)


def _in_short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _note(text: str) -> None:
    sys.stderr.write(f"asyncsearch: {text}\n")
