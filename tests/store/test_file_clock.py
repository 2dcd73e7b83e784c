"""The clock of a file system: between two probes, on a machine that slept, and for a file that is replaced."""

from __future__ import annotations

import time

import pytest

from asyncsearch.store.base_store import FileInfo
from asyncsearch.store.locks.file_clock import FileClock

THERE_S = 5_000.0
"""The clock of the file system when a test begins; it is far behind that of this machine."""


class Files:
    """A file system with a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed_s = self.slept_s = 0.0
        self.probes = 0
        self.found = {"000001.json": FileInfo(1, THERE_S - 30)}
        here_s, steady_s = time.time(), time.monotonic()
        monkeypatch.setattr(time, "time", lambda: here_s + self.passed_s + self.slept_s)
        monkeypatch.setattr(time, "monotonic", lambda: steady_s + self.passed_s)

    def write(self, path: str, data: bytes) -> None:
        self.probes += 1
        now_s = THERE_S + self.passed_s + self.slept_s
        self.found[path.rpartition("/")[2]] = FileInfo(len(data), now_s)

    def clock(self, reuse_s: float = 0.0) -> FileClock:
        return FileClock(
            self.write, lambda _: self.found, lambda path: self.found.pop(path.rpartition("/")[2]), reuse_s=reuse_s
        )


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Files:
    return Files(monkeypatch)


def test_it_goes_on_between_two_probes(files: Files) -> None:
    clock = files.clock(reuse_s=15)
    assert clock.now_s() == pytest.approx(THERE_S)
    files.passed_s = 14
    assert clock.now_s() == pytest.approx(THERE_S + 14)
    assert clock.age_s("lock/000001.json", 0.0) == pytest.approx(44)
    assert files.probes == 1


def test_a_probe_counts_for_a_while_only_also_on_a_machine_that_slept(files: Files) -> None:
    clock = files.clock(reuse_s=15)
    clock.now_s()
    files.passed_s = 16
    assert clock.now_s() == pytest.approx(THERE_S + 16)
    assert files.probes == 2
    files.slept_s = 3_600
    assert clock.now_s() == pytest.approx(THERE_S + 3_616)
    assert files.probes == 3


def test_a_file_that_is_replaced_at_this_moment_is_new(files: Files) -> None:
    assert files.clock().age_s("lock/000002.json", 0.0) == 0.0


def test_no_probe_stays(files: Files) -> None:
    files.clock().now_s()
    assert list(files.found) == ["000001.json"]
