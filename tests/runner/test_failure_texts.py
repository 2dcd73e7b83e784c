"""What people read of a failure: their own lines, not those between the runner and them."""

from __future__ import annotations

import pytest

from asyncsearch.errors import AsyncSearchError
from asyncsearch.runner.failures import exception_text
from asyncsearch.runner.standalone import StandaloneTrial


def test_an_answer_to_a_call_of_the_user_names_the_line_of_that_call() -> None:
    trial = StandaloneTrial({"lr": 0.1}, max_resource=3)
    with pytest.raises(AsyncSearchError, match="state= is a list") as caught:
        next(iter(trial.epochs(state=[1, 2])))  # type: ignore[arg-type]
    text = exception_text(caught.value)
    assert "next(iter(trial.epochs(state=[1, 2])))" in text
    assert "saved_state.py" not in text


def _raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def _with_note(error: Exception) -> Exception:
    error.add_note("tip: look elsewhere")
    return error


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ValueError("plain"), "ValueError: plain"),
        (RuntimeError("Error(s) in loading:\n\tsize mismatch."), "RuntimeError: Error(s) in loading: size mismatch."),
        (ValueError("1 error\n  a\n    For further information visit https"), "ValueError: 1 error a For further in"),
        (KeyError("nope"), "KeyError: 'nope'"),
        (_with_note(ValueError("real")), "ValueError: real"),
        (ExceptionGroup("many", [ValueError("a")]), "ExceptionGroup: many (1 sub-exception): ValueError: a"),
        (
            ExceptionGroup("out", [ExceptionGroup("in", [TypeError("b\nc")]), _with_note(OSError("d"))]),
            "ExceptionGroup: out (2 sub-exceptions): TypeError: b c; OSError: d",
        ),
        (ValueError("x\n" * 1_000), "ValueError: x x x"),
        (SyntaxError("bad", ("f.py", 1, 1, "a b", 1, 2)), "SyntaxError: bad"),
        (ValueError(""), "ValueError"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_last_line_of_a_failure_names_its_cause(error: BaseException, cause: str) -> None:
    lines = exception_text(_raised(error)).splitlines()
    assert lines[-1].startswith(cause)
    assert len(lines[-1]) <= 300
    assert lines[-2] != lines[-1]
