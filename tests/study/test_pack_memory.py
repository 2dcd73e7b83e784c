"""``pack="auto"`` under a limit of memory: how many fit is predicted from one training and two, in a real process."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, Study
from asyncsearch.events import PackMeasured, TrainingEnded
from asyncsearch.journal.opening import read_records
from asyncsearch.sizing.pack_probe import most_that_fit
from tests.study.test_packs import Line, lanes, measured, shown, study

LANE_BYTES = 32 << 20
ROOM = 6 * LANE_BYTES + LANE_BYTES // 2


class Heavy(Line):
    """Takes as long for many as for one, and much memory for each; its process may take little."""

    steps = 8_000_000

    def train(self) -> None:
        self.train_pack([self])

    @classmethod
    def train_pack(cls, trainers: Sequence[Line]) -> None:
        limit_once()
        held = [bytearray(LANE_BYTES) for _ in trainers]
        sum(range(cls.steps))
        for trainer in trainers:
            trainer.loss *= 1 - trainer.hp["rate"]
        del held


class Quick(Heavy):
    """Takes so little time that many are timed together at once."""

    steps = 2_000_000


class Limited(Heavy):
    """Its process may take little from the first trial on."""

    def setup(self, hp: dict[str, Any]) -> None:
        limit_once()
        super().setup(hp)


def limit_once() -> None:
    """Let this process take no more than ``ROOM`` from its first training on."""
    if resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY:
        status = Path("/proc/self/status").read_text()
        data = int(status.partition("VmData:")[2].split()[0]) * 1024
        resource.setrlimit(resource.RLIMIT_DATA, (data + ROOM, resource.RLIM_INFINITY))


def failures(found: Study) -> list[str]:
    events = [record.event for record in read_records(found.store)]
    return [event.error_kind for event in events if isinstance(event, TrainingEnded) and event.error_kind]


@pytest.mark.parametrize("kind", [Heavy, Quick])
def test_auto_trains_only_as_many_together_as_fit_and_none_lacks_memory(tmp_path: Path, kind: type[Heavy]) -> None:
    found = study(tmp_path / "s", kind, FIFO(max_resource=2), pack="auto", backend="processes")
    found.run(40, parallelism=1, display="none")
    first: Any = measured(found)[0]
    assert isinstance(first, PackMeasured)
    assert first.memory is not None
    fits = most_that_fit(first.memory)
    assert 2 <= fits <= 6
    assert max(count for told in measured(found) for count, _ in told.seconds) <= fits
    assert failures(found) == []
    assert max(lanes(found)[1:], default=0) <= fits, "others join the first pack, or come in packs that fit"
    story = " ".join(found.explain("trial-0").split())
    assert f"so that {fits} fit into the" in story
    assert "that RLIMIT_DATA leaves" in story


def test_an_integer_trains_only_as_many_together_as_fit_and_says_a_remedy(tmp_path: Path) -> None:
    found = study(tmp_path / "s", Limited, FIFO(max_resource=2), pack=12, backend="processes")
    found.run(24, parallelism=1, display="none")
    (first,) = measured(found)
    assert first.memory is not None
    fits = most_that_fit(first.memory)
    assert 2 <= fits <= 6
    assert failures(found) == []
    assert lanes(found)[0] == 12
    assert max(lanes(found)[1:], default=0) <= fits, "others join the first pack, or come in packs that fit"
    story = " ".join(found.explain("trial-0").split())
    assert "its pack asks for more memory than there is; one takes" in story
    assert f"write pack={fits}, or give the workers more memory" in story
    assert f"memory is enough for {fits} together" in shown(found)
    assert f"Write pack={fits}, or give the workers more memory." in " ".join(found.logs("trial-0"))


WATCHED = """
from asyncsearch.runner.packs.pack_memory import ProcessMemory
from tests.study.test_pack_memory import LANE_BYTES

meter = ProcessMemory()
held = bytearray(8 * LANE_BYTES)
del held
meter.begin()
before = meter.held()
held = bytearray(2 * LANE_BYTES)
del held
assert before + LANE_BYTES < meter.peak() < before + 4 * LANE_BYTES, (before, meter.peak())
"""


def test_a_processs_memory_is_watched_from_the_start_of_each_training() -> None:
    """In a process of its own: threads of libraries that others have used give memory back at any time."""
    command = [sys.executable, "-c", WATCHED]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
