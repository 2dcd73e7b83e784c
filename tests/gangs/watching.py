"""What a test sees of the processes of a study that it runs: how long those of a gang outlive a killed rank, and which
processes and ports are left."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import psutil
import pytest

from asyncsearch import TrialContext
from tests.gangs.searches import Happen, killing

LONGEST_S = 60.0
"""How long a process of a gang may outlive a killed rank: gloo would let some of them wait for half an hour."""
_MARK = "ASYNCSEARCH_TESTED_STUDY"


class Watch:
    """Follows the ranks that ``killing`` kills, in a thread. Picklable: it is two paths."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._pids, self._killed = folder / "pids", folder / "killed"
        self._pids.mkdir()
        os.mkfifo(self._killed)

    def killing(self, folder: Path, moments: set[tuple[int, int, int, str]], *, agent: bool = False) -> Happen:
        """Return what kills a rank at each moment, as ``killing`` does, and tells it here before."""
        pids, killed = self._pids, self._killed
        kill = killing(folder, moments, agent=agent)

        def happen(trial: TrialContext, unit: int, where: str) -> None:
            number = trial.params["number"]
            if where == "start":  # all ranks have written theirs once they have met
                (pids / f"{number}-{trial.rank}").write_text(str(os.getpid()))
            moment = "-".join(map(str, (number, unit, trial.rank, where)))
            if (number, unit, trial.rank, where) in moments and not (folder / moment).exists():
                ranks = [(pids / f"{number}-{rank}").read_text() for rank in range(trial.world_size)]
                with killed.open("a") as told:
                    told.write(" ".join([moment, *ranks]) + "\n")
            kill(trial, unit, where)

        return happen

    @contextlib.contextmanager
    def following(self) -> Iterator[dict[str, float]]:
        """Yield how long its gang has outlived each killed rank: moment -> seconds, complete at the end."""
        found: dict[str, float] = {}
        with os.fdopen(os.open(self._killed, os.O_RDWR), "r+b", buffering=0) as lines:
            reader = threading.Thread(target=_follow, args=(lines, found), daemon=True)
            reader.start()
            try:
                yield found
            finally:
                lines.write(b"\n")
                reader.join()


def _follow(lines: IO[bytes], found: dict[str, float]) -> None:
    while words := lines.readline().decode().split():
        moment, *pids = words
        found[moment] = _seconds_to_the_end(map(int, pids))


def _seconds_to_the_end(pids: Iterable[int]) -> float:
    """Return how long it takes until processes have ended, or as long as was waited for them."""
    begin, left = time.monotonic(), [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    while (left := [one for one in left if _is_alive(one)]) and time.monotonic() - begin < 2 * LONGEST_S:
        time.sleep(0.02)  # a process of another one cannot be waited for; nothing depends on how long this is
    return time.monotonic() - begin


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextlib.contextmanager
def nothing_left(mark: str) -> Iterator[None]:
    """Require that what runs inside leaves no process, whoever is its parent, and no port on which this one listens."""
    before = _ports()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(_MARK, mark)
        yield
        assert not _marked(mark), "a process is left"
        assert _ports() <= before, "a port is left"


def _marked(mark: str) -> list[psutil.Process]:
    """Return the processes that have inherited a mark, this one excepted."""
    others = [one for one in psutil.process_iter() if one.pid != os.getpid()]
    return [one for one in others if _mark_of(one) == mark and _is_alive(one)]


def _mark_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(_MARK)
    except psutil.Error:  # another user's, or gone
        return None


def _ports() -> set[int]:
    """Return the ports on which this process listens; one of an ended process is closed."""
    process = psutil.Process()
    connections = getattr(process, "net_connections", None) or process.connections  # its name before psutil 6
    return {one.laddr.port for one in connections("tcp") if one.status == psutil.CONN_LISTEN}
