"""What a trainable that cannot be called with a trial is answered with."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest

from asyncsearch.errors import UsageError
from asyncsearch.study.asked.trainable_checks import require_trainable


def nothing() -> float:
    return 1.0


async def later(trial: Any) -> float:
    return 1.0


@pytest.mark.parametrize("given", [nothing, later, lambda: 1.0, lambda a, b: a])
def test_a_line_to_write_for_a_trainable_is_valid_python(given: Any) -> None:
    with pytest.raises(UsageError) as caught:
        require_trainable(given, "loss")
    found = re.search(r"write `(.*)`", str(caught.value))
    assert found is not None
    ast.parse(f"{found[1]} pass" if found[1].endswith(":") else found[1])
