"""The values that a run logs, on their way to the trial: by a call in this process, or by a pipe from a program.

The source of this module is the ``sitecustomize`` of a sweep's program, so it imports the standard library alone, and
what it does at its import it does in such a program only.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import numbers
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

PIPES = "ASYNCSEARCH_SWEEP_PIPES"
"""Variable of the environment with two descriptors: to write what is logged, and to read that it may go on."""
SMALL = "small_wandb.py"
Listener = Callable[[dict[str, float], bool, Any], None]
"""Gets the numbers that were logged, whether they are complete, and the step that they were logged with, or None."""


def listen(wandb: Any, listener: Listener, name: str = "", params: Mapping[str, Any] | None = None) -> None:
    """Have a listener called for each ``log`` of the runs that ``wandb.init`` begins from now on.

    Args:
        wandb: the module.
        listener: called with what is logged.
        name: of a run that has no name.
        params: of the trial, for the config of the run. None if wandb has them from the environment.
    """
    begin = getattr(wandb.init, "__wrapped__", wandb.init)

    def init(*given: Any, **named: Any) -> Any:
        run = begin(*given, **({"name": name, **named} if name else named))
        if params:
            run.config.update(dict(params), allow_val_change=True)
        log, ending = run.log, "_finish" if hasattr(run, "_finish") else "finish"
        finish, names, defined = getattr(run, ending), set[str](), DefinedSummaries()
        define = getattr(run, "define_metric", None)

        def define_metric(*given: Any, **options: Any) -> Any:
            defined.define(*given, **options)
            return None if define is None else define(*given, **options)

        def logged(data: Any, *more: Any, **options: Any) -> None:
            log(data, *more, **options)
            commit = options.get("commit", more[1] if len(more) > 1 else None)
            found = numbers_in(data)
            found |= defined.added(found)
            names.update(found)
            listener(found, commit is not False, options.get("step", more[0] if more else None))

        def finished(*more: Any, **options: Any) -> Any:
            init.summary = summary = numbers_in(run.summary)  # type: ignore[attr-defined]  # it is gone afterwards
            if only_there := {name: value for name, value in summary.items() if name not in names}:
                with contextlib.suppress(OSError):  # the trial has ended before
                    listener(only_there, False, None)
            return finish(*more, **options)

        for where in (run, wandb):
            where.log, where.define_metric = logged, define_metric
        setattr(run, ending, finished)
        return run

    init.__wrapped__ = begin  # type: ignore[attr-defined]
    wandb.init = init


_SUMMARIES: dict[str, Callable[[list[float]], float]] = {
    "min": lambda state: min(state[0], state[1]),
    "max": lambda state: max(state[0], state[1]),
    "first": lambda state: state[0],
    "last": lambda state: state[1],
}


class DefinedSummaries:
    """What ``define_metric(name, summary=)`` asks for, as metrics ``name.min`` and others, also of a disabled wandb."""

    def __init__(self) -> None:
        self._kinds: dict[str, list[str]] = {}
        self._known: dict[str, float] = {}
        self._sums: dict[str, list[float]] = {}

    def define(self, name: str = "", *_given: Any, summary: Any = None, **_options: Any) -> None:
        """Take a definition; what concerns charts, as ``step_metric``, changes no value."""
        self._kinds[str(name)] = [kind.strip() for kind in str(summary or "").split(",")]

    def added(self, found: Mapping[str, float]) -> dict[str, float]:
        """Return the summaries of the metrics that were logged."""
        made = {}
        for name, value in found.items():
            for kind in self._asked(name):
                key = f"{name}.{kind}"
                if kind == "mean":
                    self._sums.setdefault(name, []).append(value)
                    made[key] = sum(self._sums[name]) / len(self._sums[name])
                elif kind in _SUMMARIES:
                    made[key] = self._known[key] = _SUMMARIES[kind]([self._known.get(key, value), value])
        return made

    def _asked(self, name: str) -> list[str]:
        """Return the kinds of a name: its own, else those of a pattern that ends with an asterisk."""
        if name in self._kinds:
            return self._kinds[name]
        patterns = [one for one in self._kinds if one.endswith("*") and name.startswith(one[:-1])]
        return self._kinds[patterns[0]] if patterns else []


def numbers_in(data: Any, prefix: str = "") -> dict[str, float]:
    """Return the numbers of what was logged, or of a summary; those of nested dictionaries by dotted names."""
    found: dict[str, float] = {}
    for name in data.keys() if _is_group(data) else ():  # a part of a summary has this alone
        key, value = f"{prefix}{name}", data[name]
        if _is_group(value):
            found |= numbers_in(value, f"{key}.")
        elif isinstance(value, numbers.Real):
            found[key] = float(value)
        elif getattr(type(value), "ndim", None) is not None and value.ndim == 0:  # of an array, a tensor
            try:
                found[key] = float(value)
            except (TypeError, ValueError):
                continue
    return found


def _is_group(value: Any) -> bool:
    """Return whether a value has names and values: a dictionary, or a part of wandb's summary, which is none."""
    return isinstance(value, Mapping) or (hasattr(type(value), "keys") and hasattr(type(value), "__getitem__"))


class _PipeListener:
    """Writes a line for each log, and waits until the trial may go on."""

    def __init__(self, writing: int, reading: int) -> None:
        self._writing, self._reading, self._pid = writing, reading, os.getpid()

    def __call__(self, found: dict[str, float], is_complete: bool, step: Any) -> None:
        if os.getpid() != self._pid:  # a process that the program has forked
            return
        line = json.dumps([found, is_complete, None if step is None else int(step)]) + "\n"
        os.write(self._writing, line.encode())
        if not os.read(self._reading, 1):
            raise SystemExit("asyncsearch: the trial of this program has ended.")


class _WandbFinder(importlib.abc.MetaPathFinder):
    """Finds wandb, or else the replacement beside this file, and listens to it."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != "wandb":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("wandb")
        if spec is None or spec.loader is None or spec.origin is None:
            spec = importlib.util.spec_from_file_location("wandb", Path(__file__).with_name(SMALL))
        assert spec is not None, "a file has one"
        assert spec.loader is not None, "a file has one"
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            listen(module, self._listener)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if __name__ == "sitecustomize" and PIPES in os.environ:
    sys.meta_path.insert(0, _WandbFinder(_PipeListener(*map(int, os.environ[PIPES].split(",")))))
