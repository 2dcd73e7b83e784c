"""A configuration reaches a task that was begun before it, by a pipe without a name, and nothing is left of that."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from asyncsearch.launch.base_launcher import run_agent
from asyncsearch.launch.spark import task as spark_task
from asyncsearch.launch.spark.session import Spark
from asyncsearch.launch.spark.task import Handover, PipeAddress, SpareTask, TaskMode, receive
from tests.launch.tools import PATIENCE_S, TOKEN, config_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it needs /proc")

_LARGER_THAN_A_PIPE = 1 << 20
_TASK = """
import sys
from asyncsearch.launch.spark.task import PipeAddress, receive
config = receive(PipeAddress(*map(int, sys.argv[1:])))
print(config and f"{len(config.bundle)} {config.endpoint.token}")
"""
_DRIVER = """
import sys
from asyncsearch.launch.spark.task import Handover
handover = Handover()
print(*handover.address, flush=True)
sys.stdin.read()
"""


def begun_task(address: PipeAddress) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", _TASK, *map(str, address)], stdout=subprocess.PIPE, text=True)


def test_a_configuration_of_any_size_is_given_without_secret_arguments(tmp_path: Path) -> None:
    handover = Handover()
    task = begun_task(handover.address)
    assert TOKEN not in str(task.args)
    handover.give(config_for(tmp_path, bytes(_LARGER_THAN_A_PIPE)))
    assert task.communicate(timeout=PATIENCE_S)[0].strip() == f"{_LARGER_THAN_A_PIPE} {TOKEN}"
    handover.close()


def test_a_task_whose_configuration_is_called_off_ends() -> None:
    handover = Handover()
    task = begun_task(handover.address)
    handover.call_off()
    assert task.communicate(timeout=PATIENCE_S)[0].strip() == "None"
    handover.close()


def test_a_task_whose_driver_dies_before_it_gives_a_configuration_ends() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        address = PipeAddress(*map(int, driver.stdout.readline().split()))
        received: list[Any] = []
        # Opened here and not by ``receive``, so that it surely is before the kill.
        with open(f"/proc/{address.process}/fd/{address.descriptor}", "rb") as pipe:
            mine = PipeAddress(os.getpid(), pipe.fileno(), address.inode)
            task = threading.Thread(target=lambda: received.append(receive(mine)))
            task.start()
            driver.kill()
            task.join(PATIENCE_S)
    assert received == [None]


def test_a_task_too_late_reads_nothing_of_another_pipe_of_that_descriptor() -> None:
    gone = Handover()
    gone.close()
    reading, writing = os.pipe()
    assert reading == gone.address.descriptor
    os.write(writing, b"somebody else's")
    assert receive(gone.address) is None
    assert os.read(reading, 100) == b"somebody else's"
    os.close(reading)
    os.close(writing)
    with pytest.raises(FileNotFoundError):
        receive(gone.address)


def test_a_giver_is_freed_by_the_end_of_the_job_and_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    handover = Handover()
    giving = threading.Thread(target=handover.give, args=(config_for(tmp_path, bytes(_LARGER_THAN_A_PIPE)),))
    giving.start()
    with open(f"/proc/self/fd/{handover.address.descriptor}", "rb", buffering=0) as pipe:
        assert pipe.read(1)  # it waits for the rest to be read
    handover.close()
    giving.join(PATIENCE_S)
    assert not giving.is_alive()
    handover.give(config_for(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before


class SlotlessSpark:
    """Its jobs wait until they are cancelled the second time: the first call comes before they are submitted."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        self._ended = threading.Event()

    def thread(self, target: Any, name: str) -> threading.Thread:
        return threading.Thread(target=target, name=name, daemon=True)

    def run(self, *_: Any, **__: Any) -> list[str]:
        assert self._ended.wait(PATIENCE_S)
        raise RuntimeError("the job was cancelled")

    def cancel(self, tag: str) -> None:
        self.cancelled.append(tag)
        if len(self.cancelled) == 2:
            self._ended.set()


def test_an_unwanted_task_without_a_slot_is_cancelled_until_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spark_task, "CANCEL_AGAIN_S", 0.1)
    spark = SlotlessSpark()
    spare = SpareTask(
        cast("Spark", spark), agent=run_agent, mode=TaskMode.PLAIN, tag="mine", run_tag="run", description=""
    )
    spare.call_off()
    spare.end()
    assert spark.cancelled == ["mine", "mine"]
