"""A search as a script, for tests that kill its driver: ``python -m tests.system.search FOLDER [TRIAL]``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.system.tools import make_study
from tests.system.trained import Gate, make_trainable


def main() -> None:
    folder = Path(sys.argv[1])
    study = make_study(make_trainable(Gate(folder)), folder / "study", resume=True)
    study.run(parallelism=2)
    sys.stdout.write(f"best: {study.best_trial.params['x']}\n")


if __name__ == "__main__":
    main()
