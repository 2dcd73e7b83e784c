"""A server of Azure's protocol as a process of this machine: Azurite, Microsoft's own emulator, in memory.

Node's package manager has it: ``npm install --global azurite@3.35.0``. Versions from 3.36 on need Node 22.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator

CONTAINER = "studies"
ACCOUNT = "asyncsearch"
KEY = "c3R1ZGllcy1vbi1henVyZS1hcmUtdHJpZWQtaGVyZQ=="
COMMAND = "azurite-blob"


def is_installed() -> bool:
    return shutil.which(COMMAND) is not None


@contextlib.contextmanager
def azure_server() -> Iterator[dict[str, str]]:
    """Yield the environment with which adlfs reaches a new server that has no container yet."""
    # A newer client names a version of the protocol that Azurite does not know; what stores use of it, it has.
    options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent", "--blobPort", "0"]
    with subprocess.Popen(
        [COMMAND, *options],
        env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as server:
        try:
            yield {"AZURE_STORAGE_CONNECTION_STRING": _connection(_address(server))}
        finally:
            server.terminate()


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    printed = []
    for line in server.stdout:
        printed.append(line)
        if found := re.search(r"successfully listens on (http://127\.0\.0\.1:\d+)", line):
            return found[1]
    raise AssertionError(f"Azurite did not start: {''.join(printed)}")


def _connection(address: str) -> str:
    return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={address}/{ACCOUNT};"
