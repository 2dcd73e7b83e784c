"""What a trainable that cannot be called with a trial is answered with."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path
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


def written(body: str, folder: Path) -> Any:
    file = folder / "script.py"
    file.write_text(f"from asyncsearch import TrialContext\nOPTUNA = False\n\ndef train(trial):\n    {body}\n")
    return runpy.run_path(str(file))["train"]


GUARDED = (
    "if hasattr(trial, 'suggest_float'):\n        return trial.suggest_float('x', 0, 1)\n    return 1.0",
    "if isinstance(trial, TrialContext):\n        return 1.0\n    return trial.suggest_float('x', 0, 1)",
    "return trial.number if hasattr(trial, 'number') else 1.0",
    "try:\n        return trial.suggest_float('x', 0, 1)\n    except AttributeError:\n        return 1.0",
    "if OPTUNA:\n        x = trial.suggest_float('x', 0, 1)\n    else:\n        x = 1.0\n    return x",
    "kind = type(trial).__name__\n    return 1.0 if kind == 'TrialContext' else trial['x']",
    "match OPTUNA:\n        case True:\n            return trial['x']\n    return 1.0",
)


@pytest.mark.parametrize("body", GUARDED, ids=range(len(GUARDED)))
def test_a_function_that_may_be_for_several_libraries_trains(body: str, tmp_path: Path) -> None:
    require_trainable(written(body, tmp_path), "loss")


UNGUARDED = ("for _ in range(2):\n        trial.suggest_float('x', 0, 1)", "x = [trial['x']]", "y = 1 + trial.number")


@pytest.mark.parametrize("body", UNGUARDED, ids=range(len(UNGUARDED)))
def test_a_function_for_another_library_is_refused_before_it_trains(body: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="would fail in every trial"):
        require_trainable(written(body, tmp_path), "loss")
