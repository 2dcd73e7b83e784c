"""Which devices the workers of a study see, and what is refused."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, Autoscale, Cluster, Gang, Study, choice
from asyncsearch.errors import NotEnoughSlotsError, UsageError
from asyncsearch.launch.machine import kinds_in, machine_devices, machine_kinds, named_in
from asyncsearch.launch.spark.device_settings import TASK, require_devices
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.study.asked.devices_option import devices_for, devices_of, require_equal_kinds, room_on

LISTED = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6)
  MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef)
  MIG 3g.20gb     Device  1: (UUID: MIG-cba663e8)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-8a1b77ee)
"""


def leave_line(trial: Any) -> None:
    """Leave a line that says what this runner sees."""
    import os

    line = f"{os.environ.get('CUDA_VISIBLE_DEVICES')} {os.environ.get('ASYNCSEARCH_GPU_SHARE', '1')}"
    (Path(trial.params["folder"]) / str(trial.params["x"])).write_text(line)


def seen(trial: Any) -> None:
    leave_line(trial)
    trial.report(loss=1.0)


def seen_by_two(trial: Any) -> None:
    """Leave that line once another worker does so: the ends of a pipe are opened together."""
    pipe = Path(trial.params["folder"]) / "pipe"
    with pipe.open("r" if trial.params["x"] % 2 else "w"):
        seen(trial)


def distributed(trial: Any) -> None:
    trial.process_group()
    trial.report(loss=1.0)


def seen_by_rank(trial: Any) -> None:
    """Leave a line of each rank; rank 0, whose end is the trial's, waits for the others'."""
    import torch.distributed as dist

    group = trial.process_group()
    trial.params["x"] = trial.rank
    leave_line(trial)
    dist.barrier(group)
    trial.report(loss=1.0)


def study(store: Path, trainable: Any = seen, **options: Any) -> Study:
    settings: dict[str, Any] = {"backend": "processes", "searcher": GridSearch()} | options
    space = {"x": choice(0, 1, 2, 3), "folder": str(store.parent)}
    return Study(trainable, space=space, metric="loss", mode="min", store=store / "s", **settings)


def lines(folder: Path) -> set[str]:
    return {path.read_text() for path in folder.iterdir() if path.name.isdecimal()}


@pytest.mark.parametrize(
    ("devices", "per_worker", "room", "places"),
    [
        ("ab", 1, 2, ["a", "b"]),
        ("abcde", 2, 2, ["ab", "cd"]),
        ("ab", 0.5, 4, ["a", "a", "b", "b"]),
        ("ab", 0.4, 4, ["a", "a", "b", "b"]),
        ("a", 1 / 3, 3, ["a", "a", "a"]),
        ("a", 1 / 93, 93, ["a"] * 93),
        ("a", 2, 0, []),
    ],
)
def test_each_worker_has_devices_of_its_own(devices: str, per_worker: float, room: int, places: list[str]) -> None:
    assert room_on(devices, per_worker) == room
    assert ["".join(devices_of(worker, devices, per_worker)) for worker in range(room)] == places


def test_mig_devices_stand_in_place_of_the_gpu_that_they_are_cut_from() -> None:
    assert named_in(LISTED) == ("MIG-c6d4f1ef", "MIG-cba663e8", "GPU-8a1b77ee")
    assert named_in("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n") == ()


def test_what_a_process_sees_is_named_by_places_in_it() -> None:
    assert machine_devices({"CUDA_VISIBLE_DEVICES": "2,1"}) == ("0", "1")
    assert machine_devices({"CUDA_VISIBLE_DEVICES": "GPU-5d5ba0d6, MIG-c6d4f1ef"}) == ("0", "1")
    assert machine_devices({"CUDA_VISIBLE_DEVICES": ""}) == ()


@pytest.mark.parametrize(("visible", "count"), [("-1", 0), ("NoDevFiles", 0), ("1,-1,0", 1), ("-1,0", 0)])
def test_what_stands_after_the_name_of_no_device_is_hidden(visible: str, count: int) -> None:
    assert len(machine_devices({"CUDA_VISIBLE_DEVICES": visible})) == count


@pytest.mark.parametrize("amount", ["0.3333333333333333", "0.333333", "0.333"])
def test_a_third_of_a_device_is_what_spark_has_for_a_third(amount: str) -> None:
    require_devices(lambda name, default: amount if name == TASK else default, 1 / 3)


@pytest.mark.parametrize("amount", ["0.5", "0.34", "0", "1", "some", "nan"])
def test_another_part_than_spark_gives_is_refused(amount: str) -> None:
    with pytest.raises(UsageError, match=f"gpu.amount is {amount}: make the session with {TASK}=0.333333"):
        require_devices(lambda *_: amount, 1 / 3)


MIXED = "GPU 0: NVIDIA T4 (UUID: GPU-aa11)\nGPU 1: NVIDIA H200 (UUID: GPU-bb22)\nGPU 2: NVIDIA H200 (UUID: GPU-cc33)\n"


def show(folder: Path, patch: pytest.MonkeyPatch, listed: str, visible: str | None = None) -> None:
    """Let ``nvidia-smi -L`` list GPUs."""
    tool = folder / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\ncat <<END\n{listed}END\n")
    tool.chmod(0o755)
    patch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        patch.setenv("CUDA_VISIBLE_DEVICES", visible)


def test_a_mig_device_is_of_another_kind_than_its_gpu() -> None:
    gpu = "NVIDIA A100-SXM4-40GB"
    assert [*kinds_in(LISTED).values()] == [gpu, f"{gpu} MIG 3g.20gb", f"{gpu} MIG 3g.20gb", gpu]


@pytest.mark.parametrize(
    ("visible", "order", "kinds"),
    [
        (None, "", ["NVIDIA T4", "NVIDIA H200", "NVIDIA H200"]),
        ("GPU-cc,GPU-aa11", "", ["NVIDIA H200", "NVIDIA T4"]),
        ("2,0", "PCI_BUS_ID", ["NVIDIA H200", "NVIDIA T4"]),
        ("2,0", "", []),
        ("3", "PCI_BUS_ID", []),
    ],
)
def test_a_devices_kind_is_given_only_where_its_name_tells_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, order: str, kinds: list[str]
) -> None:
    show(tmp_path, monkeypatch, MIXED, visible)
    assert [*machine_kinds({**os.environ, "CUDA_DEVICE_ORDER": order})] == kinds


@pytest.mark.parametrize("how", [{"workers_per_trial": 2, "devices_per_trial": 2}, {"devices_per_trial": 1}])
def test_different_gpus_for_one_trial_are_refused_before_a_worker_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]
) -> None:
    show(tmp_path, monkeypatch, MIXED)
    made = study(tmp_path / "s", distributed, **({"autoscale": Autoscale()} | how))
    with pytest.raises(UsageError, match="worker-0 NVIDIA T4, worker-1 NVIDIA H200"):
        made.run(1, parallelism=2, display="none")
    assert not (tmp_path / "s" / "s").exists()


def test_equal_gpus_of_a_machine_with_others_are_not_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    show(tmp_path, monkeypatch, MIXED, "GPU-bb22,GPU-cc33")
    require_equal_kinds(machine_devices(os.environ), 1, Gang(2), 2)


def test_each_worker_process_sees_its_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b,7")
    os.mkfifo(tmp_path / "pipe")
    study(tmp_path / "s", seen_by_two, devices_per_trial=1).run(2, parallelism=2, display="none")
    assert lines(tmp_path) == {"GPU-b 1", "7 1"}


def test_two_workers_share_a_device_that_the_machine_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    show(tmp_path, monkeypatch, "GPU 0: NVIDIA H200 (UUID: GPU-5d5ba0d6)\n")
    study(tmp_path / "s", devices_per_trial=0.5).run(parallelism=2, display="none")
    assert lines(tmp_path) == {"GPU-5d5ba0d6 0.5"}


CALLS: list[tuple[Callable[[Path], object], str]] = [
    (lambda at: study(at, devices_per_trial=0), "devices_per_trial=0 is no number of devices: write an integer from 1"),
    (lambda at: study(at, devices_per_trial=1.5), "devices_per_trial=1.5 is no number"),
    (lambda at: study(at, devices_per_trial=True), "devices_per_trial=True is no number"),
    (lambda at: study(at, devices_per_trial="all"), "devices_per_trial='all' is no number"),
    (lambda at: study(at, devices_per_trial=float("inf")), "devices_per_trial=inf is no number"),
    (lambda at: study(at, devices_per_trial=1e-320), "devices_per_trial=1e-320 is no number"),
    (
        lambda at: study(at, distributed, autoscale=Autoscale(), devices_per_trial=0.5),
        "write devices_per_trial=1, or leave out autoscale=",
    ),
    (lambda at: study(at, num_gpus=1), "devices_per_trial=1"),
    (
        lambda at: study(at, distributed, workers_per_trial=2, devices_per_trial=0.5),
        "devices_per_trial=0.5 cannot be shared evenly by the 2 workers of a trial",
    ),
    (lambda at: study(at, distributed, workers_per_trial=2, devices_per_trial=3), "write 2, or a multiple of it"),
    (
        lambda at: study(at, devices_per_trial=3).run(display="none"),
        "A worker is to see 3 devices, and this machine shows 2",
    ),
    (
        lambda at: study(at, devices_per_trial=1).run(parallelism=3, display="none"),
        "and this machine shows 2: run with parallelism=2",
    ),
    (
        lambda at: study(at, distributed, workers_per_trial=3, devices_per_trial=3).run(display="none"),
        "Each trial trains on 3 workers, and there is room for 2",
    ),
    (
        lambda at: study(at, devices_per_trial=1, backend="inline").run(display="none"),
        "write backend='processes'",
    ),
]


@pytest.mark.slow
def test_each_worker_of_a_trial_sees_a_device_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    made = study(tmp_path / "s", seen_by_rank, workers_per_trial=2, devices_per_trial=2)
    made.run(1, parallelism=2, display="none")
    assert lines(tmp_path) == {"4 1", "5 1"}


@pytest.mark.parametrize(("call", "words"), CALLS, ids=[words[:30] for _, words in CALLS])
def test_what_cannot_be_is_refused_before_a_worker_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[Path], object], words: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises((UsageError, NotEnoughSlotsError), match=re.escape(words)):
        call(tmp_path / "s")
    assert not (tmp_path / "s" / "s").exists()


def test_without_a_number_of_workers_there_are_as_many_as_have_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    made = study(tmp_path / "s", devices_per_trial=1, scheduler=FIFO(max_resource=1))
    assert "1 worker: as many as a run without parallelism= would have here" in str(made.preview())
    made.run(display="plain")
    assert "1 worker (processes on this machine), 1 device to a worker" in " ".join(capsys.readouterr().out.split())
    assert lines(tmp_path) == {"5 1"}


def test_a_resumed_study_keeps_its_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    study(tmp_path / "s", devices_per_trial=0.5).run(1, parallelism=1, display="none")
    Study.resume(tmp_path / "s" / "s").run(2, parallelism=1, display="none")
    assert lines(tmp_path) == {"5 0.5"}
    assert len(list(tmp_path.iterdir())) == 3


def test_the_devices_of_a_machine_are_given_by_one_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    with Cluster(parallelism=1, backend="processes") as cluster, pytest.raises(UsageError, match="Run it by itself"):
        cluster.submit(study(tmp_path / "s", devices_per_trial=1), num_trials=1).wait()


def test_whole_devices_are_for_each_worker_of_a_trial() -> None:
    assert devices_for(4, Gang(2)) == 2
    assert devices_for(4, None) == 4
    assert devices_for(None, Gang(2)) is None
