"""What a gateway of HDFS refuses never reads as "nothing there". The gateway is a server that refuses everything."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from asyncsearch.errors import StoreError
from asyncsearch.store import Store, open_store

pytest.importorskip("hdfs")
READS: dict[str, Callable[[Store], object]] = {
    "read": lambda store: store.read("study.json"),
    "list": lambda store: store.list("journal"),
    "walk": lambda store: store.walk("logs"),
    "segments": lambda store: store.journal_segments(),
    "checkpoints": lambda store: store.checkpoints(),
    "log": lambda store: list(store.read_log("trial-1")),
    "lock": lambda store: store.is_locked(),
    "create": lambda store: store.create("claims/a/1.json", b""),
    "prepare": lambda store: store.prepare(),
}


class Gateway(ThreadingHTTPServer):
    """Answers each request with one Java exception."""

    daemon_threads = True
    status, exception = 403, ""


class Refusal(BaseHTTPRequestHandler):
    server: Gateway

    def answer(self) -> None:
        name = self.server.exception
        words = {"exception": name, "javaClassName": f"org.apache.hadoop.{name}", "message": "no"}
        body = json.dumps({"RemoteException": words}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815  # http.server looks for these names

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Print nothing."""


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with Gateway(("127.0.0.1", 0), Refusal) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize(
    ("exception", "words"),
    [
        ("AccessControlException", "this user lacks the right to do that"),
        ("StandbyException", "no NameNode of the cluster is active"),
        ("SecurityException", "SecurityException: no"),
    ],
)
def test_a_refusal_is_an_error_and_not_nothing(gateway: Gateway, name: str, exception: str, words: str) -> None:
    gateway.exception = exception
    store = open_store(f"webhdfs://127.0.0.1:{gateway.server_port}/studies/digits")
    with pytest.raises(StoreError, match=words):
        READS[name](store)


def test_what_is_not_there_is_nothing(gateway: Gateway) -> None:
    gateway.status, gateway.exception = 404, "FileNotFoundException"
    store = open_store(f"webhdfs://127.0.0.1:{gateway.server_port}/studies/digits")
    assert store.read("study.json") is None
    assert (store.list("journal"), store.walk("logs"), store.checkpoints()) == ([], {}, [])
