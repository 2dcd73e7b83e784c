"""An S3 server as a process of this machine: moto's, which speaks the protocol and keeps everything in memory.

python -m tests.store.s3_server      prints its port, and ends with its standard input
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

BUCKET = "studies"
KEY_ID = "AKIDTESTTESTTEST"
SECRET = "sEcReT/of+the/tests"


@contextlib.contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Yield the environment with which every client of AWS reaches a new server that has an empty bucket."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.store.s3_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        assert port, "moto's server did not start"
        environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        try:
            yield environment
        finally:
            server.stdin.close()


def main() -> None:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    sys.stdout.write(f"{server.get_host_and_port()[1]}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
