"""Whole searches of ``KerasTrainer`` in packs that are joined, whose process or driver is killed: values as alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
tensorflow: Any = pytest.importorskip("tensorflow")
keras: Any = pytest.importorskip("keras")

from asyncsearch import Study  # noqa: E402  # after the check for tensorflow
from asyncsearch.trainers.keras.trainer import KerasTrainer  # noqa: E402
from tests.packing.joined_searches import (  # noqa: E402
    MANY,
    dying,
    joined,
    patient,
    require_results_of_lone_trainings,
    search,
)
from tests.shares import takes_long  # noqa: E402
from tests.spark.cluster import spark_session  # noqa: E402
from tests.trainers.keras_pack_trainers import DATA, softmax  # noqa: E402

pytestmark = pytest.mark.slow


class Joined(KerasTrainer):
    """An MLP with dropout in double precision, in whatever process it trains."""

    batch_size = 16

    def setup(self, hp: dict[str, Any]) -> None:
        keras.config.set_floatx("float64")
        keras.config.set_dtype_policy("float64")
        super().setup(hp)

    def model(self, hp: Mapping[str, Any]) -> Any:
        keras.utils.set_random_seed(3)
        return keras.Sequential([keras.layers.Dense(8, activation="tanh"), keras.layers.Dropout(0.3), softmax()])

    def optimizer(self, hp: Mapping[str, Any]) -> Any:
        return keras.optimizers.SGD(hp["lr"], 0.9)

    def data(self, hp: Mapping[str, Any]) -> Any:
        return DATA, DATA


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    before = keras.config.floatx(), keras.config.dtype_policy()
    yield
    keras.config.set_floatx(before[0])
    keras.config.set_dtype_policy(before[1])


def require_whole(found: Study, folder: Path) -> None:
    assert len(found.trials) == MANY
    assert [trial.failures for trial in found.trials] == [0] * MANY
    tensorflow.config.run_functions_eagerly(True)  # tracing takes most of the time of a lone training
    try:
        require_results_of_lone_trainings(found, Joined, folder)
    finally:
        tensorflow.config.run_functions_eagerly(False)


@takes_long
def test_a_process_killed_in_a_joined_pack_costs_no_trial_its_results(tmp_path: Path) -> None:
    kind = dying(patient(Joined, tmp_path, 99, "died"), tmp_path, "joined")
    found = search(kind, tmp_path / "s").run(MANY, parallelism=1, display="none")
    assert (tmp_path / "died").exists()
    require_whole(found, tmp_path)


@takes_long
@pytest.mark.spark
def test_so_on_spark(tmp_path: Path) -> None:
    with spark_session("local[1]"):
        kind = dying(patient(Joined, tmp_path, 99, "died"), tmp_path, "joined")
        found = search(kind, tmp_path / "s", backend="spark").run(MANY, parallelism=1, display="none")
    assert (tmp_path / "died").exists()
    require_whole(found, tmp_path)


_DRIVER = """
import os, signal, sys
from pathlib import Path
from asyncsearch.events import Reported
from asyncsearch.driver.loop import Driver
from tests.packing.joined_searches import MANY, patient, search
from tests.trainers.test_keras_joins import Joined

handle, left = Driver._handle, [12]

def die(self, event):
    handle(self, event)
    left[0] -= isinstance(event, Reported)
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)

Driver._handle = die
store = Path(sys.argv[1])
search(patient(Joined, store.parent), store).run(MANY, parallelism=1, display="none")
"""


@takes_long
def test_a_driver_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    store, root = tmp_path / "s", Path(__file__).parents[2]
    command = [sys.executable, "-c", _DRIVER, str(store)]
    ended = subprocess.run(command, cwd=root, capture_output=True, timeout=600, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    found = Study.resume(store).run(MANY, parallelism=1, display="none")
    assert joined(found)
    require_whole(found, tmp_path)
