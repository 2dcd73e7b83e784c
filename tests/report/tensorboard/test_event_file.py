"""Event files: TensorBoard's own reader reads them, and only what is new is appended."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tensorboard")

from asyncsearch.report.tensorboard import ScalarPoint, TrialRun, of_run, update


def run_of(units: int, *, ended_s: float | None = None) -> TrialRun:
    points = [ScalarPoint(100.0 + unit, unit, "loss", 1 / unit) for unit in range(1, units + 1)]
    return TrialRun("trial-0", 100.0, {"lr": 0.1, "kind": "cnn", "bias": True}, points, ended_s, False)


def write(folder: Path, run: TrialRun) -> Path:
    update(folder, run.started_s, run.params, of_run(run))
    [path] = folder.iterdir()
    return path


def read(path: Path) -> list[tuple[int, float]]:
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    events = map(Event.FromString, RawEventFileLoader(str(path)).Load())
    return [(event.step, round(event.summary.value[0].simple_value, 6)) for event in events if event.step]


def test_tensorboard_reads_what_is_written(tmp_path: Path) -> None:
    assert read(write(tmp_path, run_of(3))) == [(1, 1.0), (2, 0.5), (3, 0.333333)]


def test_only_what_is_new_is_appended(tmp_path: Path) -> None:
    first = write(tmp_path, run_of(2)).read_bytes()
    second = write(tmp_path, run_of(3, ended_s=200.0))
    assert second.read_bytes().startswith(first)
    assert [step for step, _ in read(second)] == [1, 2, 3]
    inode, size = second.stat().st_ino, second.stat().st_size
    again = write(tmp_path, run_of(3, ended_s=200.0)).stat()
    assert (again.st_ino, again.st_size) == (inode, size)


@pytest.mark.parametrize("cut", [1, 9, 20])
def test_a_record_that_was_cut_off_is_written_again(cut: int, tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", run_of(3)).read_bytes()
    path = write(tmp_path / "cut", run_of(3))
    path.write_bytes(whole[:-cut])
    assert write(tmp_path / "cut", run_of(3)).read_bytes()[-60:] == whole[-60:]
    assert [step for step, _ in read(path)] == [1, 2, 3]


def test_a_run_that_begins_otherwise_is_written_anew(tmp_path: Path) -> None:
    first = write(tmp_path, run_of(2))
    changed = run_of(2)
    changed.params["lr"] = 0.2
    second = write(tmp_path, changed)
    assert (first.exists(), second.name != first.name) == (False, True)


def test_event_files_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "events.out.tfevents.1.host").write_bytes(b"theirs")
    update(tmp_path, 100.0, {}, of_run(run_of(1)))
    assert (tmp_path / "events.out.tfevents.1.host").read_bytes() == b"theirs"
