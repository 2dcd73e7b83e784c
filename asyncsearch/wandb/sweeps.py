"""``wandb.sweep``: a sweep's dictionary, read whole before anything starts."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asyncsearch.arguments import positive, yes_or_no
from asyncsearch.checked_calls import answering
from asyncsearch.errors import UsageError
from asyncsearch.files.plain import read_file
from asyncsearch.schedulers.asha import ASHA
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.schedulers.fifo import FIFO
from asyncsearch.searchers import GridSearch, OptunaSearch, RandomSearch
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.space import Space
from asyncsearch.wandb.bands import BandStopping, bands_of
from asyncsearch.wandb.distributions import SweepDomain
from asyncsearch.wandb.run_function import STEP
from asyncsearch.wandb.spaces import space_of

_EXAMPLE = (
    "wandb.sweep({'method': 'random', 'metric': {'name': 'loss', 'goal': 'minimize'}, "
    "'parameters': {'lr': {'min': 0.0, 'max': 0.1}}})"
)
_KEYS = (
    "command",
    "description",
    "early_terminate",
    "entity",
    "method",
    "metric",
    "name",
    "parameters",
    "program",
    "project",
    "run_cap",
)


@dataclass
class Sweep:
    """A sweep as it was described, and how many runs were asked for."""

    name: str
    space: Space
    searcher: Searcher
    scheduler: Scheduler
    metric: str
    mode: str
    project: str = ""
    entity: str = ""
    description: str = ""
    is_lenient: bool = False
    """Whether it asks for the form of hyperband that stops fewer runs, ``strict: false``, which is not here."""
    program: str = ""
    command: tuple[str, ...] = ()
    run_cap: int | None = None
    folder: str = ""
    """Where it lies. Empty before its first run."""
    asked: int = 0


_sweeps: dict[str, Sweep] = {}


@answering("wandb.sweep", _EXAMPLE)
def sweep(sweep: Any, entity: str | None = None, project: str | None = None) -> str:
    """Describe a sweep; nothing is started and nothing leaves this machine.

    Args:
        sweep: the dictionary, or a function that returns it, or the path of its YAML file.
        entity: for ``wandb.init`` in the runs, where they are online or are synchronised later.
        project: likewise.

    Returns:
        The sweep's id in this process, for ``wandb.agent``.

    Raises:
        UsageError: an entry breaks its rule; the message names it.
    """
    described = parse(_read(sweep))
    described.entity, described.project = entity or described.entity, project or described.project
    number = f"{described.name}-{len(_sweeps) + 1}"
    _sweeps[number] = described
    return number


def sweep_of(sweep_id: Any) -> Sweep:
    """Return the sweep of an id, also as ``entity/project/id``.

    Raises:
        UsageError: there is none in this process.
    """
    found = _sweeps.get(str(sweep_id).rpartition("/")[2])
    if found is None:
        raise UsageError(
            f"There is no sweep {sweep_id!r} in this process, and those of a server are out of reach: describe it by "
            f"{_EXAMPLE}, and give what that returns to wandb.agent."
        )
    return found


def _read(given: Any) -> Mapping[str, Any]:
    if callable(given):
        given = given()
    if isinstance(given, str | Path):
        if not Path(given).is_file():
            raise UsageError(f"sweep={str(given)!r}: there is no such file; give its path, or the dictionary itself.")
        try:
            import yaml
        except ImportError as error:
            raise UsageError(f"{given} is read with PyYAML: pip install pyyaml, or give the dictionary.") from error
        given = yaml.safe_load(read_file(given))
    if not isinstance(given, Mapping):
        raise UsageError(f"A sweep is a dictionary: write {_EXAMPLE}.")
    return given


def parse(given: Mapping[str, Any]) -> Sweep:
    """Return the sweep that a dictionary describes.

    Raises:
        UsageError: an entry breaks its rule, or has no counterpart.
    """
    unknown = [key for key in given if key not in _KEYS]
    if unknown:
        near = difflib.get_close_matches(str(unknown[0]), _KEYS, 1)
        what = f"write {near[0]!r}" if near else f"leave it out; there is {', '.join(_KEYS)}"
        raise UsageError(f"A sweep has no entry {unknown[0]!r} here: {what}.")
    space = space_of(given.get("parameters"))
    is_judged = given.get("method") == "bayes" or given.get("early_terminate") is not None
    metric, mode = _metric(given.get("metric"), is_needed=is_judged)
    run_cap = given.get("run_cap")
    return Sweep(
        name=str(given.get("name") or "sweep"),
        space=space,
        searcher=_searcher(given.get("method"), space),
        scheduler=_scheduler(given.get("early_terminate")),
        metric=metric,
        mode=mode,
        project=str(given.get("project") or ""),
        entity=str(given.get("entity") or ""),
        description=str(given.get("description") or ""),
        is_lenient=dict(given.get("early_terminate") or {}).get("strict") is False,
        program=str(given.get("program") or ""),
        command=_command(given.get("command")),
        run_cap=None if run_cap is None else positive("run_cap", run_cap),
    )


def _metric(given: Any, *, is_needed: bool) -> tuple[str, str]:
    """Return the metric and the mode; a sweep that only tries points may have none, and then counts its logs."""
    if given is None and not is_needed:
        return STEP, "max"
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        raise UsageError("A sweep needs a metric: write 'metric': {'name': 'val_loss', 'goal': 'minimize'}.")
    others = [key for key in given if key not in ("name", "goal")]
    if others:
        raise UsageError(f"metric: {others[0]!r} has no effect here: leave it out.")
    goal = given.get("goal", "minimize")
    if goal not in ("minimize", "maximize"):
        raise UsageError(f"metric: goal={goal!r}: write 'minimize' or 'maximize'.")
    return given["name"], "min" if goal == "minimize" else "max"


def _searcher(method: Any, space: Space) -> Searcher:
    if method == "random":
        return RandomSearch()
    if method == "grid":
        weighted = [name for name, domain in space.parameters.items() if getattr(domain, "weights", None) is not None]
        if weighted:
            raise UsageError(f"method 'grid' tries every value of {weighted[0]!r} once: leave 'probabilities' out.")
        endless = [name for name, domain in space.parameters.items() if domain.size is None]
        if endless:
            raise UsageError(f"method 'grid': {endless[0]!r} has no list of values: write values, or method 'random'.")
        return GridSearch()
    if method == "bayes":
        other = [
            name
            for name, domain in space.parameters.items()
            if isinstance(domain, SweepDomain) or getattr(domain, "weights", None) is not None
        ]
        if other:
            raise UsageError(
                f"method 'bayes': the model knows no {space.parameters[other[0]].call()} of {other[0]!r}: write a "
                "uniform, int_uniform or log_uniform_values range, or method 'random'."
            )
        return OptunaSearch("tpe")
    raise UsageError(f"method={method!r}: write 'random', 'grid' or 'bayes'.")


def _scheduler(given: Any) -> Scheduler:
    """Return the rule that stops runs: ASHA's stopping variant, whose rungs are the sweep's bands."""
    if given is None:
        return FIFO()
    if not isinstance(given, Mapping) or given.get("type") != "hyperband":
        raise UsageError(f"early_terminate={given!r}: write {{'type': 'hyperband', 'min_iter': 3}}.")
    entry = {key: value for key, value in given.items() if key != "type"}
    yes_or_no("early_terminate: strict", entry.pop("strict", False))  # at a band a run is judged by its value there
    eta = positive("early_terminate: eta", entry.pop("eta", 3))
    if eta < 2:
        raise UsageError(f"early_terminate: eta={eta} lets every run go on: write 2 or more.")
    first, found = 1, tuple[int, ...]()
    if "min_iter" in entry and "max_iter" not in entry:
        first = positive("early_terminate: min_iter", entry.pop("min_iter"))
    elif {"max_iter", "s"} <= entry.keys() and "min_iter" not in entry:
        last, bands = positive("max_iter", entry.pop("max_iter")), positive("s", entry.pop("s"))
        found = bands_of(last, bands, eta)
        if not found:
            raise UsageError(f"early_terminate: max_iter={last} has no band of eta={eta} below it: write a larger one.")
    else:
        raise UsageError("early_terminate: write either min_iter, or max_iter with s (the number of bands).")
    if entry:
        raise UsageError(f"early_terminate: {next(iter(entry))!r} has no effect here: leave it out.")
    if found:
        return BandStopping(bands=found, eta=eta)
    return ASHA(min_resource=first, reduction_factor=eta, variant="stopping")


def _command(given: Any) -> tuple[str, ...]:
    if given is None:
        return ()
    if not isinstance(given, list | tuple) or not given:
        raise UsageError(f"command={given!r}: write a list, as ['${{env}}', 'python', '${{program}}', '${{args}}'].")
    return tuple(map(str, given))
