"""A sweep's ``program``: each trial is a process with the parameters as its arguments, which logs by wandb."""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from asyncsearch.errors import UsageError
from asyncsearch.trainable import TrialContext
from asyncsearch.trial import Params
from asyncsearch.wandb import logged, small_wandb
from asyncsearch.wandb.run_function import RunReports, environment_of

_USUAL = ("${env}", "${interpreter}", "${program}", "${args}")
_GRACE_S = 5.0
_MACRO = re.compile(r"\$\{([^}]*)\}")
_WHOLE = ("args", "args_no_hyphens", "args_no_boolean_flags")
"""Macros that stand for several arguments."""


class SweepProgram:
    """A command as a function of asyncsearch's trial."""

    def __init__(self, program: str, command: tuple[str, ...], metric: str, environment: Mapping[str, str]) -> None:
        """Take a command; ``program`` is a path on every worker."""
        self._program, self._command = program, command or _USUAL
        self._metric, self._environment = metric, dict(environment)
        self.__name__ = self.__qualname__ = Path(program).stem or "program"
        arguments_of(self._command, program, {}, "")

    def __call__(self, trial: TrialContext) -> None:
        reports = RunReports(trial, self._metric)
        with tempfile.TemporaryDirectory() as folder:
            command = arguments_of(self._command, self._program, trial.params, folder)
            environment = {**os.environ, **environment_of(trial, folder, self._environment), **_hooked(folder)}
            code = _run(command, environment, reports)
        if code != 0:
            raise UsageError(
                f"{' '.join(command)} ended with exit status {code}; what it printed is in the trial's log."
            )
        reports.end({})


def _run(command: list[str], environment: dict[str, str], reports: RunReports) -> int:
    """Run a command, and answer each of its logs once the trial may go on; end it if the trial is to stop."""
    (lines, logs), (answers, answer) = os.pipe(), os.pipe()
    environment = {**environment, logged.PIPES: f"{logs},{answers}"}
    try:
        process = subprocess.Popen(command, env=environment, pass_fds=(logs, answers), stdin=subprocess.DEVNULL)
    finally:
        os.close(logs)
        os.close(answers)
    try:
        with os.fdopen(lines, "rb") as received, os.fdopen(answer, "wb", buffering=0) as permits:
            _follow(received, permits, reports)
        return process.wait()
    finally:
        _end(process)


def _follow(received: BinaryIO, permits: Any, reports: RunReports) -> None:
    for line in received:
        reports.take(*json.loads(line))
        try:
            permits.write(b"\n")
        except BrokenPipeError:
            return


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _hooked(folder: str) -> dict[str, str]:
    """Write into a folder what a Python program imports at its start, and return the variable that lets it."""
    (Path(folder) / "sitecustomize.py").write_text(inspect.getsource(logged), encoding="utf-8")
    (Path(folder) / logged.SMALL).write_text(inspect.getsource(small_wandb), encoding="utf-8")
    paths = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths)}


def arguments_of(command: tuple[str, ...], program: str, params: Params, folder: str) -> list[str]:
    """Return a command with its macros replaced, as ``wandb agent`` does.

    Raises:
        UsageError: a macro is not known.
    """
    found: list[str] = []
    for part in command:
        whole = _MACRO.fullmatch(part)
        if whole and whole[1] in _WHOLE:
            found += _flags(whole[1], params)
        elif not (whole and whole[1] == "env" and not Path("/usr/bin/env").exists()):
            found.append(_MACRO.sub(lambda one: _value(one[1], program, params, folder), part))
    return found


def _flags(macro: str, params: Params) -> list[str]:
    if macro == "args_no_hyphens":
        return [f"{name}={_shown(value)}" for name, value in params.items()]
    found = []
    for name, value in params.items():
        if macro == "args_no_boolean_flags" and isinstance(value, bool):
            found += [f"--{name}"] if value else []
        else:
            found.append(f"--{name}={_shown(value)}")
    return found


def _shown(value: Any) -> str:
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _value(macro: str, program: str, params: Params, folder: str) -> str:
    if macro.startswith("envvar:"):
        return os.environ.get(macro.removeprefix("envvar:"), "")
    if macro == "args_json_file":
        path = Path(folder) / "args.json"
        if folder:
            path.write_text(json.dumps(params), encoding="utf-8")
        return str(path)
    known = {"env": "/usr/bin/env", "interpreter": sys.executable, "program": program, "args_json": json.dumps(params)}
    if macro not in known:
        there = ", ".join(f"${{{one}}}" for one in (*known, *_WHOLE, "args_json_file", "envvar:NAME"))
        raise UsageError(f"command: ${{{macro}}} is not known here: write one of {there}.")
    return known[macro]
