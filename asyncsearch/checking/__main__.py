"""A step of a check in a separate process, which ``checking.resume_proof`` starts."""

from __future__ import annotations

import contextlib
import importlib
import pickle
import sys
from pathlib import Path
from typing import Any

import msgspec

from asyncsearch.checking.steps import STEPS
from asyncsearch.checking.training_runs import Task, loaded_frameworks
from asyncsearch.errors import UsageError
from asyncsearch.runner.process.sent_code import take_modules_over


def main(folder: str) -> None:
    """Carry out the step that a folder describes, and write its result there."""
    place = Path(folder)
    # Both files were written by the process that started this one.
    rest, step, frameworks, arguments = pickle.loads((place / "task").read_bytes())  # noqa: S301
    take_modules_over()
    sys.argv[:] = arguments
    trainable = pickle.loads((place / "trainable").read_bytes())  # noqa: S301
    for name in frameworks:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    answer: dict[str, Any] = {}
    try:
        answer["result"] = STEPS[step](Task(trainable, *rest))
    except UsageError as error:
        answer["refused"] = (type(error).__name__, str(error))
    answer["frameworks"] = loaded_frameworks()
    (place / "result.json").write_bytes(msgspec.json.encode(answer))


if __name__ == "__main__":
    main(sys.argv[1])
