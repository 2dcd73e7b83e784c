"""Tokens that an agent is sent are there before it trains, and gone from its process when it ends."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from asyncsearch.rpc.messages import StoreTokens
from asyncsearch.store.hdfs import tokens
from asyncsearch.store.local.store import LocalStore
from asyncsearch.trainable import TrialContext
from tests.agent.driver import agent

FILE = tokens.token_file([tokens.Token(b"a", b"b", b"c", b"HDFS_DELEGATION_TOKEN", b"10.0.0.1:8020")])


class Watching(LocalStore):
    """Notes which tokens a checkpoint was stored with."""

    seen: list[bytes] = []  # noqa: RUF012  # an agent has a copy of the store

    def stage(self, ref):  # type: ignore[no-untyped-def]
        self.seen.append(Path(os.environ[tokens.LOCATION]).read_bytes())
        return super().stage(ref)


def save(path: Path) -> None:
    path.write_bytes(b"x")


def train(trial: TrialContext) -> None:
    for _ in trial.epochs(save=save, load=lambda path: None):
        trial.report(accuracy=1.0)


def test_tokens_are_there_before_the_work_and_not_after_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv(tokens.LOCATION, raising=False)
    store = Watching(tmp_path / "store")
    store.prepare()
    with agent(train, tmp_path / "store", store=store) as driver:
        driver.deliver(StoreTokens(FILE))
        driver.train(stop=1, save=True)
        driver.end()
    assert set(Watching.seen) == {FILE}
    assert tokens.LOCATION not in os.environ
