"""The words of the command line: commands, their arguments, and the words of ``--help``."""

from __future__ import annotations

import argparse
import difflib
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

from asyncsearch._version import __version__
from asyncsearch.cli import commands
from asyncsearch.errors import UsageError
from asyncsearch.launch import NAMES
from asyncsearch.report.formatting import parse_age
from asyncsearch.trial import TO_BE_CONTINUED, TrialState

EXAMPLES = """\
examples:
  asyncsearch show studies/digits                       print the state of the study
  asyncsearch trials studies/digits --sort value        list its trials, best first
  asyncsearch trials studies/digits --state failed      list only those that failed
  asyncsearch trials studies/digits --format csv        list all trials for other programs
  asyncsearch logs studies/digits trial-7 --follow      follow the output of a trial
  asyncsearch explain studies/digits trial-7            explain why it was paused, promoted or stopped
  asyncsearch tree studies/digits --output tree.svg     draw what is trained once for several trials
  asyncsearch tensorboard studies/digits --follow       write event files for TensorBoard, until the search ends
  asyncsearch resume studies/digits --num-trials 128    continue where the journal ends
  asyncsearch preview search.py --num-trials 64         estimate the cost of a search before it runs
  asyncsearch simulate studies/digits --workers 4,8,16  estimate its duration with other numbers of workers
  asyncsearch check search.py                           check that a paused trial resumes bit by bit
  asyncsearch clean studies/digits --dry-run            list files that are no longer needed, and their sizes
  asyncsearch doctor hdfs:///studies/digits             look at this machine and a store before a search

STORE is the folder or URL of a study: studies/digits, hdfs:///studies/digits, s3://bucket/digits.
Reading a study runs none of its code and is possible while it runs; `resume`, `preview`, `simulate` and `check` run
its code.

exit codes:
  0  success
  1  the search failed, the store cannot be read, or `check` or `doctor` found a problem
  2  the command is invalid
  130  interrupted; everything trained is kept
"""


_COMMANDS = tuple(dict.fromkeys(re.findall(r"^  asyncsearch (\w+)", EXAMPLES, re.MULTILINE)))
_NO_COMMAND = re.compile(r"argument COMMAND: invalid choice: '(?P<name>.*?)'")


class _Parser(argparse.ArgumentParser):
    """Names the nearest command where one does not exist."""

    def error(self, message: str) -> NoReturn:
        wrong = _NO_COMMAND.match(message)
        if wrong is not None:
            near = difflib.get_close_matches(wrong["name"], _COMMANDS, 1)
            meant = f"did you mean {near[0]}?" if near else f"the commands are {', '.join(_COMMANDS)}"
            message = f"there is no command {wrong['name']!r}: {meant}"
        super().error(message)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser, whose results have the function of the command as ``command``."""
    parser = _Parser(
        prog="asyncsearch",
        description="Asynchronous hyper-parameter search: inspect studies and resume them.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"asyncsearch {__version__}")
    added = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    _command(added, "show", commands.show, "print the state of a study: counts, best trial, training saved", "store")

    trials = _command(added, "trials", commands.trials, "list the trials of a study", "store")
    trials.add_argument("--sort", choices=sorted(commands.SORT_KEYS), default="id", help="sort key (default: id)")
    trials.add_argument("--state", type=_state, metavar="STATE", help=f"only those that are {_STATES}")
    trials.add_argument("--limit", type=_whole, metavar="N", help="at most N trials (default: all)")
    trials.add_argument("--format", choices=("table", "csv", "json"), default="table", help="default: table")

    logs = _command(added, "logs", commands.logs, "print the output of a trial", "store", "trial")
    logs.add_argument("--follow", "-f", action="store_true", help="continue until the trial or the run has ended")

    _command(added, "explain", commands.explain, "explain what happened to a trial, and why", "store", "trial")

    tree = _command(
        added, "tree", commands.tree, "show which training several trials share, and what it saves", "store"
    )
    tree.add_argument("--output", "-o", metavar="FILE.svg", help="write a picture (default: print the main branches)")

    words = "write event files for TensorBoard, with the parameters and metrics of all trials"
    board = _command(added, "tensorboard", commands.tensorboard, words, "store")
    board.add_argument("--logdir", metavar="FOLDER", help="where to (default: tensorboard/<name of the study>)")
    board.add_argument("--follow", "-f", action="store_true", help="add what is new until the search has ended")

    resume = _command(
        added, "resume", commands.resume, "continue a study where its journal ends (runs its code)", "store"
    )
    total = "total number of trials, earlier ones included (default: that of the last run)"
    resume.add_argument("--num-trials", type=_whole, metavar="N", help=total)
    resume.add_argument("--parallelism", type=_whole, metavar="K", help="workers (default: one for each slot)")
    resume.add_argument("--backend", choices=NAMES, help="default: that of the study")
    resume.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="end the run after this time; 10m, 2h")
    resume.add_argument("--logs", action="store_true", help="print the output of the trials")

    preview = _command(
        added, "preview", commands.preview, "estimate the training of a search (runs the script's top level)"
    )
    preview.add_argument("script", metavar="SCRIPT", help="a Python file that defines `study` or `make_study()`")
    preview.add_argument("--num-trials", type=_whole, metavar="N", help="total number of trials")
    preview.add_argument(
        "--parallelism", type=_whole, metavar="K", help="workers (default: as many as a run would have)"
    )
    preview.add_argument("--seconds-per-unit", type=_seconds, metavar="S", help="duration of a unit of training")
    _add_packs(preview)

    duration = "estimate how long a study would have taken with other numbers of workers"
    simulate = _command(added, "simulate", commands.simulate, duration, "store")
    numbers = "numbers of workers, separated by commas (default: 1,2,4,8,16)"
    simulate.add_argument("--workers", type=_wholes, metavar="1,2,4", help=numbers)
    _add_packs(simulate)

    check = _command(
        added, "check", commands.check, "train, pause and resume a trainable and compare bit by bit (runs it)"
    )
    trainer = "script.py:Class, package.module:Class, or a script.py with a study; a function is allowed, too"
    check.add_argument("trainer", metavar="TRAINER", help=trainer)
    values = "hyper-parameters as a JSON object (default: a sample from the space of the study in the script)"
    check.add_argument("--params", metavar="JSON", help=values)
    check.add_argument("--units", type=_whole, default=4, metavar="N", help="units to train (default: 4)")
    check.add_argument("--cut", type=_whole, metavar="N", help="unit at which to pause (default: half of them)")
    check.add_argument("--in-process", action="store_true", help="use one process: faster, but detects less")

    cleaner = _command(added, "clean", commands.clean, "remove unreachable files from a store or a shared folder")
    cleaner.add_argument("store", metavar="STORE", help="folder or URL of a study, or of a shared folder (.../plan)")
    cleaner.add_argument("--dry-run", action="store_true", help="print what would be removed, and change nothing")
    cleaner.add_argument("--quota", metavar="SIZE", help="stop once the checkpoints take at most SIZE: 10GB, 500MB")
    words = "where else the stores of studies lie that may be gone; repeat it for several"
    cleaner.add_argument("--homes", metavar="FOLDER", action="append", default=[], help=words)
    cleaner.add_argument("--older-than", metavar="AGE", help="only checkpoints unused for AGE: 30d, 12h")

    doctor = _command(added, "doctor", commands.doctor, "look at what a search would run on: machine, Spark, store")
    doctor.add_argument("store", metavar="STORE", nargs="?", help="where a study is, or would be (default: none)")
    asked = "ask the executors of a Spark session, too; always done under spark-submit"
    doctor.add_argument("--spark", action="store_true", help=asked)
    limit = "time that the executors have to answer (default: 300)"
    doctor.add_argument("--timeout", type=_seconds, default=300.0, metavar="SECONDS", help=limit)
    return parser


_COMMON = {"store": "folder or URL of the study", "trial": "trial-7, or 7"}
"""Help on arguments that several commands have."""


def _command(
    added: Any, name: str, function: Callable[[Any], int | None], words: str, *common: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = added.add_parser(name, help=words, description=f"{words[0].upper()}{words[1:]}.")
    parser.set_defaults(command=function)
    for argument in common:
        parser.add_argument(argument, metavar=argument.upper(), help=_COMMON[argument])
    return parser


_STATE_WORDS = (*(state.words for state in TrialState), TO_BE_CONTINUED)
"""The states of trials as the tables name them; that module would take too long to import here."""
_STATES = ", ".join(words.replace(" ", "-") for words in _STATE_WORDS)
"""In one piece each, for a shell."""
_FURTHER_STATES = {"finished": "trained to the end", "completed": "trained to the end", "stopped": "stopped early"}


def _state(text: str) -> str:
    words = " ".join(text.lower().replace("-", " ").replace("_", " ").split())
    words = _FURTHER_STATES.get(words, words)
    if words not in _STATE_WORDS:
        raise argparse.ArgumentTypeError(f"{text!r} is no state of a trial: write one of {_STATES}")
    return words


def _seconds(text: str) -> float:
    """Read a time: a number of seconds, or what ``clean --older-than`` takes."""
    try:
        seconds = float(text) if text.strip()[-1:].isdecimal() else parse_age(text)
    except (ValueError, UsageError):
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: write it in seconds, or as 10m or 2h")
    return seconds


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def _add_packs(command: argparse.ArgumentParser) -> None:
    """Let a command say how many trials train together, and what that gains."""
    many = "trials that a worker trains together, or auto (default: as the study); 1: each alone"
    command.add_argument("--pack", type=_pack, metavar="K", help=many)
    gains = "how many times as fast K trials train together (default: as measured in the study)"
    command.add_argument("--pack-speedup", type=_speedups, metavar="8:5.0", help=gains)


def _pack(text: str) -> int | str:
    return text if text == "auto" else _whole(text)


def _speedups(text: str) -> dict[int, float]:
    try:
        return {_whole(lanes.strip()): float(gain) for lanes, gain in (part.split(":") for part in text.split(","))}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of K:GAIN: write e.g. 2:1.8,8:5.0") from None


def _wholes(text: str) -> tuple[int, ...]:
    return tuple(_whole(part.strip()) for part in text.split(","))
