"""What a process computes once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from asyncsearch.errors import UsageError
from asyncsearch.runner.once_cache import once

calls: list[object] = []


def load(name: str, size: int = 1) -> list[str]:
    calls.append(name)
    return [name] * size


def make_loader(name: str) -> Callable[[], list[str]]:
    return lambda: load(name)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    calls.clear()
    monkeypatch.setattr("asyncsearch.runner.once_cache._values", {})


def test_equal_calls_share_one_value() -> None:
    assert once(load, "digits", 2) is once(load, "digits", 2)
    assert calls == ["digits"]


def test_other_arguments_are_another_value() -> None:
    assert once(load, "digits") != once(load, "faces")
    assert calls == ["digits", "faces"]


def test_a_lambda_is_known_again_by_its_code_and_what_it_captured() -> None:
    assert once(make_loader("digits")) is once(make_loader("digits"))
    assert once(make_loader("faces")) == ["faces"]
    assert calls == ["digits", "faces"]


def test_an_exception_is_not_remembered() -> None:
    def fail() -> None:
        calls.append("fail")
        raise OSError

    for _ in range(2):
        with pytest.raises(OSError):
            once(fail)
    assert calls == ["fail", "fail"]


def test_a_class_can_be_made_once() -> None:
    assert once(list) is once(list)


@pytest.mark.parametrize("argument", [[1], {"a": 1}])
def test_what_cannot_be_hashed_is_refused_with_a_way_out(argument: object) -> None:
    with pytest.raises(UsageError, match=r"once\(load, ...\) cannot tell its calls apart: .*Pass"):
        once(load, argument)
    with pytest.raises(UsageError, match="cannot tell its calls apart"):
        once(lambda: argument)
