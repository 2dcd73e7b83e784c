"""A study's folder on HDFS over HTTP.

Besides the guarantees of asyncsearch.store.far.store:

* A small file is replaced atomically, and of several processes that create one, exactly one succeeds.
* A journal segment is one file, which each append opens and closes. What was appended survives the death of any
  process, and of one DataNode of several; the DataNodes have it in memory, not on their disks.
* A driver that was stopped for longer than its lease finds out before it acknowledges anything; what it wrote by then
  does not count, since the segment of the driver that took over says where it begins.
* What is read is compared with the length that the NameNode gives: less is an error.
"""

from __future__ import annotations

from collections.abc import Iterator

from asyncsearch.errors import BeingWrittenError, JournalDamagedError
from asyncsearch.store.base_store import Store
from asyncsearch.store.far.appending_store import AppendingStore
from asyncsearch.store.hdfs.addresses import parse
from asyncsearch.store.webhdfs.files import WebHdfsFiles


class WebHdfsStore(AppendingStore):
    """One study's folder at a ``webhdfs://`` or ``swebhdfs://`` URL.

    Args:
        url: such as ``webhdfs://namenode:9870/studies/digits``.
        gateways: addresses of the NameNodes; empty means as the URL says, Spark's Hadoop configuration or
            HADOOP_CONF_DIR.
        lock_lease_s: seconds without a refresh after which a driver on another machine loses its lock.
    """

    _remote: WebHdfsFiles

    def __init__(self, url: str, gateways: str = "", *, lock_lease_s: float = 60.0) -> None:
        super().__init__(lock_lease_s)
        self._remote = WebHdfsFiles(url, gateways)

    def at(self, url: str) -> Store:
        is_same = parse(url)[:2] == parse(self.url)[:2]  # a worker cannot find the address out again
        return WebHdfsStore(url, self._remote.known_gateways if is_same else "", lock_lease_s=self._lease_s)

    def read_segment(self, name: str) -> Iterator[bytes]:
        return self._compared(name, super().read_segment(name))

    def _compared(self, name: str, lines: Iterator[bytes]) -> Iterator[bytes]:
        size_bytes, read = self._remote.size(f"journal/{name}") or 0, 0
        for line in lines:
            read += len(line)
            yield line
        if read < size_bytes:
            words = f"Of journal segment {name} of {self.shown!r} {read:,} of {size_bytes:,} bytes can be read."
            if self._lock is None:
                raise BeingWrittenError(f"{words} Try again in a moment.")
            raise JournalDamagedError(
                f"{words} If its driver was killed a moment ago, try again in a minute; else see whether all DataNodes"
                " run, hdfs fsck."
            )
