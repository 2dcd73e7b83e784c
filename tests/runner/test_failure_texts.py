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
