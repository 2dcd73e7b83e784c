"""The facts about a study besides its trials, in lines of plain text; each is empty where there is nothing to say."""

from __future__ import annotations

from asyncsearch.report.formatting import UNIT, command, cut, duration, many, moment, number, share
from asyncsearch.report.live.status import StudyStatus
from asyncsearch.trial import TrialState

WIDTH = 100
_LONGEST_FACT = 400
_SMALL_UNIT_S = 1.0
_SMALL_STUDY = 4
"""Trials a worker below which packing has little to save."""


def title(status: StudyStatus) -> str:
    """Return the name of the study and, if no run is in progress, how and when the last one ended."""
    name = cut(status.name, WIDTH - 40)
    if status.workers_wanted or not status.trials:
        return name
    if status.driver_died_s is not None:
        return f"{name}: {driver_died_words(status.driver_died_s)}"
    if status.elapsed_s is None:
        return f"{name}: {_ended_earlier(status)}"
    time = duration(status.elapsed_s)
    each = f", {status.workers_each} to a trial" if status.workers_each > 1 else ""
    workers = f" on {many(status.workers_had, 'worker')}{_place(status)}{each}" if status.workers_had else ""
    how = "not finished, ended after" if status.is_unfinished else "finished in"
    how = f"{_who_failed(status)}, ended after" if status.is_failed else how
    why = f", as {status.ended_by}" if status.ended_by else ""
    return f"{name}: {how} {time}{workers}{why}"


def driver_died_words(last_s: float) -> str:
    """Return a sentence on a driver that no longer lives, whose last record was written at ``last_s``."""
    return f"not finished, its driver ended without closing it; its last record is of {moment(last_s)}"


def _ended_earlier(status: StudyStatus) -> str:
    """Return "finished on 2026-11-22 at 14:07, after 0:01:12", as far as the journal has it."""
    when = f" on {moment(status.ended_s)}" if status.ended_s is not None else ""
    runs = f" in {status.runs} runs" if status.runs > 1 else ""
    time = f", after {duration(status.total_s)}{runs}" if status.total_s is not None else ""
    if status.is_unfinished or status.is_failed:
        how = _who_failed(status) if status.is_failed else "not finished"
        return f"{how}, ended{when}{time}" if when else how
    return f"finished{when}{time}{'; nothing was left to train' if status.is_idle else ''}"


def _who_failed(status: StudyStatus) -> str:
    return f"{status.who_failed or 'every trial'} failed"


def short_line(status: StudyStatus) -> str:
    """Return one line for a log: time, trials, best."""
    time = "" if status.elapsed_s is None else duration(status.elapsed_s)
    parts = [time, missing_line(status), status.counts_line(), best_line(status), failures_line(status)]
    return cut(" | ".join(filter(None, parts)), 200)


def facts(status: StudyStatus) -> list[str]:
    """Return the facts besides the trials, one on each line."""
    lines = [
        status.scheduler,
        status.counts_line(),
        best_line(status),
        incumbent_line(status),
        unrecorded_line(status),
        early_line(status),
        training_line(status),
        packing_line(status),
        status.time_line,
        workers_line(status),
        gangs_line(status),
        failures_line(status),
        status.kept_for_later,
        status.unread,
        f"stopping: {status.stopping}" if status.stopping else "",
        f"in {status.store}" if status.store else "",
        repeated_line(status),
        continue_line(status),
    ]
    return [cut(line, _LONGEST_FACT) for line in lines if line]


def best_line(status: StudyStatus) -> str:
    """Return "best accuracy 0.98 after 27 units: trial-7"."""
    if status.is_ablation and status.best is not None:
        return "" if status.workers_wanted else "what each component is worth: study.ablation()"
    if (best := status.best) is None:
        nan = f": {many(status.nonfinite, 'trial')} reported NaN or infinity" if status.nonfinite else ""
        return f"no {'finite ' if nan else ''}{status.metric} yet{nan}"
    words = ' (rank_by="best")' if status.rank_by == "best" else ""
    return f"best {status.metric} {number(best.value)} after {many(best.resource, 'unit')}: {best.name}{words}"


def early_line(status: StudyStatus) -> str:
    """Return how a search trains its best trial to the end, if this one has not; else empty."""
    can_finish = status.scheduler.startswith("ASHA(") and "finish_best" not in status.scheduler
    if status.best is None or not (status.is_finished and status.is_best_early and can_finish):
        return ""
    name = status.best.name
    return f"{name}, the best, was stopped early: ASHA(..., finish_best=True) trains the best trial to the end"


def incumbent_line(status: StudyStatus) -> str:
    """Return the best value that any trial ever had; empty if it is the best last value."""
    seen = None if status.is_ablation else status.incumbent
    if seen is None or status.rank_by == "best" or (status.best is not None and status.best.value == seen.value):
        return ""
    when = f"{number(seen.value)} after {many(seen.resource, 'unit')} by {seen.name}"
    return (
        f"best {status.metric} ever reported: {when} (the line above has the best last value; "
        'Study(rank_by="best") ranks by this one)'
    )


def unrecorded_line(status: StudyStatus) -> str:
    """Return how many trials returned a value that is not recorded, and what to change; empty if none did."""
    if not status.unrecorded:
        return ""
    return f"{many(status.unrecorded, 'trial')} returned a value beside the reports, the last {status.last_unrecorded}"


def training_line(status: StudyStatus) -> str:
    """Return the units that were trained, and how much less that is than training every trial to the end."""
    line = f"{many(status.trained, 'unit')} of training"
    if status.saved is not None and status.full is not None:
        line += f", {share(status.saved)} less than training all to the end ({status.full:,})"
    return f"{line}; {UNIT}" if status.trained else line


def packing_line(status: StudyStatus) -> str:
    """Return the effect of packing, or of a search of small trials without it the possible one; else empty."""
    workers, time = max(1, status.workers_had), status.total_s or status.elapsed_s
    if status.packed or not (status.could_pack and status.is_finished and status.trained and time):
        return status.packed
    unit_s = time * workers / status.trained
    if unit_s > _SMALL_UNIT_S or status.trials < _SMALL_STUDY * workers:
        return ""
    return (
        f'its trials are small, {unit_s:.2g} s a unit: Study(pack="auto") trains alike ones together where that is '
        "faster; their values then differ by rounding"
    )


def workers_line(status: StudyStatus) -> str:
    """Return how many workers there are, and the time since the run began; empty between runs."""
    if not (status.workers_wanted and status.has_workers):
        return ""
    time = "" if status.elapsed_s is None else f" after {duration(status.elapsed_s)}"
    each = f", {status.workers_each} to a trial," if status.workers_each > 1 else ""
    larger = f", {', '.join(status.enlarged)}," if status.enlarged else ""
    count = f"{status.workers_alive} of {many(status.workers_wanted, 'worker')}"
    return f"{count}{_place(status)}{each}{larger}{time}{_released(status)}"


def gangs_line(status: StudyStatus) -> str:
    """Return "together: trial-7 on worker-0, worker-2"; empty where each trial has one worker, and between runs."""
    return f"together: {'; '.join(status.gangs)}" if status.gangs and status.workers_wanted else ""


def missing_line(status: StudyStatus) -> str:
    """Return "1 of 2 workers" while some of those that the run wants are missing, else an empty text."""
    if status.workers_alive >= status.workers_wanted:
        return ""
    return f"{status.workers_alive} of {many(status.workers_wanted, 'worker')}{_released(status)}"


def _released(status: StudyStatus) -> str:
    """Return ", 7 gave their slots back until there is work"; empty while none has."""
    if not status.workers_released:
        return ""
    whose = "its slot" if status.workers_released == 1 else "their slots"
    return f", {status.workers_released} gave {whose} back until there is work"


def _place(status: StudyStatus) -> str:
    return f" ({status.place})" if status.place else ""


def repeated_line(status: StudyStatus) -> str:
    """Return how to lose less by an interrupt, if a trial is going to repeat more than one unit; else empty."""
    if status.repeated <= 1:
        return ""
    return (
        f"a trial goes on from its last checkpoint, which repeats up to {many(status.repeated, 'unit')}: "
        "with trial.epochs(state=...) or a save of your own, Study(save_every=1) saves running trials after each unit"
    )


def continue_line(status: StudyStatus) -> str:
    """Return a line on the results of a search that is not finished, and on how to continue it; empty of any other."""
    if not status.is_unfinished:
        return ""
    if status.failures and not status.trained:
        return "no unit was trained; once the code is corrected, run the script again. The code as it was is run by:"
    return "all reports and checkpoints are kept; to go on, run the cell again, or the script with resume=True, or:"


def continue_command(status: StudyStatus) -> str:
    """Return the command that continues a search."""
    return command("resume", status.store or "STORE")


def failures_line(status: StudyStatus) -> str:
    """Return why the last attempt that failed did; empty if none did.

    Attempts are counted only where trials were retried: else each is a failed trial, and those are counted above.
    """
    if not status.failures:
        return ""
    last = f"{status.last_failure} (`asyncsearch explain` has its traceback)" if status.last_failure else ""
    if status.failures == status.counts.get(TrialState.FAILED, 0):
        return f"last failure: {last}" if last else ""
    count = f"{many(status.failures, 'attempt')} of {many(status.failing, 'trial')} failed"
    return f"{count}, the last one {last}" if last else count


def unshown_line(status: StudyStatus) -> str:
    """Return the place of the metrics for which there is no column; empty if each has one."""
    if not status.unshown:
        return ""
    others = "metric is" if status.unshown == 1 else "metrics are"
    return f"{status.unshown:,} more {others} in study.trials_dataframe() and `asyncsearch trials --format csv`"


def head_words(status: StudyStatus, state: TrialState) -> str:
    """Return "was stopped early" or "is to be continued", where no run is in progress; else an empty text."""
    if state is TrialState.PAUSED and status.is_finished:
        return f"was {status.words(state)}"
    return f"is {status.words(state)}" if _is_to_go_on(status, state) else ""


def continue_lines(status: StudyStatus, state: TrialState) -> list[str]:
    """Return lines that say why a trial does not train now, and the command that continues it; else none."""
    if not _is_to_go_on(status, state):
        return []
    died = "" if status.driver_died_s is None else f"The search is {driver_died_words(status.driver_died_s)}. "
    return [f"{died}To go on:", f"    {continue_command(status)}"]


def _is_to_go_on(status: StudyStatus, state: TrialState) -> bool:
    return status.is_unfinished and state in (TrialState.RUNNING, TrialState.WAITING)
