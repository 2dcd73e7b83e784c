"""Closing a file of HDFS: the NameNode's word counts, whichever call it answers. No server is asked."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsearch.errors import StoreAwayError
from asyncsearch.files.contents import content_of
from asyncsearch.store.hdfs import files, open_file
from asyncsearch.store.hdfs.open_file import close_at_once


class Writer:
    """A writer whose closing ends when it is told to."""

    def __init__(self) -> None:
        self.told = threading.Event()
        self.asked = 0

    def close(self) -> None:
        assert self.told.wait(60)

    def finish_at_third(self) -> bool:
        self.asked += 1
        return self.asked == 3


@pytest.fixture
def writer() -> Iterator[Writer]:
    made = Writer()
    yield made
    made.told.set()


def test_a_file_that_the_namenode_has_closed_is_not_waited_for(writer: Writer) -> None:
    close_at_once(writer.close, writer.finish_at_third)
    assert writer.asked == 3
    assert not writer.told.is_set()


def test_what_the_writer_says_counts_where_the_namenode_cannot_be_asked(writer: Writer) -> None:
    def refuse() -> bool:
        writer.told.set()
        raise RuntimeError("the NameNode does not answer")

    close_at_once(writer.close, refuse)
    with pytest.raises(ValueError, match="broken off"):
        close_at_once(lambda: failing(writer), refuse)


def failing(writer: Writer) -> None:
    writer.close()
    raise ValueError("broken off")


def test_a_file_that_nobody_closes_is_an_error_in_time(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_file, "ANSWER_S", 0.1)
    with pytest.raises(TimeoutError, match="timed out"):
        close_at_once(writer.close, lambda: False)


class RefusedWriter(Writer):
    """A writer that no DataNode takes anything of, and whose closing ends when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.closed: list[bool] = []

    def write(self, data: bytes) -> None:
        raise ConnectionError("refused")

    def close(self) -> None:
        self.closed.append(self.told.wait(10))


def test_a_failed_write_is_told_before_its_file_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_file, "GIVE_UP_S", 0.0)
    writer = RefusedWriter()
    file = open_file.OpenFile(writer, lambda size_bytes: False)
    with pytest.raises(ConnectionError):
        file.write_and_close(b"data")
    assert not writer.closed, "closing was waited for"
    writer.told.set()


class BrokenOff:
    """A client whose first writers' blocks no DataNode takes, as hdfs-native's error says."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.written: list[bytes] = []

    def create(self, path: str, options: object) -> BrokenOff:
        self.written.clear()
        return self

    def write(self, data: bytes) -> None:
        if self.failures:
            self.failures -= 1
            raise RuntimeError('DataTransferError("All nodes failed for write")')
        self.written.append(data)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("failures", [1, 2])
def test_a_file_that_its_datanodes_refuse_is_written_once_more(
    failures: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = BrokenOff(failures)
    monkeypatch.setattr(files.HdfsFiles, "client", client)
    remote = files.HdfsFiles("hdfs://127.0.0.1:8020/study")
    (tmp_path / "model").write_bytes(b"weights")
    if failures > 1:
        with pytest.raises(StoreAwayError, match="a DataNode has broken off the transfer"):
            remote.upload(tmp_path / "model", "model")
        return
    assert remote.upload(tmp_path / "model", "model") == content_of(tmp_path / "model")
    client.failures = 1
    remote.write_in_place("manifest.json", b"whole")
    assert client.written == [b"whole"]


def test_a_process_ends_after_its_calls_have_come_back() -> None:
    code = (
        "import sys, threading, time\n"
        "from asyncsearch.store.hdfs import open_file\n"
        "begun = threading.Event()\n"
        "def close():\n"
        "    begun.set()\n"
        "    time.sleep(0.3)\n"  # as hdfs-native does before it asks again
        "    sys.stdout.write('closed')\n"
        "    sys.stdout.flush()\n"
        "open_file.begin(close)\n"
        "begun.wait()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "closed"
