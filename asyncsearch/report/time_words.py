"""Where the workers' time went, in words: one line for the table of a study, and tables by worker and by trial."""

from __future__ import annotations

import msgspec

from asyncsearch.ids import trial_name, worker_name
from asyncsearch.report.formatting import aligned, duration, share
from asyncsearch.time_spent.account import KINDS, TimeAccount, TimeSpent

WORDS = {
    "training": "training",
    "evaluating": "evaluating",
    "saving": "saving",
    "loading": "loading checkpoints",
    "entering": "entering functions",
    "starting": "starting processes",
    "verdict": "waiting for verdicts",
    "waiting": "waiting for work",
    "in_vain": "trained in vain",
    "unmeasured": "not measured",
}
"""The kinds of time for people, in the order in which they are shown."""
assert {*WORDS} == {*KINDS}
_SHOWN_TRIALS = 10
_LEAST = 0.005
"""The smallest part of the time that the line names."""


class TimeTable(TimeSpent, frozen=True):
    """Where the workers' time went; ``print`` it. Accounts are in whole milliseconds, so that they add up exactly."""

    @property
    def line(self) -> str:
        """One line: the parts of the time, the largest first; empty if no worker had any."""
        return time_line(self)

    def __str__(self) -> str:
        kinds = [kind for kind in WORDS if getattr(self.total, kind)]
        if not kinds:
            return "no worker has had any time yet"
        rows = [("", "seconds", "share"), *((WORDS[kind], *_amount(self.total, kind)) for kind in kinds)]
        rows.append(("all workers", _seconds(self.total.total), ""))
        costly = sorted(self.by_trial.items(), key=lambda item: (-item[1].total, item[0]))
        shown = dict(costly[:_SHOWN_TRIALS])
        workers = {worker_name(worker): account for worker, account in self.by_worker.items()}
        lines = [*aligned(rows, left=1), "", *_each("worker, seconds", workers, kinds)]
        if shown:
            trials = {trial_name(trial): account for trial, account in shown.items()}
            lines += ["", *_each("trial, seconds", trials, kinds)]
        if more := len(costly) - len(shown):
            lines.append(f"and {more:,} more trials, which took less: by_trial has them")
        return "\n".join(lines)

    __repr__ = __str__


def time_table(found: TimeSpent) -> TimeTable:
    """Return accounts with their words."""
    return TimeTable(**{field: getattr(found, field) for field in msgspec.structs.asdict(found)})


def time_line(found: TimeSpent) -> str:
    """Return "worker time 0:03:12: training 81%, waiting for work 12%, saving 7%"; empty if there is none.

    Where trials were promoted, "; 7 of 8 promotions went on in place" follows.
    """
    total = found.total
    if not total.total:
        return ""
    parts = sorted(WORDS, key=lambda kind: -getattr(total, kind))
    words = [f"{WORDS[kind]} {share(total.share(kind))}" for kind in parts if total.share(kind) >= _LEAST]
    line = f"worker time {duration(total.total / 1000)}: {', '.join(words)}"
    if found.in_place:
        line += f"; {found.in_place:,} of {found.promotions:,} promotions went on in place"
    return line


def _each(heading: str, accounts: dict[str, TimeAccount], kinds: list[str]) -> list[str]:
    heads = (heading, "all", *(kind.replace("_", " ") for kind in kinds))
    rows = [
        (name, _seconds(one.total), *(_cell(getattr(one, kind)) for kind in kinds)) for name, one in accounts.items()
    ]
    return aligned([heads, *rows], left=1)


def _amount(total: TimeAccount, kind: str) -> tuple[str, str]:
    return _seconds(getattr(total, kind)), share(total.share(kind))


def _cell(amount: int) -> str:
    return _seconds(amount) if amount else "-"


def _seconds(amount: int) -> str:
    return f"{amount / 1000:,.3f}"
