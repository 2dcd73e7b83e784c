"""Errors that are sentences are shown as sentences: nobody needs our frames to mend what they say.

IPython, and Python itself where nobody catches an error, show its text and the line of the user that led to it. Bugs
keep their traceback, and so do errors of the user's own code. The others' tracebacks are in the log, at level DEBUG.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from asyncsearch.errors import AsyncSearchError, is_bug

_log = logging.getLogger(__name__)
_OURS = (str(Path(__file__).parent / "x")[:-1], contextlib.__file__)
"""The package ends with a separator: a folder beside it may begin with its name."""
_RENDER = "_render_traceback_"
"""Method of an exception that IPython calls instead of writing a traceback."""
_FORMER = "_asyncsearch_former"
"""Attribute of the hook set here: it is set once."""


@contextlib.contextmanager
def in_sentences() -> Iterator[None]:
    """Show the errors that leave the block, or the decorated function, as sentences, unless they are bugs."""
    try:
        yield
    except AsyncSearchError as error:
        if not is_bug(error) and not hasattr(error, _RENDER):
            _log.debug("%s was raised here.", type(error).__name__, exc_info=error)
            show_in_words(error)
        raise


def show_in_words(error: BaseException) -> None:
    """Let an error that nobody catches be shown without a traceback. The exit code is as ever."""
    setattr(error, _RENDER, functools.partial(words_of, error))  # no lambda: a process pool pickles errors
    former = sys.excepthook
    if hasattr(former, _FORMER):
        return

    def show(kind: type[BaseException], raised: BaseException, traceback: Any) -> None:
        if hasattr(raised, _RENDER) and isinstance(raised, AsyncSearchError | KeyboardInterrupt):
            sys.stderr.write("\n".join([*getattr(raised, _RENDER)(), ""]))
        else:
            former(kind, raised, traceback)

    setattr(show, _FORMER, former)
    sys.excepthook = show


def words_of(error: BaseException) -> list[str]:
    """Return the text of an error with its notes, and the line of the user's code from which asyncsearch was called."""
    lines = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]
    if isinstance(error, KeyboardInterrupt):
        return lines
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    users = list(itertools.takewhile(lambda frame: not frame.filename.startswith(_OURS), frames))
    return [*lines, *(f'at "{frame.filename}", line {frame.lineno}: {frame.line}' for frame in users[-1:])]


def warn_of_former_name(former: str, name: str, *, last: str, calls: int = 1) -> None:
    """Warn, at the line that called our caller, that a public name has been replaced (docs/stability.md).

    ``last`` is the last minor version that has the former name, ``calls`` how many of our
    calls lie between that line and this one.
    """
    text = f"{former} is now {name}, and goes after asyncsearch {last}. Write {name.rpartition('.')[2]} instead."
    warnings.warn(text, DeprecationWarning, stacklevel=2 + calls)
