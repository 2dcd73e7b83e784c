"""The charge for the death of a runner in the middle of a training, and the words for it.

The trial is charged with what its process did: it exited, crashed, or used up the memory. What was done to it from
outside is the machine's doing. The kernel counts what it killed because memory ran out: Linux for each cgroup, and for
the whole machine; other systems say nothing. A process that sends SIGKILL or SIGTERM to itself cannot be told from one
that gets it.
"""

from __future__ import annotations

import re
import signal
import time
from collections import deque
from pathlib import Path

import msgspec

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.agent.lane_run import LaneRun
from asyncsearch.events import KILLED, MEMORY_KINDS, Outcome
from asyncsearch.runner.process.kernel_files import events_file_of, limit_of, text_of

OUT_OF_MEMORY = "out_of_memory"
_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT}
_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT}
_MIB = 1024 * 1024


class Death(msgspec.Struct, frozen=True):
    """The end of a runner."""

    returncode: int
    """Exit code as in ``subprocess``, negative for a signal."""
    peak_bytes: int
    """The most memory that it held. 0 if unknown."""
    kills: OomKills
    """Processes that the kernel killed for want of memory when it ended."""
    is_overdue: bool
    """Whether it was killed because it had closed its channel, or did not retire in time."""
    left: str = ""
    """Words on a thread that was left to itself, since it cannot be killed. Empty for a process."""
    over_bytes: int = 0
    """What it held when it was killed for holding more than a trial may. 0 if it was not."""


def charge(run: LaneRun, death: Death, config: WorkerConfig) -> tuple[Outcome, str, str]:
    """Return the outcome, the error and the ``error_kind`` of a lane that the runner trained when it died."""
    if death.left:
        return (
            (Outcome.STOPPED, death.left, "unheeded_stop") if run.stop_reason else (Outcome.FAILED, death.left, "exit")
        )
    if run.is_killed:
        text = (
            f"It did not heed its stop ({run.stop_reason}) within {config.stop_grace_s:g} s, nor SIGTERM "
            f"within {config.kill_grace_s:g} s more, and was killed."
        )
        return Outcome.STOPPED, text, "unheeded_stop"
    if run.stop_reason is not None:
        return Outcome.STOPPED, "", ""
    if death.over_bytes:
        of = "The trainings of its process" if run.is_packed else "The trial"
        text = (
            f"{of} held {_mib(death.over_bytes)} with the processes that it started, more than trial_memory="
            f"{config.trial_bytes} ({_mib(config.trial_bytes or 0)}), and was ended. Raise "
            "WorkerOptions(trial_memory=...), or let it use less."
        )
        return Outcome.FAILED, text, OUT_OF_MEMORY
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
        peak_bytes: the most memory that it held. 0 if unknown.
        kills: of the kernel, for want of memory, when it ended.
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
    """Return words on the killer: memory that runs out kills by SIGKILL alone."""
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


_SAMPLE_S = 0.5
"""Time between two samples. A death is compared with the last but one: the kernel counts before a process ends."""
_STALE_S = 10.0
"""Age at which a sample says nothing any more: in between something else may have been killed."""
_MACHINE = Path("/proc/vmstat")
_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_Counts = dict[Path, int]


class OomKills(msgspec.Struct, frozen=True):
    """How many processes the kernel killed for want of memory in the last moments. None if it does not say."""

    in_cgroup: int | None = None
    """In the cgroup of the runner, in which all processes of the worker are."""
    on_machine: int | None = None
    limit_bytes: int | None = None
    """Memory that the cgroup may use. None if there is no limit, or it is not known."""


class OomCounters:
    """The kernel's counters for one process."""

    def __init__(self, pid: int) -> None:
        """Find the counters; called while the process lives."""
        self._cgroup = events_file_of(pid)
        self._files = [file for file in (self._cgroup, _MACHINE) if file is not None]
        self._samples: deque[tuple[float, _Counts]] = deque(maxlen=2)

    def look(self) -> None:
        """Take a sample, unless the last one is recent; called at the start of a training and now and then in it."""
        now = time.monotonic()
        last_s = self._samples[-1][0] if self._samples else -_STALE_S
        if now < last_s + _SAMPLE_S:
            return
        if now > last_s + _STALE_S:
            self._samples.clear()
        self._samples.append((now, self._counts()))

    def kills(self) -> OomKills:
        """Return the kills since the last sample but one; called once the process is dead."""
        if not self._samples:
            return OomKills()
        before, now = self._samples[0][1], self._counts()
        new = {file: count - before[file] for file, count in now.items() if file in before}
        in_cgroup = None if self._cgroup is None else new.get(self._cgroup)
        return OomKills(in_cgroup, new.get(_MACHINE), None if self._cgroup is None else limit_of(self._cgroup))

    def _counts(self) -> _Counts:
        found = {file: _KILLS.search(text_of(file)) for file in self._files}
        return {file: int(match[1]) for file, match in found.items() if match is not None}
