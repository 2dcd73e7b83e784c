"""A network that reads handwritten digits, as trials on clusters train it; alone in its file, which is sent."""

from __future__ import annotations

import pickle
from pathlib import Path

from asyncsearch.trainable import TrialContext


def read_digits(trial: TrialContext) -> None:
    """Train a network; a unit is one pass over the digits."""
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    images, labels = load_digits(return_X_y=True)
    held = [MLPClassifier((32,), learning_rate_init=trial.params["lr"], random_state=trial.seed % 2**32)]

    def save(path: Path) -> None:
        path.write_bytes(pickle.dumps(held[0]))

    def load(path: Path) -> None:
        held[0] = pickle.loads(path.read_bytes())

    for _ in trial.epochs(save=save, load=load):
        held[0].partial_fit(images[:1400] / 16, labels[:1400], classes=range(10))
        trial.report(loss=1 - held[0].score(images[1400:] / 16, labels[1400:]))
