"""The laws of every store, on an HDFS that is reached by HTTPS, with certificates of its own authority."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store
from asyncsearch.testing.stores import StoreTests
from tests.clusters.tools import Machine

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def secure_hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Let this process trust an HDFS, and return its address by HTTPS."""
    pytest.importorskip("hdfs")
    folder = tmp_path_factory.mktemp("tls")
    machine = Machine(folder)
    try:
        machine.script("hdfs.sh", "start", 1, "--tls")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("REQUESTS_CA_BUNDLE", str(folder / "hdfs" / "tls" / "authority.pem"))
            yield machine.lines("hdfs.sh", "status")[-2].removeprefix("https://")
    finally:
        machine.script("hdfs.sh", "stop", "--remove")


class TestStoreOverTls(StoreTests):
    repeats = 15
    address = ""

    @pytest.fixture(autouse=True)
    def _on(self, secure_hdfs: str) -> None:
        self.address = secure_hdfs

    def make(self) -> Store:
        return open_store(f"swebhdfs://{self.address}/tests/{os.urandom(16).hex()}/a'; b")
