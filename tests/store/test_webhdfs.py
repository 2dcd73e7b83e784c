"""Stores on a real HDFS over HTTP: the laws of every store, and how lost appends are noticed."""

from __future__ import annotations

import pickle

import pytest

from asyncsearch.errors import JournalDamagedError, StoreError
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store
from asyncsearch.store.hdfs.addresses import gateways_of
from asyncsearch.testing.store_checkpoints import load, save
from asyncsearch.testing.stores import StoreTests
from tests.store.hdfs_cluster import hdfs

ODD = 'a\'; echo "b" ?x=1#y%20 ü'
TEAM = {
    "dfs.ha.namenodes.team": "one,two",
    "dfs.namenode.http-address.team.one": "first:9870",
    "dfs.namenode.http-address.team.two": "second:9870",
}


pytestmark = pytest.mark.usefixtures("staged_inside")


def new() -> str:
    pytest.importorskip("hdfs")
    place = hdfs().new().removeprefix(hdfs().url)
    return f"webhdfs://{hdfs().gateway}{place}"


@pytest.mark.cluster
class TestWebHdfs(StoreTests):
    repeats = 15

    def make(self) -> Store:
        return open_store(f"{new()}/{ODD}")


def new_with_tls() -> str:
    pytest.importorskip("hdfs")
    return f"swebhdfs://{hdfs().secure_gateway}{hdfs().path(hdfs().new())}"


@pytest.mark.cluster
def test_over_tls_what_was_appended_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """All laws of a store are held there by ``tests/clusters/test_tls.py``."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(hdfs().certificates))
    store, ref = open_store(new_with_tls()), CheckpointRef(NodeKey("n"), 3)
    store.prepare()
    with store.lock():
        segment = store.open_segment()
        segment.append(b"a\n")
        segment.append(b"b\n")
    save(store, ref, model=b"m" * 100_000)
    assert list(store.read_segment(segment.name)) == [b"a\n", b"b\n"]
    assert load(store, ref) == {"model": b"m" * 100_000}


@pytest.mark.cluster
def test_an_untrusted_certificate_is_refused_with_the_variable_to_set() -> None:
    assert hdfs().certificates.exists()
    with pytest.raises(StoreError, match=r"does not trust the certificate.*REQUESTS_CA_BUNDLE"):
        open_store(new_with_tls()).prepare()


@pytest.mark.cluster
def test_a_segment_that_reads_shorter_than_it_is_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(new())
    store.prepare()
    with store.lock():
        segment = store.open_segment()
        segment.append(b"a\n" * 9)
        monkeypatch.setattr(store._remote, "blocks", lambda name: iter([b"a\n"]))  # type: ignore[attr-defined]
        with pytest.raises(JournalDamagedError, match="2 of 18 bytes can be read"):
            list(store.read_segment(segment.name))


@pytest.mark.cluster
def test_what_hdfs_refuses_is_said_in_words_without_java() -> None:
    store = open_store(new())
    store.write("study.json", b"{}")
    with pytest.raises(StoreError, match="a parent of that path is a file"):
        open_store(f"{store.url}/study.json/x").write("a", b"")


@pytest.mark.parametrize(
    ("url", "settings", "found"),
    [
        ("webhdfs://first:9000/x", {}, "http://first:9000"),
        ("swebhdfs://first/x", {}, "https://first:9871"),
        ("webhdfs://team/x", TEAM, "http://first:9870;http://second:9870"),
        ("webhdfs:///x", {"fs.defaultFS": "hdfs://team", **TEAM}, "http://first:9870;http://second:9870"),
    ],
)
def test_gateways_are_those_of_the_url_or_of_the_settings(url: str, settings: dict[str, str], found: str) -> None:
    assert gateways_of(url, settings) == found


@pytest.mark.parametrize("url", ["webhdfs:///x", "swebhdfs:///x"])
def test_gateways_that_nothing_names_are_refused(url: str) -> None:
    with pytest.raises(StoreError, match="names no NameNode"):
        gateways_of(url, {})


def test_a_pickled_store_holds_no_connection() -> None:
    pytest.importorskip("hdfs")
    data = pickle.dumps(open_store("webhdfs://first:9870/x"))
    assert b"http://first:9870" in data
    assert b"Session" not in data


def test_hdfscli_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncsearch.store.opening.find_spec", lambda name: None)
    with pytest.raises(StoreError, match=r"asyncsearch\[webhdfs\]"):
        open_store("webhdfs://first:9870/x")
