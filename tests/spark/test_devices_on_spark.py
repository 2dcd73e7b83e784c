"""Spark gives devices to tasks, here ones that a discovery script makes up, and each worker sees those of its task."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.errors import UsageError
from tests.shares import takes_long
from tests.spark.cluster import spark_session
from tests.spark.connect_server import connect_session
from tests.study.test_devices import lines, seen_by_two, study

ADDRESSES = '["GPU-a", "MIG-b"]'


def device_settings(folder: Path) -> dict[str, str]:
    """Return the settings of an executor with two devices."""
    script = folder / "discover.sh"
    script.write_text(f"""#!/bin/sh\necho '{{"name": "gpu", "addresses": {ADDRESSES}}}'\n""")
    script.chmod(0o755)
    return {
        "spark__worker__resource__gpu__amount": "2",
        "spark__worker__resource__gpu__discoveryScript": str(script),
        "spark__executor__resource__gpu__amount": "2",
    }


@contextlib.contextmanager
def cluster_with_devices(folder: Path, for_task: str) -> Iterator[Any]:
    """Make a session on two slots with two devices."""
    settings = device_settings(folder) | {"spark__task__resource__gpu__amount": for_task}
    with spark_session("local-cluster[1,2,1024]", **settings) as session:
        yield session


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("for_task", "share", "seen"),
    [
        ("1", 1, {"GPU-a 1", "MIG-b 1"}),
        pytest.param("0.5", 0.5, {"GPU-a 0.5"}, marks=takes_long),
    ],
)
def test_each_worker_sees_the_device_of_its_task(tmp_path: Path, for_task: str, share: float, seen: set[str]) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "folder" / "pipe")
    with cluster_with_devices(tmp_path, for_task):
        with pytest.raises(UsageError, match=r"make the session with spark.task.resource.gpu.amount=2"):
            study(tmp_path / "folder" / "s", seen_by_two, devices_per_trial=2, backend="spark").run(2, display="none")
        made = study(tmp_path / "folder" / "s", seen_by_two, devices_per_trial=share, backend="spark")
        made.run(2, parallelism=2, display="none")
    assert lines(tmp_path / "folder") == seen


@takes_long
@pytest.mark.spark
@pytest.mark.slow
def test_a_worker_by_connect_asks_for_the_devices_of_its_executor(tmp_path: Path) -> None:
    pytest.importorskip("grpc_status")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "folder" / "pipe")
    settings = device_settings(tmp_path)
    with connect_session("local-cluster[1,2,1024]", **settings, spark__executor__memory="512m"):
        made = study(tmp_path / "folder" / "s", seen_by_two, devices_per_trial=1, backend="spark")
        made.run(2, parallelism=2, display="none")
    assert lines(tmp_path / "folder") == {"GPU-a 1", "MIG-b 1"}
