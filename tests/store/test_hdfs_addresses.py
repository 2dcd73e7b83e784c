"""Where an HDFS is: from the URL, a Spark session or HADOOP_CONF_DIR, or refused in words. No server is asked."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from asyncsearch.errors import StoreError
from asyncsearch.store.hdfs.addresses import address_of, hadoop_settings, parse
from asyncsearch.store.hdfs.hadoop_files import explain

TEAM = {
    "dfs.ha.namenodes.team": "one,two",
    "dfs.namenode.rpc-address.team.one": "first:8020",
    "dfs.namenode.rpc-address.team.two": "second:8020",
}
MOUNTS = {"fs.viewfs.mounttable.all.linkFallback": "hdfs://team/"}


@pytest.fixture(autouse=True)
def no_hadoop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "pyspark", None)


@pytest.mark.parametrize(
    ("url", "settings", "found"),
    [
        ("hdfs://first:9000/x", {}, "hdfs://first:9000"),
        ("hdfs://first/x", {"fs.defaultFS": "file:///"}, "hdfs://first:8020"),
        ("hdfs://team/x", TEAM, "hdfs://team"),
        ("hdfs:///x", {"fs.defaultFS": "hdfs://team", **TEAM}, "hdfs://team"),
        ("hdfs:///x", {"fs.defaultFS": "hdfs://first:9000/"}, "hdfs://first:9000"),
        ("viewfs://all/x", MOUNTS, "viewfs://all"),
        ("viewfs:///x", {"fs.defaultFS": "viewfs://all", **MOUNTS}, "viewfs://all"),
    ],
)
def test_what_a_url_leaves_out_is_taken_from_the_settings(url: str, settings: dict[str, str], found: str) -> None:
    address = address_of(url, settings)
    assert address.url == found
    assert dict(address.settings) == {key: settings[key] for key in settings if key != "fs.defaultFS"}


@pytest.mark.parametrize(
    ("url", "settings", "words"),
    [
        ("hdfs:///x", {}, r"names no NameNode, and no configuration.*hdfs://namenode:8020.*HADOOP_CONF_DIR"),
        ("hdfs:///x", {"fs.defaultFS": "file:///"}, r"fs\.defaultFS is 'file:///'"),
        ("viewfs:///x", {"fs.defaultFS": "hdfs://team"}, "names no NameNode"),
        ("hdfs://team/x", {}, "names no port, and no configuration knows 'team'"),
        ("viewfs://all/x", TEAM, "mount table 'all'"),
    ],
)
def test_a_cluster_that_nothing_names_is_refused(url: str, settings: dict[str, str], words: str) -> None:
    with pytest.raises(StoreError, match=words):
        address_of(url, settings)


def test_settings_that_nobody_reads_are_not_sent_to_workers() -> None:
    assert address_of("hdfs://first:9000/x", {"dfs.image.compress": "true", "io.file.buffer.size": "1"}).settings == ()


@pytest.mark.parametrize("name", ["a b", "a;b", "a?b", "a#b", "a%20b", "ü"])
def test_no_character_of_a_path_is_special(name: str) -> None:
    assert parse(f"HDFS://first:9000//studies/{name}/") == ("hdfs", "first:9000", f"/studies/{name}")


@pytest.mark.parametrize("name", ["a:b", "..", "."])
def test_names_that_hdfs_cannot_have_are_refused(name: str) -> None:
    with pytest.raises(StoreError, match="cannot be a path on HDFS"):
        parse(f"hdfs://first:9000/studies/{name}/x")


def configured(folder: Path, monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    properties = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in values.items())
    (folder / "core-site.xml").write_text(f"<configuration>{properties}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(folder))


def session(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]) -> None:
    """Let a Spark session be active that has such a Hadoop configuration."""

    def with_prefix(prefix: str) -> dict[str, str]:
        return {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}

    hadoop: Any = SimpleNamespace(get=settings.get, getPropsWithPrefix=with_prefix)
    context = SimpleNamespace(_jsc=SimpleNamespace(hadoopConfiguration=lambda: hadoop))
    active = SimpleNamespace(SparkContext=SimpleNamespace(_active_spark_context=context))
    monkeypatch.setitem(sys.modules, "pyspark", active)


def test_without_a_session_the_folder_of_hadoop_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hadoop_settings() == {}
    configured(tmp_path, monkeypatch, **{"fs.defaultFS": "hdfs://team"})
    assert hadoop_settings()["fs.defaultFS"] == "hdfs://team"


def test_an_active_session_counts_before_the_folder_of_hadoop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configured(tmp_path, monkeypatch, **{"fs.defaultFS": "hdfs://old"})
    session(monkeypatch, {"fs.defaultFS": "hdfs://team", **TEAM})
    assert hadoop_settings() == {"fs.defaultFS": "hdfs://team", **TEAM}


def test_the_default_of_spark_itself_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configured(tmp_path, monkeypatch, **{"fs.defaultFS": "hdfs://team"})
    session(monkeypatch, {"fs.defaultFS": "file:///"})
    assert hadoop_settings()["fs.defaultFS"] == "hdfs://team"


def test_a_damaged_file_of_hadoop_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configured(tmp_path, monkeypatch)
    (tmp_path / "core-site.xml").write_text("<configuration>")
    with pytest.raises(StoreError, match=r"core-site\.xml"):
        hadoop_settings()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            r'RPCError("org.apache.hadoop.SafeModeException", "no.\n\tat java.security.AccessController.do(A.java:7)")',
            "the NameNode is in safe mode, in which nothing can be written",
        ),
        ("RPC listener disconnected", "the NameNode does not answer"),
        ("Connection refused (os error 111)", "the NameNode or a DataNode does not answer"),
        ('DataTransferError("All DataNodes failed: []")', "no DataNode has the file's content now"),
        (
            r'RPCError("java.io.IOException", "File /x could only be written to 0 of the 1 minReplication nodes"',
            "no DataNode can take a new file now",
        ),
        (
            r'RPCError("java.io.IOException", "File /x could only be replicated to 0 nodes instead of minReplication")',
            "no DataNode can take a new file now",
        ),
        ('DataTransferError("Block writer is closed")', "the file cannot be written on after an earlier error"),
        (r'RPCError("java.io.IOException", "what\n\tat x.Y.z(Y.java:1)")', "IOException: what"),
    ],
)
def test_answers_of_hdfs_become_sentences_without_a_stack(answer: str, words: str) -> None:
    assert explain(RuntimeError(answer))[0] in (words, f"RuntimeError: {words}")


@pytest.mark.parametrize(
    "start", [b"\xff\xfe", b'<?xml version="1.0" encoding="utf-32"?>', b'<?xml version="1.0" encoding="none"?>']
)
def test_a_configuration_whose_bytes_cannot_be_read_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    (tmp_path / "core-site.xml").write_bytes(start + b"<configuration/>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(StoreError, match=r"Cannot read .*core-site\.xml.*Correct that file"):
        hadoop_settings()
