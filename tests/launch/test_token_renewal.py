"""When workers are given tokens: at first, whenever others come, and never where none are needed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

from asyncsearch.launch import delegation_tokens
from asyncsearch.launch.base_launcher import Tokens
from asyncsearch.launch.delegation_tokens import TokenRenewal
from asyncsearch.store.hdfs import tokens

URL = "hdfs://namenode:8020/studies/digits"


class Scripted:
    """A launcher that answers what a test has written down; the last answer for ever."""

    def __init__(self, *answers: Tokens | Exception | None) -> None:
        self.answers = list(answers)
        self.has_said_all = threading.Event()

    def tokens_for(self, url: str) -> Tokens | None:
        assert url == URL
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if len(self.answers) == 1:
            self.has_said_all.set()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        return threading.Thread(target=target, name=name, daemon=True)


def renewal(launcher: Scripted) -> tuple[TokenRenewal, queue.SimpleQueue[bytes], list[str]]:
    granted: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    said: list[str] = []
    any_launcher: Any = launcher
    return TokenRenewal(any_launcher, URL, granted.put, said.append), granted, said


def test_each_new_file_of_tokens_is_passed_on_once() -> None:
    made, granted, said = renewal(Scripted(Tokens(b"1", 0.001), Tokens(b"1", 0.001), Tokens(b"2", 0.001)))
    made.start()
    assert [granted.get(timeout=60) for _ in range(2)] == [b"1", b"2"]
    made.stop()
    assert granted.empty()
    assert said == []


def test_where_there_are_none_nobody_asks_again() -> None:
    launcher = Scripted(None, AssertionError("it was asked again"))
    made, granted, said = renewal(launcher)
    made.start()
    assert len(launcher.answers) == 1
    assert granted.empty()
    assert said == []


def test_tokens_that_cannot_be_had_are_asked_for_again_and_people_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "_AGAIN_S", 0.001)
    made, granted, said = renewal(Scripted(RuntimeError("no ticket\n at org.apache"), Tokens(b"1", 1000.0)))
    made.start()
    assert granted.get(timeout=60) == b"1"
    made.stop()
    assert len(said) == 1
    assert "no ticket" in said[0]
    assert "org.apache" not in said[0]
    assert "klist" in said[0]


def test_a_driver_that_lives_on_tokens_uses_the_new_ones_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[bytes] = []
    monkeypatch.setattr(tokens, "use", used.append)
    made, _, _ = renewal(Scripted(Tokens(b"1", 1000.0)))
    monkeypatch.delenv(tokens.LOCATION, raising=False)
    made.start()
    made.stop()
    assert used == []
    monkeypatch.setenv(tokens.LOCATION, "/container")
    made, _, _ = renewal(Scripted(Tokens(b"1", 1000.0)))
    made.start()
    made.stop()
    assert used == [b"1"]
