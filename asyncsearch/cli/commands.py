"""The commands, each a function of its parsed arguments; those that return a number end with it as exit code."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from asyncsearch.errors import NoTrialsError, UsageError
from asyncsearch.ids import parse_trial, trial_name
from asyncsearch.report.formatting import command, csv_text, json_text, many, printable, size
from asyncsearch.sequences import Sequence
from asyncsearch.trial import Trial, TrialState
from asyncsearch.values import spell

if TYPE_CHECKING:
    from pathlib import Path

    from asyncsearch.shared.cleaning import Cleaning, Item
    from asyncsearch.study.results import Results


_FOLLOW_S = 5.0
"""Between two looks at a study that runs."""


def _opened(store: str) -> Results:
    from asyncsearch.study.results import open_results

    return open_results(store)


def show(options: argparse.Namespace) -> None:
    """Print the state of a study."""
    print(printable(_opened(options.store).summary()))


SORT_KEYS: dict[str, Callable[[Trial, float | None, int], Any]] = {
    "id": lambda trial, value, sign: trial.id,
    "resource": lambda trial, value, sign: (-trial.resource, trial.id),
    "state": lambda trial, value, sign: (list(TrialState).index(trial.state), trial.id),
    "value": lambda trial, value, sign: (value is None, sign * (value or 0.0), trial.id),
}
"""Sort keys of trials and the values that rank them; ``sign`` is 1 if the metric is minimised, else -1."""


def trials(options: argparse.Namespace) -> None:
    """List trials, as a table or for other programs."""
    from asyncsearch.report.dataframe import column_names, trial_rows
    from asyncsearch.report.live.lines import unshown_line
    from asyncsearch.report.live.status_of import row_of
    from asyncsearch.report.live.table import grid

    study = _opened(options.store)
    sign, rank_by = 1 if study.config.mode == "min" else -1, study.config.rank_by
    status = study._status()
    words = status.words
    # A finished search says "stopped early" of trials that are PAUSED in its journal: both words find them.
    chosen = [trial for trial in study.trials if options.state in (None, words(trial.state), trial.state.words)]
    chosen.sort(key=lambda trial: SORT_KEYS[options.sort](trial, trial.ranked_value(rank_by), sign))
    chosen = chosen[: options.limit]
    metric = study.config.metric
    found = trial_rows(chosen, metric)
    if options.format == "json":
        rows = [{name: _as_in_the_journal(value) for name, value in row.items()} for row in found]
        print(json_text(rows, sys.stdout.encoding or "ascii"))
    elif options.format == "csv":
        print(csv_text(found, column_names(found)))
    else:
        shown = [row_of(trial, status.is_unfinished, rank_by=rank_by) for trial in chosen]
        print("\n".join(grid(status.value_heading, shown, status.marked, words, status.others)))
        if status.unshown:
            print(f"  {unshown_line(status)}")


def _as_in_the_journal(value: Any) -> Any:
    """Return a JSON value: it has no NaN, for which other programs would refuse the whole list, and no schedules."""
    if isinstance(value, Sequence):
        return value.to_json()
    return spell(value) if isinstance(value, float) else value


def logs(options: argparse.Namespace) -> None:
    """Print the output of a trial."""
    from asyncsearch.report.live.shown_logs import follow, log_lines

    study = _opened(options.store)
    lines = follow(study.store, parse_trial(options.trial)) if options.follow else study.logs(options.trial)
    is_empty = True
    for line in log_lines(lines):
        is_empty = False
        print(line, flush=options.follow)
    if is_empty:
        name = trial_name(parse_trial(options.trial))
        words = f"{name} has printed nothing; what it did: {command('explain', options.store, name)}"
        sys.stderr.write(f"{printable(words)}\n")


def explain(options: argparse.Namespace) -> None:
    """Print the story of a trial, with reasons."""
    print(printable(_opened(options.store).explain(options.trial)))


def tree(options: argparse.Namespace) -> None:
    """Print or draw which training trials share."""
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


def tensorboard(options: argparse.Namespace) -> None:
    """Write event files for TensorBoard; with ``--follow`` until no driver has the study open."""
    study = _opened(options.store)
    path: Path | None = None
    is_running = True
    while is_running:
        is_running = options.follow and study.store.is_locked()  # first: what comes later is looked at next time
        written = _event_files(study, options.logdir, may_be_empty=is_running)
        if written is not None and path is None:
            path = written
            words = f"written to {path}; look at it: tensorboard --logdir {shlex.quote(str(path))}"
            print(printable(words), flush=True)
        if is_running:
            time.sleep(_FOLLOW_S)


def _event_files(study: Results, logdir: str | None, *, may_be_empty: bool) -> Path | None:
    """Write event files and return their folder. None if no trial has begun yet, and one may begin."""
    try:
        return study.tensorboard(logdir)
    except NoTrialsError:
        if not may_be_empty:
            raise
        return None


def _count_of_trials(store: str) -> int:
    try:
        return len(_opened(store).trials)
    except NoTrialsError:
        return 0


def resume(options: argparse.Namespace) -> None:
    """Go on with a study."""
    from asyncsearch.journal.opening import read_records, read_study_file
    from asyncsearch.journal.projection import last_total
    from asyncsearch.study.kept.definition import edit_words
    from asyncsearch.study.runnable import too_few
    from asyncsearch.study.study import Study

    study = Study.resume(options.store, backend=options.backend)
    if (file := read_study_file(study.store)) is not None:
        print(printable(edit_words(file)), flush=True)
    total = options.num_trials
    if total is None:
        with study.store.lock():  # without it, what a driver appended that has died is not read from every store
            total = last_total(read_records(study.store))
    elif (there := _count_of_trials(options.store)) > total:
        sys.stderr.write(f"{too_few(f'--num-trials {total}', total, there, '--num-trials ')}\n")
        total = there  # else the run says it again in Python's words
    study.run(total, parallelism=options.parallelism, timeout=options.timeout, logs=options.logs)


def preview(options: argparse.Namespace) -> None:
    """Print the cost of the search of a script."""
    from asyncsearch.study.study import proposals_of
    from asyncsearch.study.user_scripts import study_of_script

    study, run = study_of_script(options.script, to_run=options.num_trials is None)
    total = run.num_trials if options.num_trials is None else options.num_trials
    if total is None and proposals_of(study) is None:
        raise UsageError(
            f"{options.script!r} does not say how many trials: write "
            f"asyncsearch preview {options.script} --num-trials 64."
        )
    parallelism = run.parallelism if options.parallelism is None else options.parallelism
    packs = {"pack": options.pack, "pack_speedup": options.pack_speedup}
    found = study.preview(total, parallelism=parallelism, seconds_per_unit=options.seconds_per_unit, **packs)
    print(printable(str(found)))


def simulate(options: argparse.Namespace) -> None:
    """Print how long a study would have taken with other numbers of workers."""
    from asyncsearch.report.live.display import announced
    from asyncsearch.report.what_if.worker_counts import WORKERS, what_if
    from asyncsearch.study.study import Study

    workers = options.workers or WORKERS
    with announced(f"simulating {options.store} with {', '.join(map(str, workers))} workers ..."):
        study = Study.resume(options.store)
        words = str(what_if(study, workers, pack=options.pack, pack_speedup=options.pack_speedup))
    print(printable(words))


def clean(options: argparse.Namespace) -> None:
    """Remove all that nothing can reach, or list it."""
    from asyncsearch.report.formatting import parse_age, parse_size
    from asyncsearch.shared.cleaning import Limits, clean
    from asyncsearch.store import open_store

    quota = None if options.quota is None else parse_size(options.quota)
    older_than = None if options.older_than is None else parse_age(options.older_than)

    def notify(item: Item) -> None:
        print(printable(cleaned_line(item, options.dry_run)))

    roots = [open_store(root).shown for root in options.homes]
    done = clean(
        open_store(options.store), Limits(quota, older_than), dry_run=options.dry_run, notify=notify, roots=roots
    )
    print(cleaned_totals(done, options.dry_run))


def cleaned_line(item: Item, dry_run: bool) -> str:
    """Return a line on the end of one item, and its reason."""
    verb = "would remove" if dry_run else "removed"
    return f"{verb} {item.kind} {item.name}, {size(item.size_bytes)}: {item.why}"


def cleaned_totals(cleaning: Cleaning, dry_run: bool) -> str:
    """Return how much was removed and how much stays."""
    from asyncsearch.report.together_words import kept_words

    amounts, sizes = Counter[str](), Counter[str]()
    for item in cleaning.gone:
        amounts[item.kind] += 1
        sizes[item.kind] += item.size_bytes
    parts = [f"{many(amounts[kind], kind)} ({size(sizes[kind])})" for kind in sorted(amounts)]
    verb = "would remove" if dry_run else "removed"
    came = f"; {many(len(cleaning.stayed), 'item')} became needed meanwhile" if cleaning.stayed else ""
    stay = f"{many(cleaning.kept, 'checkpoint')} ({size(cleaning.kept_bytes)})"
    later = kept_words(cleaning.for_later, cleaning.for_later_bytes)
    later = f", among them {later}" if later else ""
    return f"{verb} {', '.join(parts) or 'nothing'}{came}; {stay} {'stays' if cleaning.kept == 1 else 'stay'}{later}"


def check(options: argparse.Namespace) -> int:
    """Pause and resume a trainable, and compare bit by bit; 1: it differs."""
    from asyncsearch.checking import check
    from asyncsearch.randomness import generator
    from asyncsearch.study.user_scripts import trainable_of

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


def doctor(options: argparse.Namespace) -> int:
    """Examine the machine, the executors and the store of a search. 1 if something is to be mended."""
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
