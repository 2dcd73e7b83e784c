"""The command line: show, explain, resume and simulate studies. ``asyncsearch --help`` lists the commands.

    parser.py    what may be written             commands.py  what is done

Rule: a command imports what it needs itself, so that reading a study does not wait for the modules that run one.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Callable, Sequence

from asyncsearch.cli.parser import make_parser
from asyncsearch.errors import AsyncSearchError, NoTrialsError, UsageError
from asyncsearch.report.formatting import printable


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what its encoding lacks is escaped
            stream.reconfigure(errors="backslashreplace")
    try:
        options = make_parser().parse_args(arguments)
    except SystemExit as ended:
        if ended.code == 2:
            _answer(sys.argv[1:] if arguments is None else arguments)
        raise
    command: Callable[[argparse.Namespace], int | None] = options.command
    code = None
    try:
        code = command(options)
        sys.stdout.flush()
    except UsageError as error:
        return _complain(error, 1 if isinstance(error, NoTrialsError) else 2)
    except AsyncSearchError as error:
        return _complain(error, 1)
    except BrokenPipeError:
        # The reader has closed the pipe. Without this, Python would fail again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        return _complain(f"{error}: set a higher limit on open files, `ulimit -n 256`, and start it again.", 1)
    except KeyboardInterrupt:
        print("asyncsearch: interrupted", file=sys.stderr)
        return 130
    return code or 0


def _answer(arguments: Sequence[str]) -> None:
    """Print the command to write instead of one that was refused, if it is known."""
    from asyncsearch.other_libraries.commands import answer_on_command

    answer = answer_on_command(arguments)
    if answer:
        print(f"write: {answer}", file=sys.stderr)


def _complain(error: Exception | str, code: int) -> int:
    # A traceback in one line could not be read.
    words = str(error) if "Traceback (most recent call last)" in str(error) else " ".join(str(error).split())
    print(f"asyncsearch: {printable(words)}", file=sys.stderr)
    return code
