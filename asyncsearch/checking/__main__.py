"""A step of a check in a separate process, which ``checking.processes`` starts."""

from __future__ import annotations

import contextlib
import importlib
import pickle
import sys
from pathlib import Path

import msgspec

from asyncsearch.checking import random_generators
from asyncsearch.checking.resume_proof import STEPS
from asyncsearch.checking.training_runs import Task


def main(folder: str) -> None:
    """Carry out the step that a folder describes, and write its result there."""
    place = Path(folder)
    # Both files were written by the process that started this one.
    rest, step, frameworks = pickle.loads((place / "task").read_bytes())  # noqa: S301
    trainable = pickle.loads((place / "trainable").read_bytes())  # noqa: S301
    for name in frameworks:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    result = STEPS[step](Task(trainable, *rest))
    (place / "result.json").write_bytes(
        msgspec.json.encode({"result": result, "frameworks": random_generators.loaded()})
    )


if __name__ == "__main__":
    main(sys.argv[1])
