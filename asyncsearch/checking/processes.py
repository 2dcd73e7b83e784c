"""Steps of a check in processes of their own, started as runners are: never a fork, nothing inherited but the path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import cloudpickle

from asyncsearch.agent.devices import runner_environment
from asyncsearch.checking.training_runs import Task, name_of
from asyncsearch.errors import UsageError
from asyncsearch.launch.bundle import pack
from asyncsearch.trainable import WithFunctions

_SHOWN_LINES = 12


def in_child(task: Task, step: str, frameworks: list[str]) -> tuple[Any, list[str]]:
    """Carry out a step in a process of its own.

    Args:
        task: what is checked.
        step: a key of ``proof.STEPS``.
        frameworks: what to import first, so that its generators can be stirred.

    Returns:
        What the step returned, as JSON; and the frameworks that the trainable had imported.

    Raises:
        UsageError: the trainable fails by itself, or as it is sent.
    """
    with tempfile.TemporaryDirectory(dir=task.folder) as folder:
        place = Path(folder)
        wrapped = WithFunctions(task.trainable, task.functions) if task.functions else task.trainable
        (place / "trainable").write_bytes(pack(wrapped).data)
        rest: tuple[Any, ...] = (task.params, task.seed, task.units, task.cut, {}, task.folder)
        (place / "task").write_bytes(cloudpickle.dumps((rest, step, frameworks)))
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
                f"{name_of(task.trainable)} fails by itself in a process of its own (exit code {done.returncode}); "
                "mend that first. The end of what it said:\n" + "\n".join(lines)
            )
        answer = json.loads(result.read_bytes())
        return answer["result"], answer["frameworks"]
