"""Draw three pictures: the live table of a search that is running, the timeline of its workers, and a stage tree.

    python scripts/draw_readme.py       needs scikit-learn, and Chromium for the table; about two minutes

They come from real searches, of networks for handwritten digits and of schedules. Chromium turns the table's HTML into
a picture.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import joblib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from asyncsearch import ASHA, FIFO, GridSearch, Study, Trainer, choice, loguniform, plot_timeline, randint
from asyncsearch.report.live.display import Notebook
from asyncsearch.report.live.status import StudyStatus
from asyncsearch.report.live.table import html
from asyncsearch.sequences import multistep, warmup
from asyncsearch.study.study import run_shown

DOCS = Path(__file__).resolve().parent.parent / "docs"
TRIALS = 36
WIDTH, HEIGHT = 800, 400


class DigitReader(Trainer):
    """A network for handwritten digits; a unit of training is one pass over them."""

    def setup(self, hp):
        digits = train_test_split(*load_digits(return_X_y=True), random_state=0)
        self.x, self.x_valid, self.y, self.y_valid = digits
        generator = np.random.RandomState(self.trial.seed)
        self.net = MLPClassifier((hp["width"],), learning_rate_init=hp["lr"], alpha=hp["alpha"], random_state=generator)

    def train(self):
        self.net.partial_fit(self.x, self.y, classes=range(10))

    def evaluate(self):
        return {"accuracy": self.net.score(self.x_valid, self.y_valid), "loss": self.net.loss_}

    def save(self, path):
        joblib.dump(self.net, path)

    def load(self, path):
        self.net = joblib.load(path)


class Rate(Trainer):
    """Trains nothing: the tree depends on the schedules alone."""

    def setup(self, hp):
        self.place = 0.0

    def update(self, hp):
        pass

    def train(self):
        self.place += self.trial.params["lr"]

    def evaluate(self):
        return {"accuracy": self.place}

    def save(self, path):
        path.write_text(str(self.place))

    def load(self, path):
        self.place = float(path.read_text())


class Recorder(Notebook):
    """Keeps each page that a notebook would show."""

    def __init__(self) -> None:
        super().__init__(lambda *_, **__: None, logs=False)
        self.pages: list[tuple[StudyStatus, str]] = []

    def update(self, status: StudyStatus) -> None:
        page = html(status)
        self.pages.append((status, page))


def live_page() -> str:
    """Run the search of the digits, draw its workers, and return its table when two thirds of its trials existed."""
    recorder = Recorder()
    study = Study(
        DigitReader,
        space={"width": randint(16, 128), "lr": loguniform(1e-4, 1e-1), "alpha": loguniform(1e-6, 1)},
        metric="accuracy",
        mode="max",
        scheduler=ASHA(max_resource=9),
        store="studies/digits",
        backend="processes",
    )
    run_shown(study, TRIALS, 2, None, recorder)
    plot_timeline(study).save(DOCS / "timeline.svg")
    return next(page for status, page in recorder.pages if status.trials >= TRIALS * 2 // 3)


def photograph(page: str, path: Path, folder: Path) -> None:
    """Write a page as a picture."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("Chromium is not on PATH: install it (Debian: apt install chromium) and run this again.")
    source = folder / "page.html"
    body = "margin:12px;background:#fff;color:#222;width:776px"
    source.write_text(f'<meta charset="utf-8"><body style="{body}">{page}</body>', encoding="utf-8")
    options = ("--headless", "--no-sandbox", "--hide-scrollbars", "--force-device-scale-factor=1.5", "--disable-gpu")
    shot = (f"--screenshot={path}", f"--window-size={WIDTH},{HEIGHT}", source.as_uri())
    subprocess.run([chromium, *options, *shot], check=True, capture_output=True)


def stage_tree(folder: Path) -> None:
    """Search six schedules, and draw which epochs serve which of them."""
    drops = choice([12, 18], [12], [16])
    rates = choice(multistep(0.1, milestones=drops), warmup(4, multistep(0.1, milestones=drops), start=0.02))
    study = Study(
        Rate,
        space={"lr": rates},
        metric="accuracy",
        mode="max",
        searcher=GridSearch(),
        scheduler=FIFO(max_resource=24),
        store=folder / "schedules",
        backend="inline",
    )
    study.run(display="none")
    study.tree().save(DOCS / "stage_tree.svg")


def main() -> None:
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        folder = Path(name)
        stage_tree(folder)
        photograph(live_page(), DOCS / "live_table.png", folder)


if __name__ == "__main__":
    main()
