"""Which devices and threads a runner sees."""

from __future__ import annotations

import os

import pytest

from asyncsearch.agent.devices import runner_environment, visible_devices
from asyncsearch.errors import ClusterError


@pytest.mark.parametrize(
    ("gpus", "visible", "expected"),
    [
        (["0"], None, "0"),
        (["2", "3"], None, "2,3"),
        (["GPU-1f"], None, "GPU-1f"),
        ([], None, ""),
        ([], "0,1", ""),
        (["0"], "4,5", "4"),  # an index into what the executor sees
        (["1", "0"], "4,5", "5,4"),
        (["4"], "4,5", "4"),  # the name of what it sees
        (["0"], "GPU-a,GPU-b", "GPU-a"),
        (["GPU-b"], "GPU-a,GPU-b", "GPU-b"),
        (["MIG-x"], "0,1", "MIG-x"),  # passed through: it names one device in the world
        (["0"], " 3 , 4 ", "3"),
    ],
)
def test_devices_are_indices_or_names(gpus: list[str], visible: str | None, expected: str) -> None:
    assert visible_devices(gpus, visible) == expected


@pytest.mark.parametrize(("gpus", "visible"), [(["7"], "4,5"), (["0"], ""), (["4", "0"], "4")])
def test_what_fits_neither_way_is_refused_with_both_values(gpus: list[str], visible: str) -> None:
    with pytest.raises(ClusterError) as caught:
        visible_devices(gpus, visible)
    assert ", ".join(gpus) in str(caught.value)
    assert repr(visible) in str(caught.value)


def test_an_environment_is_made_and_not_changed() -> None:
    before = {"HOME": "/root", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "4,5"}
    made = runner_environment(before, ["/spark/files.zip", ""], 8, ["1"])
    assert before["OMP_NUM_THREADS"] == "1"
    assert made["HOME"] == "/root"
    assert made["OMP_NUM_THREADS"] == made["MKL_NUM_THREADS"] == "8"
    assert made["PYTHONPATH"] == os.pathsep.join(["/spark/files.zip", os.getcwd()])
    assert made["CUDA_VISIBLE_DEVICES"] == "5"


def test_devices_stay_as_they_are_if_none_are_given() -> None:
    assert "CUDA_VISIBLE_DEVICES" not in runner_environment({}, [], 1, None)
    assert "PYTHONHASHSEED" not in runner_environment({}, [], 1, None)
    assert runner_environment({"PYTHONHASHSEED": "0"}, [], 1, None, hash_seed="7")["PYTHONHASHSEED"] == "7"
    assert runner_environment({}, [], 1, ())["CUDA_VISIBLE_DEVICES"] == ""
