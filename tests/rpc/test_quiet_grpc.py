"""gRPC's own log, which peers without a token could fill, is off unless the user asked for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = r"""
import asyncio, os, socket
from asyncsearch.rpc.auth import make_identity
from asyncsearch.rpc.server import SearchServer

async def main():
    server = SearchServer(None, make_identity())
    port = await server.start("127.0.0.1")

    def attack():
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", port)) as peer:
                peer.sendall(b"\x1b[31mGET / HTTP/1.1\r\n\r\n")
                try:
                    while peer.recv(4096):
                        pass
                except OSError:
                    pass

    await asyncio.to_thread(attack)
    await server.stop(0)

asyncio.run(main())
print(os.environ.get("GRPC_VERBOSITY"))
"""


def attacked(**environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("GRPC_VERBOSITY", "GRPC_TRACE")}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env={**kept, **environment}, check=True
    )


def test_peers_that_do_not_speak_tls_write_nothing_into_the_drivers_output() -> None:
    ended = attacked()
    assert ended.stderr == ""
    assert ended.stdout == "None\n", "children would inherit the setting"


@pytest.mark.parametrize("setting", [{"GRPC_VERBOSITY": "INFO"}])
def test_the_user_can_ask_for_grpcs_own_log(setting: dict[str, str]) -> None:
    ended = attacked(**setting)
    assert "andshake" in ended.stderr
    assert ended.stdout == "INFO\n"


OTHER_PROTOBUF = """
import warnings
from google.protobuf import runtime_version
def warn(*of):
    warnings.warn("Protobuf gencode version 5.27.2 is exactly one major version older than the runtime version 6.31.1")
runtime_version.ValidateProtobufRuntimeVersion = warn
import asyncsearch.rpc.fields
"""


def test_the_stubs_are_imported_without_a_word_of_a_protobuf_that_warns() -> None:
    command = [sys.executable, "-W", "error", "-c", OTHER_PROTOBUF]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""
