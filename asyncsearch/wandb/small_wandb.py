"""The part of wandb that a function of a sweep uses, where wandb is not installed: a run, its config, log and summary.

It imports nothing of asyncsearch, so that a program of a sweep may have it as its ``wandb``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any


class SmallConfig(dict[str, Any]):
    """A configuration: entries are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"The config of this run has no {name!r}; it has {', '.join(self) or 'nothing'}."
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def update(self, *given: Any, **named: Any) -> None:
        """Add entries; ``allow_val_change`` has no effect, since each may change."""
        named.pop("allow_val_change", None)
        super().update(*given, **named)

    def setdefaults(self, given: Mapping[str, Any]) -> None:
        """Add the entries that are not there."""
        for name, value in given.items():
            self.setdefault(name, value)

    def as_dict(self) -> dict[str, Any]:
        """Return a copy."""
        return dict(self)


class SmallRun:
    """A run of which nothing is kept but what reaches the trial."""

    def __init__(self, config: Any) -> None:
        given = vars(config) if hasattr(config, "__dict__") and not isinstance(config, Mapping) else dict(config or {})
        self.config = SmallConfig({**given, **present_params()})
        self.summary: dict[str, Any] = {}
        self.step = 0
        self.id = self.name = os.environ.get("WANDB_RUN_ID", "run")
        self.sweep_id = os.environ.get("WANDB_SWEEP_ID")
        self.dir = os.getcwd()

    def log(self, data: Mapping[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        """Log a dictionary."""
        self.summary.update(data)
        self.step = self.step + 1 if step is None else step

    def watch(self, *given: Any, **named: Any) -> None:
        """Do nothing."""

    unwatch = define_metric = save = alert = log_artifact = mark_preempting = watch

    def finish(self, *given: Any, **named: Any) -> None:
        """End the run."""
        _runs[:] = [one for one in _runs if one is not self]

    def __enter__(self) -> SmallRun:
        return self

    def __exit__(self, *error: Any) -> None:
        self.finish()


_runs: list[SmallRun] = []


def present_params() -> dict[str, Any]:
    """Return the parameters of the sweep's trial, as wandb reads them."""
    path = os.environ.get("WANDB_SWEEP_PARAM_PATH", "")
    if not path:
        return {}
    import json

    with open(path, encoding="utf-8") as file:  # JSON is YAML
        return {name: entry["value"] for name, entry in json.load(file).items() if isinstance(entry, dict)}


def init(*_given: Any, config: Any = None, name: str | None = None, **_named: Any) -> SmallRun:
    """Begin a run, whose config has the parameters of the trial."""
    run = SmallRun(config)
    run.name = name or run.name
    _runs.append(run)
    return run


def log(data: Mapping[str, Any], step: int | None = None, commit: bool | None = None) -> None:
    """Log a dictionary in the present run."""
    _present("log").log(data, step, commit)


def finish(*_given: Any, **_named: Any) -> None:
    """End the present run, if there is one."""
    if _runs:
        _runs[-1].finish()


def login(*_given: Any, **_named: Any) -> bool:
    """Do nothing: sweeps are offline."""
    return True


def _present(what: str) -> SmallRun:
    if not _runs:
        raise RuntimeError(f"wandb.{what}: call wandb.init() first.")
    return _runs[-1]


def __getattr__(name: str) -> Any:
    if name == "run":
        return _runs[-1] if _runs else None
    if name in ("config", "summary", "watch", "define_metric", "save"):
        return getattr(_present(name), name)
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(
        f"wandb is not installed here, and its replacement has no {name!r}: pip install wandb.", name=name
    )


def __dir__() -> Iterator[str]:
    return iter(["config", "define_metric", "finish", "init", "log", "login", "run", "save", "summary", "watch"])
