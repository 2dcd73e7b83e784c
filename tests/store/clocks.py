"""A driver in a process of its own whose clock is set wrong."""

from __future__ import annotations

import os
import subprocess
import sys

from asyncsearch.store import open_store
from tests.store.hdfs_cluster import REPOSITORY

HOUR_S = 3600
_CODE = """
import sys, time
url, ahead_s, clock = sys.argv[1], float(sys.argv[2]), time.time
time.time = lambda: clock() + ahead_s
from asyncsearch.errors import StoreLockedError
from asyncsearch.store import open_store
try:
    with open_store(url).lock():
        print("taken")
except StoreLockedError as error:
    print(error)
"""


def take_over(url: str, ahead_s: float) -> str:
    """Try to take the lock of a store with a clock that is so far ahead; return ``taken``, or why it was refused."""
    command = [sys.executable, "-c", _CODE, url, str(ahead_s)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def require_no_take_over(url: str) -> None:
    """Require that a driver whose clock is an hour ahead takes the study of no driver that lives."""
    store = open_store(url)
    store.prepare()
    with store.lock():
        segment = store.open_segment()
        segment.append(b"a\n")
        assert f"process {os.getpid()} on" in take_over(store.url, HOUR_S)
        segment.append(b"b\n")
        segment.close()
        assert list(open_store(store.url).read_segment(segment.name)) == [b"a\n", b"b\n"]
    assert take_over(store.url, HOUR_S) == "taken"
