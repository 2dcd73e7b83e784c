"""The server under attack for some seconds; ``scripts/fuzz_server.py`` does it with a million messages."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from asyncsearch.errors import ProtocolError
from asyncsearch.rpc.convert import decode_worker
from tests.shares import IS_ALL

SCRIPTS = Path(__file__).parents[2] / "scripts"
MESSAGES = 60_000 if IS_ALL else 6_000


@pytest.mark.slow
def test_an_attacked_server_stays_in_bounds_and_the_honest_search_is_right() -> None:
    command = [sys.executable, str(SCRIPTS / "fuzz_server.py"), "--messages", str(MESSAGES), "--connections", "1500"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    figures = json.loads(ended.stdout.splitlines()[-1])
    assert figures["complaints"] == []
    assert figures["hostile_messages"] >= MESSAGES
    assert figures["trials_completed"] > 0
    assert figures["descriptors_most"] < 1500, "more strangers came than there may be connections"


def test_a_hostile_frame_is_a_message_or_a_protocol_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    _hostile = importlib.import_module("_hostile")

    says = _hostile.HostileWorker(seed=5, worker=5, victims=4)
    refused = []
    for number in range(1, 3_000):
        try:
            decode_worker(says.malformed(number, 0))
        except ProtocolError as error:
            refused.append(str(error))
    assert len(refused) > 1_000
    assert all(words.isprintable() for words in refused)
