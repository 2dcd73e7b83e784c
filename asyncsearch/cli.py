"""The command line: show, explain, resume and simulate studies. ``asyncsearch --help`` lists the commands.

Rule: a command imports what it needs itself, so that reading a study does not wait for the modules that run one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from asyncsearch._version import __version__
from asyncsearch.errors import AsyncSearchError, NoTrialsError, UsageError
from asyncsearch.ids import parse_trial
from asyncsearch.report.plain_text import csv_text, json_text, log_lines, printable
from asyncsearch.trial import Trial, TrialState

if TYPE_CHECKING:
    from asyncsearch.shared.cleaning import Item
    from asyncsearch.study.results import Results

EXAMPLES = """\
examples:
  asyncsearch show studies/digits                       print the state of the study
  asyncsearch trials studies/digits --sort value        list its trials, best first
  asyncsearch trials studies/digits --state failed      list only those that failed
  asyncsearch trials studies/digits --format csv        list all trials for other programs
  asyncsearch logs studies/digits trial-7 --follow      follow the output of a trial
  asyncsearch explain studies/digits trial-7            explain why it was paused, promoted or stopped
  asyncsearch tree studies/digits --output tree.svg     draw what is trained once for several trials
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        options = _parser().parse_args(arguments)
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
    except KeyboardInterrupt:
        print("asyncsearch: interrupted", file=sys.stderr)
        return 130
    return code or 0


def _answer(arguments: Sequence[str]) -> None:
    """Print the command to write instead of one that was refused, if it is known."""
    from asyncsearch.report.shell_answers import answer_to

    answer = answer_to(arguments)
    if answer:
        print(f"write: {answer}", file=sys.stderr)


def _complain(error: Exception, code: int) -> int:
    # A traceback in one line could not be read.
    words = str(error) if "Traceback (most recent call last)" in str(error) else " ".join(str(error).split())
    print(f"asyncsearch: {printable(words)}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="asyncsearch",
        description="Asynchronous hyper-parameter search: inspect studies and resume them.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"asyncsearch {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    _command(commands, "show", _show, "print the state of a study: counts, best trial, training saved", "store")

    trials = _command(commands, "trials", _trials, "list the trials of a study", "store")
    trials.add_argument("--sort", choices=sorted(_KEYS), default="id", help="sort key (default: id)")
    trials.add_argument("--state", type=_state, metavar="STATE", help=f"only those that are {_STATES}")
    trials.add_argument("--limit", type=_whole, metavar="N", help="at most N trials (default: all)")
    trials.add_argument("--format", choices=("table", "csv", "json"), default="table", help="default: table")

    logs = _command(commands, "logs", _logs, "print the output of a trial", "store", "trial")
    logs.add_argument("--follow", "-f", action="store_true", help="continue until the trial or the run has ended")

    _command(commands, "explain", _explain, "explain what happened to a trial, and why", "store", "trial")

    tree = _command(commands, "tree", _tree, "show which training several trials share, and what it saves", "store")
    tree.add_argument("--output", "-o", metavar="FILE.svg", help="write a picture (default: print the main branches)")

    resume = _command(commands, "resume", _resume, "continue a study where its journal ends (runs its code)", "store")
    total = "total number of trials, earlier ones included (default: that of the last run)"
    resume.add_argument("--num-trials", type=_whole, metavar="N", help=total)
    resume.add_argument("--parallelism", type=_whole, metavar="K", help="workers (default: one for each slot)")
    resume.add_argument(
        "--backend", choices=("auto", "spark", "processes", "inline"), help="default: that of the study"
    )
    resume.add_argument("--timeout", type=float, metavar="SECONDS", help="end the run after this time")
    resume.add_argument("--logs", action="store_true", help="print the output of the trials")

    preview = _command(commands, "preview", _preview, "estimate the training of a search (runs the script's top level)")
    preview.add_argument("script", metavar="SCRIPT", help="a Python file that defines `study` or `make_study()`")
    preview.add_argument("--num-trials", type=_whole, metavar="N", help="total number of trials")
    preview.add_argument(
        "--parallelism", type=_whole, metavar="K", help="workers (default: as many as a run would have)"
    )
    preview.add_argument("--seconds-per-unit", type=float, metavar="S", help="duration of a unit of training")

    duration = "estimate how long a study would have taken with other numbers of workers"
    simulate = _command(commands, "simulate", _simulate, duration, "store")
    numbers = "numbers of workers, separated by commas (default: 1,2,4,8,16)"
    simulate.add_argument("--workers", type=_wholes, metavar="1,2,4", help=numbers)

    check = _command(commands, "check", _check, "train, pause and resume a trainable and compare bit by bit (runs it)")
    trainer = "script.py:Class, package.module:Class, or a script.py with a study; a function is allowed, too"
    check.add_argument("trainer", metavar="TRAINER", help=trainer)
    values = "hyper-parameters as a JSON object (default: a sample from the space of the study in the script)"
    check.add_argument("--params", metavar="JSON", help=values)
    check.add_argument("--units", type=_whole, default=4, metavar="N", help="units to train (default: 4)")
    check.add_argument("--cut", type=_whole, metavar="N", help="unit at which to pause (default: half of them)")
    check.add_argument("--in-process", action="store_true", help="use one process: faster, but detects less")

    cleaner = _command(commands, "clean", _clean, "remove unreachable files from a store or a shared folder")
    cleaner.add_argument("store", metavar="STORE", help="folder or URL of a study, or of a shared folder (.../plan)")
    cleaner.add_argument("--dry-run", action="store_true", help="print what would be removed, and change nothing")
    cleaner.add_argument("--quota", metavar="SIZE", help="stop once the checkpoints take at most SIZE: 10GB, 500MB")
    cleaner.add_argument("--older-than", metavar="AGE", help="only checkpoints unused for AGE: 30d, 12h")

    doctor = _command(commands, "doctor", _doctor, "look at what a search would run on: machine, Spark, store")
    doctor.add_argument("store", metavar="STORE", nargs="?", help="where a study is, or would be (default: none)")
    asked = "ask the executors of a Spark session, too; always done under spark-submit"
    doctor.add_argument("--spark", action="store_true", help=asked)
    limit = "time that the executors have to answer (default: 300)"
    doctor.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS", help=limit)
    return parser


_COMMON = {"store": "folder or URL of the study", "trial": "trial-7, or 7"}
"""Help on arguments that several commands have."""


def _command(
    commands: Any, name: str, function: Callable[[Any], int | None], words: str, *common: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=words, description=f"{words[0].upper()}{words[1:]}."
    )
    parser.set_defaults(command=function)
    for argument in common:
        parser.add_argument(argument, metavar=argument.upper(), help=_COMMON[argument])
    return parser


_STATE_WORDS = (*(state.words for state in TrialState), "to be continued")
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


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def _wholes(text: str) -> tuple[int, ...]:
    return tuple(_whole(part.strip()) for part in text.split(","))


def _opened(store: str) -> Results:
    from asyncsearch.study.results import open_results

    return open_results(store)


def _show(options: argparse.Namespace) -> None:
    print(printable(_opened(options.store).summary()))


_KEYS: dict[str, Callable[[Trial, int], Any]] = {
    "id": lambda trial, sign: trial.id,
    "resource": lambda trial, sign: (-trial.resource, trial.id),
    "state": lambda trial, sign: (list(TrialState).index(trial.state), trial.id),
    "value": lambda trial, sign: (trial.value is None, sign * (trial.value or 0.0), trial.id),
}
"""Sort keys of trials; ``sign`` is 1 if the metric is minimised, else -1."""


def _trials(options: argparse.Namespace) -> None:
    from asyncsearch.report.dataframe import trial_rows
    from asyncsearch.report.live.status import row_of
    from asyncsearch.report.live.table import grid

    study = _opened(options.store)
    sign = 1 if study.config.mode == "min" else -1
    words = study._status().words
    # A finished search says "stopped early" of trials that are PAUSED in its journal: both words find them.
    chosen = [trial for trial in study.trials if options.state in (None, words(trial.state), trial.state.words)]
    chosen.sort(key=lambda trial: _KEYS[options.sort](trial, sign))
    chosen = chosen[: options.limit]
    if options.format == "json":
        print(json_text(trial_rows(chosen)))
    elif options.format == "csv":
        print(csv_text(trial_rows(chosen), "trial"))
    else:
        try:
            best = study.best_trial.name
        except NoTrialsError:
            best = ""
        print("\n".join(grid(study.config.metric, [row_of(trial) for trial in chosen], best, words)))


def _logs(options: argparse.Namespace) -> None:
    from asyncsearch.report.follow_logs import follow

    study = _opened(options.store)
    lines = follow(study.store, parse_trial(options.trial)) if options.follow else study.logs(options.trial)
    for line in log_lines(lines):
        print(line, flush=options.follow)


def _explain(options: argparse.Namespace) -> None:
    print(printable(_opened(options.store).explain(options.trial)))


def _tree(options: argparse.Namespace) -> None:
    tree = _opened(options.store).tree()
    if options.output is None:
        print(printable(str(tree)))
        return
    try:
        path = tree.save(options.output)
    except OSError as error:
        raise UsageError(
            f"{options.output} cannot be written: {error}. Name a writable file, --output tree.svg."
        ) from error
    print(printable(f"{tree.summary}\nwritten to {path}"))


def _resume(options: argparse.Namespace) -> None:
    from asyncsearch.journal.opening import read_records
    from asyncsearch.journal.projection import last_total
    from asyncsearch.study.study import Study

    study = Study.resume(options.store, backend=options.backend)
    total = options.num_trials if options.num_trials is not None else last_total(read_records(study.store))
    study.run(total, parallelism=options.parallelism, timeout=options.timeout, logs=options.logs)


def _preview(options: argparse.Namespace) -> None:
    from asyncsearch.study.scripts import study_of_script

    study, run = study_of_script(options.script)
    total = run.num_trials if options.num_trials is None else options.num_trials
    if total is None and study._begin_searcher().length() is None:
        raise UsageError(
            f"{options.script!r} does not say how many trials: write "
            f"asyncsearch preview {options.script} --num-trials 64."
        )
    parallelism = run.parallelism if options.parallelism is None else options.parallelism
    found = study.preview(total, parallelism=parallelism, seconds_per_unit=options.seconds_per_unit)
    print(printable(str(found)))


def _simulate(options: argparse.Namespace) -> None:
    from asyncsearch.report.live.progress import announced
    from asyncsearch.report.what_if.worker_counts import WORKERS, what_if
    from asyncsearch.study.study import Study

    workers = options.workers or WORKERS
    with announced(f"simulating {options.store} with {', '.join(map(str, workers))} workers ..."):
        words = str(what_if(Study.resume(options.store), workers))
    print(printable(words))


def _clean(options: argparse.Namespace) -> None:
    from asyncsearch.report import cleaning_lines
    from asyncsearch.shared.cleaning import Limits, clean
    from asyncsearch.store import open_store

    quota = None if options.quota is None else cleaning_lines.parse_size(options.quota)
    older_than = None if options.older_than is None else cleaning_lines.parse_age(options.older_than)

    def notify(item: Item) -> None:
        print(printable(cleaning_lines.line(item, options.dry_run)))

    done = clean(open_store(options.store), Limits(quota, older_than), dry_run=options.dry_run, notify=notify)
    print(cleaning_lines.totals(done, options.dry_run))


def _check(options: argparse.Namespace) -> int:
    from asyncsearch.checking import check
    from asyncsearch.randomness import generator
    from asyncsearch.study.scripts import trainable_of

    trainable, study = trainable_of(options.trainer)
    params = {} if study is None else study.space.sample(generator(study.config.seed, "check", 0))
    result = check(
        trainable,
        params | _params_of(options.params),
        units=options.units,
        cut=options.cut,
        seed=0 if study is None else study.config.seed,
        functions=None if study is None else study.space.custom_functions,
        processes=not options.in_process,
    )
    print(printable(str(result)))
    return 0 if result else 1


def _doctor(options: argparse.Namespace) -> int:
    from asyncsearch.doctor import examine

    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit sets it
    found = examine(options.store, spark=options.spark or is_submitted, timeout_s=options.timeout)
    print(printable(str(found)))
    return 0 if found else 1


def _params_of(text: str | None) -> dict[str, Any]:
    try:
        params = json.loads(text or "{}")
    except ValueError as error:
        raise UsageError(f"--params {text} is not JSON ({error}): write --params '{{\"lr\": 0.1}}'.") from None
    if not isinstance(params, dict):
        raise UsageError(f"--params {text} is not a JSON object: write --params '{{\"lr\": 0.1}}'.")
    return params
