"""Steps of a check in separate processes, started like runners: never by a fork; they inherit only the path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from asyncsearch import errors
from asyncsearch.agent.devices import runner_environment
from asyncsearch.checking.training_runs import Task, name_of
from asyncsearch.errors import UsageError
from asyncsearch.launch.bundle import pack
from asyncsearch.launch.value_pickler import dumps
from asyncsearch.trainable import WithFunctions

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
