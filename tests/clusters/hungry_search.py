"""A search that tests submit to YARN: its first trial takes more memory than its container has, once.

hungry_search.py FOLDER STORE
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from asyncsearch import ASHA, GridSearch, Study, choice

TAKEN_BYTES = 5 << 29


class Train:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, trial: Any) -> None:
        for unit in trial.epochs(save=lambda path: path.write_bytes(b"x"), load=lambda path: None):
            if unit == 2 and not (self.folder / "taken").exists():
                (self.folder / "taken").touch()
                taken = b"x" * TAKEN_BYTES
                while taken:  # until its container is killed
                    threading.Event().wait(1.0)
            trial.report(loss=trial.params["x"] / unit)


if __name__ == "__main__":
    folder, store = Path(sys.argv[1]), sys.argv[2]
    study = Study(
        Train(folder),
        space={"x": choice(1, 2)},
        searcher=GridSearch(),
        metric="loss",
        mode="min",
        scheduler=ASHA(min_resource=3, max_resource=3),
        store=store,
        name="hungry",
        save_every=1,
    )
    study.run(display="plain")
