"""Texts for failed trainings. The last line names the cause: it becomes the trial's reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asyncsearch.arguments import as_unicode
from asyncsearch.errors import AsyncSearchError, CannotPauseError, CheckpointError, is_bug
from asyncsearch.trainable import ReportError

if TYPE_CHECKING:
    from traceback import TracebackException

_PACKAGE = Path(__file__).parent.parent
_OWN = tuple(
    str(_PACKAGE / part) for part in ("runner", "trainable.py", "launch/inline_runner.py", "launch/threads", "checking")
)
"""Where the code between the runner and the user's lies."""
_HEAD_CHARS, _TAIL_CHARS = 4_000, 12_000
_CAUSE_CHARS, _CAUSES = 300, 3


class NoReportError(ReportError):
    """A trial ended without any report."""


class UnreadableCheckpointError(CheckpointError):
    """The checkpoint that a training goes on from is not whole: it falls back, as on one that cannot be fetched."""


_KINDS: tuple[tuple[type[BaseException], str], ...] = (
    (CannotPauseError, "cannot_pause"),
    (UnreadableCheckpointError, "checkpoint"),
    (NoReportError, "no_report"),
    (ReportError, "bad_report"),
    (SystemExit, "exit"),
)


def kind_of(error: BaseException) -> str:
    """Return the ``error_kind`` of an exception."""
    kinds = (kind for error_class, kind in _KINDS if isinstance(error, error_class))
    return next(kinds, as_unicode(type(error).__name__))


def exception_text(error: BaseException) -> str:
    """Return the traceback of an exception without asyncsearch's own frames."""
    try:
        import traceback

        found = traceback.TracebackException.from_exception(error)
        # An answer to the user's own call, such as state= with what cannot be saved, belongs to the line of that call.
        is_answer = isinstance(error, AsyncSearchError)
        _drop_own_frames(found, (str(_PACKAGE),) if is_answer else _OWN)
        is_on_return = is_answer and not is_bug(error) and _is_own(found, str(_PACKAGE))
        text = "".join(found.format_exception_only() if is_on_return else found.format()).rstrip()
        if (cause := _cause(found)) != " ".join(text.splitlines()[-1].split()):
            text += f"\n{cause if len(cause) <= _CAUSE_CHARS else cause[: _CAUSE_CHARS - 3] + '...'}"
    except Exception as second:  # no memory is left, or the exception's own __str__ fails
        text = f"{type(error).__name__} (its traceback could not be written: {type(second).__name__})"
    if isinstance(error, SystemExit):
        text += f"\nThe trainable called sys.exit({error.code!r}); a trial ends by returning."
    return shortened(text)


def with_last_lines(text: str, lines: Sequence[str]) -> str:
    """Put the last lines that a trial printed before the text of its failure."""
    if not lines:
        return text
    printed = shortened("\n".join(f"  {line}" for line in lines))
    return f"The last lines that it printed:\n{printed}\n\n{text}"


def shortened(text: str) -> str:
    """Cut the middle out of a text that is too long, and escape lone surrogates."""
    text = as_unicode(text)
    if len(text) <= _HEAD_CHARS + _TAIL_CHARS:
        return text
    left_out = len(text) - _HEAD_CHARS - _TAIL_CHARS
    return f"{text[:_HEAD_CHARS]}\n... {left_out:,} characters left out ...\n{text[-_TAIL_CHARS:]}"


def _cause(found: TracebackException) -> str:
    """Return an exception in one line: its text may have many, with advice, notes or a stack at its end.

    Of a group of exceptions, the first ones in it are named too.
    """
    inside: list[str] = []
    named, waiting = _headline(found), list(getattr(found, "exceptions", None) or ())
    while waiting and len(inside) < _CAUSES:
        one = waiting.pop(0)
        within = list(getattr(one, "exceptions", None) or ())
        waiting[:0] = within
        inside += [] if within else [_headline(one)]
    return ": ".join([named, "; ".join(inside)] if inside else [named])


def _headline(found: TracebackException) -> str:
    """Return its kind and message in one line; those of a syntax error come after its code, which is indented."""
    return " ".join(next((part for part in found.format_exception_only() if part[:1] != " "), "").split())


def _is_own(found: TracebackException, own: str) -> bool:
    """Return whether no frame of an error is the user's: it is about the value that the function returned."""
    return all(frame.filename.startswith(own) for frame in found.stack)


def _drop_own_frames(found: TracebackException | None, own: tuple[str, ...]) -> None:
    seen: set[int] = set()
    waiting = [found]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        users = [frame for frame in one.stack if not frame.filename.startswith(own)]
        if users:  # else it is a bug of asyncsearch, whose frames show the cause
            one.stack[:] = users
        waiting += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]
