"""Workers as Spark tasks keep the laws of every launcher."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from asyncsearch.launch.base_launcher import Launcher
from asyncsearch.launch.spark.launcher import SparkLauncher
from asyncsearch.testing import LauncherTests
from tests.spark.cluster import spark_session

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    with spark_session("local[2]"):
        yield


class TestSparkLauncher(LauncherTests):
    def make(self) -> Launcher:
        return SparkLauncher()
