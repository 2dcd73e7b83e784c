from __future__ import annotations

import os
import signal
import sys

import pytest

from asyncsearch.runner.process.lifeline import fork_in_session
from tests.shares import IS_ALL


@pytest.mark.skipif(sys.platform != "linux", reason="runners are forked on Linux alone")
def test_a_forked_process_has_a_killable_group_once_its_id_is_known() -> None:
    for _ in range(50 if IS_ALL else 20):
        pid = fork_in_session()
        if pid == 0:
            signal.pause()
            os._exit(0)
        os.killpg(pid, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
