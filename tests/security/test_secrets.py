"""The secrets of a run are in no argument list, environment, log or file, nor in what Spark keeps and shows."""

from __future__ import annotations

import json
import logging
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from asyncsearch import FIFO, GridSearch, Study, choice
from asyncsearch.ids import WorkerId
from asyncsearch.rpc import auth
from asyncsearch.rpc.auth import Identity, bound
from asyncsearch.trainable import TrialContext


class Spy:
    """A trainable that writes down all that user code can see of the processes around it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, trial: TrialContext) -> None:
        seen = []
        for process in (psutil.Process(), *psutil.Process().parents()):
            with process.oneshot():
                try:
                    seen.append([process.pid, process.cmdline(), process.environ()])
                except psutil.Error:
                    continue
        (self._folder / f"{trial.name}.json").write_text(json.dumps(seen))
        print("a line of the trial")  # noqa: T201
        trial.report(loss=1.0)

    @property
    def seen(self) -> str:
        return "".join(path.read_text() for path in self._folder.glob("*.json"))


class Identities:
    """The identities that drivers of this process made."""

    def __init__(self) -> None:
        self.made: list[Identity] = []

    def secrets(self) -> list[str]:
        """Return what must be found nowhere: tokens, those of the launches, and the middle of the keys."""
        (identity,) = self.made
        keys = [pem.decode().split("\n")[1][8:48] for pem in (identity.key_pem, identity.worker_key_pem)]
        endpoint = identity.endpoint("x:1")
        launches = [bound(endpoint, WorkerId(worker), 1).token.rpartition(".")[2] for worker in range(3)]
        return [identity.token, *launches, *keys]


@pytest.fixture
def identities(monkeypatch: pytest.MonkeyPatch) -> Identities:
    identities, make = Identities(), auth.make_identity

    def made() -> Identity:
        identities.made.append(make())
        return identities.made[-1]

    monkeypatch.setattr(auth, "make_identity", made)
    return identities


def searched(folder: Path, backend: str) -> Spy:
    (folder / "seen").mkdir()
    spy = Spy(folder / "seen")
    study = Study(
        spy,
        space={"x": choice(1, 2, 3)},
        searcher=GridSearch(),
        metric="loss",
        mode="min",
        scheduler=FIFO(),
        store=folder / "study",
        backend=backend,
    )
    study.run(parallelism=2, logs=True, display="plain")
    assert len(list((folder / "seen").glob("*.json"))) == 3
    return spy


def files_under(folder: Path) -> Iterator[bytes]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.read_bytes()


def require_nowhere(secrets: list[str], texts: dict[str, str]) -> None:
    for place, text in texts.items():
        assert text, f"nothing was looked at: {place}"
        for secret in secrets:
            assert secret not in text, f"a secret is in {place}"


def test_a_search_on_processes_shows_its_secrets_nowhere(
    tmp_path: Path, identities: Identities, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG):
        spy = searched(tmp_path, "processes")
    printed = capfd.readouterr()
    require_nowhere(
        identities.secrets(),
        {
            "arguments and environments": spy.seen,
            "the store": b"".join(files_under(tmp_path / "study")).decode(errors="replace"),
            "the log": caplog.text,
            "the output": printed.out + printed.err,
        },
    )


@pytest.mark.spark
def test_a_search_on_spark_shows_no_secrets_in_event_log_or_pages(
    tmp_path: Path, identities: Identities, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    from tests.spark.cluster import spark_session

    events = tmp_path / "events"
    events.mkdir()
    settings = {
        "spark__ui__enabled": "true",
        "spark__ui__port": "0",
        "spark__eventLog__enabled": "true",
        "spark__eventLog__dir": events.as_uri(),
    }
    with spark_session("local[2]", **settings) as session, caplog.at_level(logging.DEBUG):
        spy = searched(tmp_path, "spark")
        pages = "".join(pages_of(session.sparkContext))
    printed = capfd.readouterr()
    require_nowhere(
        identities.secrets(),
        {
            "arguments and environments": spy.seen,
            "the store": b"".join(files_under(tmp_path / "study")).decode(errors="replace"),
            "the event log": b"".join(files_under(events)).decode(errors="replace"),
            "Spark's pages": pages,
            "the log": "\n".join(r.getMessage() for r in caplog.records if not r.name.startswith("py4j")),
            "the output": printed.out + printed.err,
        },
    )


def pages_of(context: Any) -> Iterator[str]:
    root = context.uiWebUrl
    api = f"{root}/api/v1/applications/{context.applicationId}"
    pages = [f"{root}/{name}/" for name in ("jobs", "stages", "environment", "executors")]
    for url in [*pages, *(f"{api}/{name}" for name in ("jobs", "stages?details=true", "environment", "allexecutors"))]:
        deadline = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(url, timeout=60) as page:  # of this machine
                    yield page.read().decode()
                break
            except OSError:
                assert time.monotonic() < deadline, url
