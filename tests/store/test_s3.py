"""Stores on a real S3 server: the laws of every store, a whole search, and what becomes of the keys."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from asyncsearch.errors import StoreError
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store
from asyncsearch.store.far.remote import Remote
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.testing.stores import StoreTests
from tests.store.clocks import require_no_take_over
from tests.store.object_search import require_gone_on_with, search
from tests.store.s3_server import BUCKET, KEY_ID, SECRET, s3_server

ODD = 'a\'; echo "b" ?x=1#y%20 ü'


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    pytest.importorskip("moto", reason="moto is not installed: pip install 'moto[server]'")
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed: it is the extra s3")
    with s3_server() as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        s3fs.S3FileSystem().mkdir(BUCKET)
        yield environment
        s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture(autouse=True)
def reached(server: dict[str, str], staged_inside: None) -> None:
    """Let a server answer, and stage inside the test's own folder."""


def new() -> str:
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"


class TestS3(StoreTests):
    def make(self) -> Store:
        return open_store(f"{new()}/{ODD}")


@pytest.mark.slow
def test_a_search_on_s3_is_gone_on_with_and_no_key_is_kept_in_its_store() -> None:
    require_gone_on_with(new(), SECRET, KEY_ID)


@pytest.mark.slow
def test_keys_given_to_a_store_reach_its_workers_and_are_not_kept_in_it(
    server: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    keys = {"key": KEY_ID, "secret": SECRET, "endpoint_url": server["AWS_ENDPOINT_URL"]}
    store = FsspecStore(new(), keys)
    search(store).run(num_trials=2, parallelism=1)
    files = {name: store._remote.read(name) or b"" for name in store._remote.find("")}
    assert {"study.json", "bundle.bin", "head.json"} <= {*files}
    assert not [name for name, data in files.items() if SECRET.encode() in data or KEY_ID.encode() in data]
    assert SECRET not in repr(store)
    assert SECRET not in str(store)


def test_a_bucket_that_does_not_exist_is_named_and_not_made() -> None:
    with pytest.raises(StoreError, match=r"s3://no-such-bucket"):
        open_store("s3://no-such-bucket/x").write("study.json", b"{}")


def test_of_two_clients_one_creates_a_file() -> None:
    url = new()
    first, second = Remote(url, {}), Remote(url, {"use_listings_cache": False})
    assert first._fs is not second._fs
    assert first.create("lock", b"first")
    assert not second.create("lock", b"second")
    assert first.read("lock") == b"first"


def test_a_driver_with_a_clock_an_hour_ahead_takes_no_living_ones_study() -> None:
    require_no_take_over(new())
