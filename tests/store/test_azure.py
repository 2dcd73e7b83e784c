"""Stores on a server of Azure's protocol: the laws of every store, a whole search, and what becomes of the keys."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from asyncsearch.errors import StoreError
from asyncsearch.ids import CheckpointRef
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store
from asyncsearch.store.far.remote import Remote
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.testing.store_checkpoints import NODE, load, save
from asyncsearch.testing.stores import StoreTests
from tests.store.azure_server import ACCOUNT, CONTAINER, KEY, azure_server, is_installed
from tests.store.clocks import require_no_take_over
from tests.store.object_search import require_gone_on_with, search

CONNECTION = "AZURE_STORAGE_CONNECTION_STRING"
ODD = 'a\'; echo "b" ?x=1#y%20 ü@z'

# The client's library says so of each object above 1 MiB, in a warning that Python does not show by default.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    pytest.importorskip("adlfs", reason="adlfs is not installed: it is the extra azure")
    if not is_installed():
        pytest.skip("Azurite is not installed: npm install --global azurite@3.35.0")
    from azure.storage.blob import BlobServiceClient

    with azure_server() as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        with BlobServiceClient.from_connection_string(environment[CONNECTION]) as client:
            client.create_container(CONTAINER)
        yield environment[CONNECTION]


@pytest.fixture(autouse=True)
def reached(server: str, staged_inside: None) -> None:
    """Let a server answer, and stage inside the test\'s own folder."""


def new() -> str:
    return f"abfs://{CONTAINER}/{uuid.uuid4().hex}"


class TestAzure(StoreTests):
    def make(self) -> Store:
        return open_store(f"{new()}/{ODD}")


@pytest.mark.slow
def test_a_search_on_azure_is_gone_on_with_and_no_key_is_kept_in_its_store() -> None:
    require_gone_on_with(new(), KEY)


@pytest.mark.slow
def test_a_stores_connection_string_reaches_its_workers_and_is_not_kept(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CONNECTION)
    store = FsspecStore(new(), {"connection_string": server})
    search(store).run(num_trials=2, parallelism=1)
    files = {name: store._remote.read(name) or b"" for name in store._remote.find("")}
    assert {"study.json", "bundle.bin", "head.json"} <= {*files}
    assert not [name for name, data in files.items() if KEY.encode() in data]
    assert KEY not in repr(store)


def test_an_address_with_its_account_is_the_same_store(server: str) -> None:
    name = uuid.uuid4().hex
    save(open_store(f"abfs://{CONTAINER}/{name}"), model=b"m")
    for scheme in ("abfs", "abfss", "az"):
        long = FsspecStore(
            f"{scheme}://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net/{name}", {"connection_string": server}
        )
        assert load(long) == {"model": b"m"}
        assert long.is_exclusive


def test_a_container_that_does_not_exist_is_named_and_not_made() -> None:
    with pytest.raises(StoreError, match=r"abfs://no-such-container"):
        open_store("abfs://no-such-container/x").write("study.json", b"{}")


def test_of_two_processes_one_creates_a_file() -> None:
    url = new()
    script = (
        "import sys; from asyncsearch.store import open_store; input();"
        "print(open_store(sys.argv[1]).create('claims/1', sys.argv[2].encode()))"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, url, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for number in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    won = [process.communicate()[0].strip() for process in processes]
    assert sorted(won) == ["False", "False", "False", "True"]
    assert Remote(url, {}).read("claims/1") == str(won.index("True")).encode()


def test_a_name_is_no_beginning_of_another_one() -> None:
    store = open_store(new())
    save(store, CheckpointRef(NODE, 8), model=b"8")
    save(store, CheckpointRef(NODE, 81), model=b"81")
    store.write("logs", b"a file")
    store.write("logs-of-others/x", b"x")
    assert store.list("logs") == []
    assert store.walk("logs") == {}
    assert load(store, CheckpointRef(NODE, 8)) == {"model": b"8"}


def test_a_server_that_refuses_is_not_taken_for_an_empty_store(server: str) -> None:
    url = new()
    save(open_store(url), model=b"m")
    other_key = server.replace(KEY, "b3RoZXI=")
    stranger = FsspecStore(url, {"connection_string": other_key})
    for look in (
        stranger.prepare,
        stranger.checkpoints,
        stranger.journal_segments,
        lambda: stranger.read("study.json"),
    ):
        with pytest.raises(StoreError, match="credentials"):
            look()
    with pytest.raises(StoreError, match="credentials"):
        stranger._remote.is_file("study.json")


def test_a_server_that_is_away_is_said_to_be_before_a_lease_ends() -> None:
    client = Remote(new(), {})._fs.service_client
    (policy,) = [one for one in client._pipeline._impl_policies if hasattr(one, "total_retries")]
    waits_s = [policy.get_backoff_time({"count": count}) for count in range(policy.total_retries)]
    assert sum(waits_s) < 15


def test_an_error_of_the_server_is_one_line_for_people() -> None:
    with pytest.raises(StoreError) as refused:
        open_store("abfs://no-such-container/x").write("study.json", b"{}")
    assert str(refused.value).endswith(
        "does not exist. Check the address, the credentials and the connection, then try again."
    )
    assert "\n" not in str(refused.value)


def test_a_driver_with_a_clock_an_hour_ahead_takes_no_living_ones_study() -> None:
    require_no_take_over(new())
