"""A cgroup with a limit of memory, for tests of what the kernel does when it is reached."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

MIB = 1024 * 1024
LIMIT = 64 * MIB
_PARENTS = ((Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"), (Path("/sys/fs/cgroup"), "memory.max"))


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """Make a cgroup, of version 1 or 2, whose processes may hold 64 MiB together."""
    for parent, limit in _PARENTS:
        made = parent / f"asyncsearch-test-{os.getpid()}"
        try:
            made.mkdir()
        except OSError:
            continue
        if (made / limit).exists():
            (made / limit).write_text(str(LIMIT))
            yield made
            with contextlib.suppress(OSError):  # a process in it still ends
                made.rmdir()
            return
        made.rmdir()
    pytest.skip("this user may make no cgroup with a limit of memory")
