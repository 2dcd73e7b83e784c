"""What takes long enough for people to wonder is said; what does not, is not."""

from __future__ import annotations

import threading

import pytest

from asyncsearch.report.live import display
from asyncsearch.report.live.display import announced


def test_what_lasts_is_announced_while_it_lasts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_said = threading.Event()
    say = display._announce

    def saying(sentence: str) -> None:
        say(sentence)
        is_said.set()

    monkeypatch.setattr(display, "_announce", saying)
    with announced("doing it", after_s=0.0):
        assert is_said.wait(60.0)
    assert capsys.readouterr().err == "doing it\n"


def test_what_is_over_soon_is_not_announced(capsys: pytest.CaptureFixture[str]) -> None:
    with announced("doing it", after_s=3600.0):
        pass
    assert capsys.readouterr().err == ""
