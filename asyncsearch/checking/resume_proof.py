"""The proof: the same training without a break, again with a save in the middle, in two parts, and with evaluations.

The runs are spread over three processes, started like runners and never by a fork, so that state that only the process
holds is noticed: each process starts without it, and the second part of the resumed training is the first run of its
process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from asyncsearch import errors
from asyncsearch.agent.devices import runner_environment
from asyncsearch.checked_calls import answering
from asyncsearch.checking.result import CheckResult, Finding
from asyncsearch.checking.steps import STEPS
from asyncsearch.checking.training_runs import Reports, RunFacts, Task, name_of
from asyncsearch.errors import UsageError
from asyncsearch.launch.bundle import pack
from asyncsearch.launch.value_pickler import dumps
from asyncsearch.report.live.display import announced
from asyncsearch.sequences.base_sequence import Sequence
from asyncsearch.sequences.custom_sequences import functions_in, register
from asyncsearch.sequences.params import replaced
from asyncsearch.space.domains import Domain
from asyncsearch.store.scratch import temporary_folder
from asyncsearch.trainable import Trainable, WithFunctions, as_function
from asyncsearch.trainers.state import global_generators

_NOTED = ("weights", "buffers", "optimizer", "scaler", "generator")
"""Kinds that are worth a note if they are not restored, even without effect in a few units."""
_TRAINED = ("weights|", "buffers|", "optimizer|", "scaler|")
"""Kinds of content that are equal in two runs of a deterministic training."""


@answering("check", "check(train, {'lr': 0.1}, units=4)")
def check(
    trainable: Trainable,
    params: Mapping[str, Any] | None = None,
    *,
    units: int = 4,
    cut: int | None = None,
    seed: int = 0,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    processes: bool = True,
) -> CheckResult:
    """Prove or refute that a paused trainable continues bit by bit as if it had not been paused.

    It trains about five times as long as one trial of ``units`` units, and longer to find the forgotten parts.

    Args:
        trainable: a class derived from ``Trainer``, or a function that calls ``trial.epochs`` with ``state=``
            or with ``save=`` and ``load=``.
        params: the hyper-parameters of the trial; sequences may be among them.
        units: how far to train.
        cut: after how many units to save and to continue in another process; by default half of them.
        seed: seed of the trial.
        functions: the functions that sequences in ``params`` name; needed only if these are written as JSON.
        processes: whether the parts run in separate processes; False: all run in this one, which is faster and proves
            less, since the state of modules is not lost.

    Raises:
        UsageError: units and cut do not fit together, or the trainable itself fails.
        CannotPauseError: the trainable has no save and load.
    """
    _require_values(trainable, params)
    as_function(trainable)
    at = units // 2 if cut is None else cut
    if units < 2:
        raise UsageError(f"units={units}: a training in two parts has at least 2 units, write units=2 or more.")
    if not 1 <= at < units:
        raise UsageError(f"cut={at} must lie between 1 and units - 1 = {units - 1}: one unit at least on both sides.")
    before = global_generators.capture()
    with temporary_folder("check") as folder:
        named = {**functions_in(params), **(functions or {})}
        task = Task(trainable, replaced(params or {}, Sequence.to_json), seed, units, at, named, folder)
        register(named)
        try:
            ask = _in_children(task) if processes else lambda step: STEPS[step](task)
            return _checked(task, _announcing(task, ask))
        except UsageError as error:
            raise error.with_traceback(None) from None  # it is about the trainable: our frames would hide its own
        finally:
            global_generators.restore(before)


def _require_values(trainable: object, params: object) -> None:
    """Refuse a study, and parameters that are no values, before anything is trained."""
    if hasattr(trainable, "trainable") and hasattr(trainable, "space"):
        raise UsageError("check takes the trainable of a study: write check(study.trainable, {'lr': 0.1}).")
    if params is not None and not isinstance(params, Mapping):
        raise UsageError(f"params={params!r} is no mapping of names to values: write check(train, {{'lr': 0.1}}).")
    for key, value in (params or {}).items():
        if isinstance(value, Domain):
            raise UsageError(f"{key}={value!r} is a domain: a check trains with values, write e.g. {{{key!r}: 0.1}}.")


Ask = Callable[[str], Any]
"""Carries out one of ``STEPS``, by its name, in this process or another one."""


_STARTS = {
    "once": "1 of 3: trains {units} units at one go, which is about a fifth of the check",
    "again and first part": "2 of 3: trains {units} units again, and once more with a checkpoint after {cut}",
    "second part and evaluations": "3 of 3: goes on from the checkpoint after {cut}, and trains with more evaluations",
}
_EXPLAINS = "trains it again with one part restored at a time, to name those that make the difference"


def _announcing(task: Task, ask: Ask) -> Ask:
    """Announce each step that takes its time."""

    def asked(step: str) -> Any:
        words = _STARTS.get(step, _EXPLAINS).format(units=task.units, cut=task.cut)
        with announced(f"check of {name_of(task.trainable)}: {words} ..."):
            return ask(step)

    return asked


def _in_children(task: Task) -> Ask:
    frameworks: list[str] = []

    def ask(step: str) -> Any:
        result, loaded = in_child(task, step, frameworks)
        frameworks[:] = loaded
        return result

    return ask


_FACTS = msgspec.json.Decoder(RunFacts)


def _facts(answer: Any) -> RunFacts:
    """Return the answer of a step, from this process or, as JSON, from a child."""
    return _FACTS.decode(msgspec.json.encode(answer))


def _checked(task: Task, ask: Ask) -> CheckResult:
    once = _facts(ask("once"))
    result = CheckResult(name_of(task.trainable), task.units, task.cut, unread=tuple(once.unread))
    again, first = (_facts(part) for part in ask("again and first part"))
    noise = {
        name for name in once.content.keys() | again.content.keys() if once.content.get(name) != again.content.get(name)
    }
    if once.reports != again.reports or any(name.startswith(_TRAINED) for name in noise):
        return replace(result, random=_findings(ask("explain randomness")))
    second, evaluated = (_facts(part) for part in ask("second part and evaluations"))
    if _difference(once, first.reports, first.content, noise):
        result = replace(result, spoiled=_findings(ask("explain saving")))
    resumed = [report for report in first.reports if report[0] <= task.cut] + second.reports
    difference = _difference(once, resumed, second.content, noise)
    if difference:
        result = replace(result, difference=difference, forgotten=_findings(ask("explain resuming")))
    elif isinstance(task.trainable, type):  # for a function it would name the leftover variables of its loop
        result = replace(result, noted=_notes(once.at_cut, again.at_cut, second.at_cut))
    if evaluated.evaluates_alike is None:
        return replace(result, has_evaluation=False)
    if _difference(once, evaluated.reports, evaluated.content, noise) or not evaluated.evaluates_alike:
        result = replace(result, disturbed=_findings(ask("explain evaluation")))
    return result


def _findings(found: list[Any]) -> tuple[Finding, ...]:
    return tuple(Finding(kind, tuple(places), is_proved) for kind, places, is_proved in found)


def _difference(once: RunFacts, reports: Reports, content: Mapping[str, str], noise: set[str]) -> str:
    """Return the first difference in words, or an empty text."""
    mine = dict(reports)
    for resource, metrics in once.reports:
        theirs = mine.get(resource, {})
        for name, value in metrics.items():
            if theirs.get(name) != value:
                other = float.fromhex(theirs[name]) if name in theirs else None
                return f"{name} at unit {resource} is {float.fromhex(value)!r} at one go and {other!r} resumed"
    for name in sorted((once.content.keys() | content.keys()) - noise):
        if once.content.get(name) != content.get(name):
            kind, _, place = name.partition("|")
            return f"the metrics are the same, the last checkpoints differ in {place} ({kind})"
    return ""


def _notes(trained: Mapping[str, str], again: Mapping[str, str], loaded: Mapping[str, str]) -> tuple[Finding, ...]:
    found: dict[str, list[str]] = {}
    for name, digest in trained.items():
        kind, _, place = name.partition("|")
        if kind in _NOTED and again.get(name) == digest and loaded.get(name) != digest:
            found.setdefault(kind, []).append(place)
    return tuple(Finding(kind, tuple(places)) for kind, places in found.items())


_SHOWN_LINES = 12
SCRIPT_PREFIX = "asyncsearch_script_"
"""Begins the names of modules that the command line makes of scripts: one called json.py must not replace json."""


def in_child(task: Task, step: str, frameworks: list[str]) -> tuple[Any, list[str]]:
    """Carry out a step in a separate process.

    Args:
        task: the check.
        step: a key of ``steps.STEPS``.
        frameworks: the frameworks to import first, so that their generators can be seeded.

    Returns:
        The result of the step, as JSON; and the frameworks that the trainable has imported.

    Raises:
        UsageError: the trainable itself fails, or cannot be sent.
        CannotPauseError: it cannot be saved and loaded.
    """
    with tempfile.TemporaryDirectory(dir=task.folder) as folder:
        place = Path(folder)
        wrapped = WithFunctions(task.trainable, task.functions) if task.functions else task.trainable
        packed = pack(wrapped)
        if any(name.startswith(SCRIPT_PREFIX) for name in packed.by_name):
            # Only the process that has run the script has that module.
            words = packed.warnings[0].replace(SCRIPT_PREFIX, "")
            raise UsageError(f"{words} To check it in one process, write --in-process, or processes=False.")
        (place / "trainable").write_bytes(packed.data)
        rest: tuple[Any, ...] = (task.params, task.seed, task.units, task.cut, {}, task.folder)
        (place / "task").write_bytes(dumps((rest, step, frameworks, sys.argv)))
        done = subprocess.run(
            [sys.executable, "-m", "asyncsearch.checking", folder],
            env=runner_environment(os.environ, sys.path, 1, None),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
        )
        result = place / "result.json"
        if done.returncode != 0 or not result.exists():
            lines = done.stderr.rstrip().splitlines()[-_SHOWN_LINES:]
            raise UsageError(
                f"{name_of(task.trainable)} ends a process of its own (exit code {done.returncode}); "
                "correct that first. The end of its output:\n" + "\n".join(lines)
            )
        answer = json.loads(result.read_bytes())
        if "refused" in answer:
            kind, words = answer["refused"]
            raise getattr(errors, kind, UsageError)(words)
        return answer["result"], answer["frameworks"]
