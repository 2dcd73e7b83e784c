"""Who is charged with the death of a runner in the middle of a training, and the words for it. Pure.

The trial is charged with what its process did: it exited, crashed, or used up the memory. What was done to it from
outside is the machine's doing. A process that sends SIGKILL or SIGTERM to itself cannot be told from one that gets it.
"""

from __future__ import annotations

import signal

import msgspec

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.agent.lane_run import LaneRun
from asyncsearch.agent.out_of_memory import OomKills
from asyncsearch.events import KILLED, MEMORY_KINDS, Outcome

OUT_OF_MEMORY = "out_of_memory"
_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT}
_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT}
_MIB = 1024 * 1024


class Death(msgspec.Struct, frozen=True):
    """The end of a runner."""

    returncode: int
    """Exit code as in ``subprocess``, negative for a signal."""
    peak_bytes: int
    """The most memory that it held; 0: unknown."""
    kills: OomKills
    """What the kernel killed for want of memory when it ended."""
    is_overdue: bool
    """Whether it was killed because it had closed its channel, or did not retire in time."""
    was_ready: bool
    """Whether it had loaded the trainable."""


def charge(run: LaneRun, death: Death, config: WorkerConfig) -> tuple[Outcome, str, str]:
    """Return the outcome, the error and the ``error_kind`` of a lane that the runner trained when it died."""
    if run.is_killed:
        text = (
            f"It did not heed its stop ({run.stop_reason}) within {config.stop_grace_s:g} s, nor SIGTERM "
            f"within {config.kill_grace_s:g} s more, and was killed."
        )
        return Outcome.STOPPED, text, "unheeded_stop"
    if run.stop_reason is not None:
        return Outcome.STOPPED, "", ""
    if death.is_overdue:
        text = "The trial's process cut itself off: does it close, or write to, descriptors that it did not open?"
        return Outcome.FAILED, text, KILLED if run.is_packed else "exit"
    kind, text = cause_of_death(death.returncode, death.peak_bytes, death.kills)
    if run.is_packed and kind not in MEMORY_KINDS:
        kind, text = KILLED, f"{text}\nThe process that it shared with other trainings ended."  # whose doing?
    return Outcome.FAILED, text, kind


def cause_of_death(returncode: int, peak_bytes: int, kills: OomKills) -> tuple[str, str]:
    """Return ``error_kind`` and text for a runner that ended in the middle of a training.

    Args:
        returncode: exit code as in ``subprocess``, negative for a signal.
        peak_bytes: the most memory that it held; 0: unknown.
        kills: what the kernel killed for want of memory when it ended.
    """
    if returncode >= 0:
        return "exit", f"The trial's process exited with code {returncode} in the middle of the training."
    number = -returncode
    name = _name_of(number)
    if number == signal.SIGKILL and kills.in_cgroup:
        return OUT_OF_MEMORY, _out_of_memory(peak_bytes, kills.limit_bytes)
    if number in _OUTSIDE:
        return KILLED, f"its process was killed by {name}{_doubt(number, peak_bytes, kills)}"
    crash = "; compiled code crashed" if number in _CRASHES else ""
    return "signal", f"The trial's process was killed by {name}{crash}."


def _out_of_memory(peak_bytes: int, limit_bytes: int | None) -> str:
    held = f": it held {_mib(peak_bytes)} at most" if peak_bytes else ""
    limit = f", and all processes of its cgroup may hold {_mib(limit_bytes)}" if limit_bytes else ""
    return (
        f"The kernel killed the trial's process because memory ran out{held}{limit}. Let it use less, such as by a "
        "smaller batch, or give the worker more."
    )


def _doubt(number: int, peak_bytes: int, kills: OomKills) -> str:
    """Return what is known of the one who killed it: memory that runs out kills by SIGKILL alone."""
    if number != signal.SIGKILL or kills.in_cgroup == 0:
        return " from outside"
    held = f" (it held {_mib(peak_bytes)} at most)" if peak_bytes else ""
    if kills.on_machine == 0:
        return f" from outside{held}"
    return f"; memory may have run out{held}"


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _mib(size: int) -> str:
    return f"{size / _MIB:,.0f} MiB"
