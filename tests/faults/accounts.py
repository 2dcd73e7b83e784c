"""What must hold for a search of ASHA whatever befell it, and what that cost."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Sequence

from asyncsearch import Study
from asyncsearch.events import AnyEvent, DriverStarted, Reported, WorkerLost
from asyncsearch.journal.opening import read_records
from asyncsearch.trial import TrialState
from tests.schedulers.journal_oracle import require_legal_promotions
from tests.system.tools import PATIENCE_S

MAX_LOSSES = 3
"""Of ``EngineConfig``, as ``docs/failures.md`` names it."""
KEPT = {TrialState.PAUSED, TrialState.COMPLETED}


def losses(study: Study) -> list[WorkerLost]:
    """Return the workers that the journal says were lost."""
    return [record.event for record in read_records(study.store) if isinstance(record.event, WorkerLost)]


def wait_until(study: Study, is_awaited: Callable[[AnyEvent], bool]) -> None:
    """Read the journal of a running study until it holds an event."""
    deadline = time.monotonic() + PATIENCE_S
    while not any(is_awaited(record.event) for record in read_records(study.store)):
        assert time.monotonic() < deadline, "the journal has no such event"
        time.sleep(0.02)  # a file cannot be waited for; nothing depends on how long this is


def wasted(study: Study) -> int:
    """Return the units that were trained more than once, and those that nobody has."""
    return sum(trial.trained - trial.resource for trial in study.trials)


def require_accounted(study: Study, configurations: Sequence[object], levels: Sequence[int]) -> None:
    """Each configuration has a trial that is finished, or paused by a rule; no report is missing, none came twice.

    A trial may have failed only if its worker was lost more often than a trial's may be.
    """
    assert [trial.params["x"] for trial in study.trials] == list(configurations)
    assert all(trial.state in KEPT or trial.losses > MAX_LOSSES for trial in study.trials)
    assert all(trial.failures == 0 for trial in study.trials), "no trial is charged for what was done to it"
    for trial in study.trials:
        assert [resource for resource, _ in study.history(trial)] == list(range(1, trial.resource + 1)), trial.name
    records = list(read_records(study.store))
    require_legal_promotions(records, levels)
    reports = [(r.event.lease, r.event.lane, r.event.resource) for r in records if isinstance(r.event, Reported)]
    assert len(reports) == len(set(reports)), "a report came twice"
    pairs = itertools.pairwise(records)
    assert all(one.t <= other.t or isinstance(other.event, DriverStarted) for one, other in pairs), "time went back"


def say(line: str) -> None:
    """Print a line, and append it to the file that ASYNCSEARCH_SAID names: pytest keeps what passing tests print."""
    sys.stdout.write(f"{line}\n")
    if path := os.environ.get("ASYNCSEARCH_SAID"):
        with open(path, "a") as file:
            file.write(f"{line}\n")


def tell(name: str, study: Study, undisturbed: Study | None) -> None:
    """Print what a fault cost, beside a search without it if there was one."""
    drivers = sum(isinstance(record.event, DriverStarted) for record in read_records(study.store))
    beside = f"; undisturbed: {units(undisturbed)} units" if undisturbed is not None else ""
    say(
        f"{name}: {len(study.trials)} trials, {units(study)} units trained, {wasted(study)} of them wasted, "
        f"{len(losses(study))} workers lost, {drivers} drivers{beside}"
    )


def units(study: Study) -> int:
    return sum(trial.trained for trial in study.trials)
