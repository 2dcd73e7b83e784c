"""Tune a neural network that reads handwritten digits, on Spark: 64 trials, most of them stopped early.

    bash scripts/demo.sh                                   on this machine; makes a Python environment and finds a Java
    python scripts/digits_search.py --backend processes    on this machine, without Spark
    spark-submit --master spark://host:7077 scripts/digits_search.py --store /shared/studies/digits

To continue the study after any interruption, run the same command again.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys

import joblib
import numpy as np
from scipy.ndimage import shift
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from asyncsearch import ASHA, Study, Trainer, choice, lograndint, loguniform, uniform

SPACE = {
    "width": lograndint(64, 512),
    "layers": choice(1, 2),
    "width_2": lograndint(16, 128).when(layers=2),  # exists only where there is a second hidden layer
    "activation": choice("relu", "tanh"),
    "alpha": loguniform(1e-6, 1e-1),
    "batch_size": choice(32, 64, 128),
    "lr": loguniform(3e-4, 1e-2),
    "beta_1": uniform(0.8, 0.98),
}


def split_digits():
    """Return 1,797 images of 8 x 8 pixels in three parts, always the same: to train, to compare trials, to test."""
    images, labels = load_digits(return_X_y=True)
    rest, test, rest_y, test_y = train_test_split(images / 16, labels, test_size=360, stratify=labels, random_state=0)
    train, valid, train_y, valid_y = train_test_split(rest, rest_y, test_size=360, stratify=rest_y, random_state=0)
    return (train, train_y), (valid, valid_y), (test, test_y)


def load_data():
    """Return the digits for trials. The training set also has each digit shifted by half a pixel in four directions."""
    (images, labels), validation_digits, _ = split_digits()
    square = images.reshape(-1, 8, 8)
    moves = [(0.5, 0), (-0.5, 0), (0, 0.5), (0, -0.5)]
    moved = [shift(square, (0, *move), order=1).reshape(-1, 64) for move in moves]
    return (np.concatenate([images, *moved]), np.tile(labels, 5)), validation_digits


class DigitReader(Trainer):
    """One network; a unit of training is one pass over the digits."""

    def setup(self, hp):
        self.training_digits, self.validation_digits = self.trial.once(load_data)  # once a process, not once a trial
        self.network = MLPClassifier(
            hidden_layer_sizes=(hp["width"], hp["width_2"]) if hp["layers"] == 2 else (hp["width"],),
            activation=hp["activation"],
            alpha=hp["alpha"],
            batch_size=hp["batch_size"],
            learning_rate_init=hp["lr"],
            beta_1=hp["beta_1"],
            # A generator, not a number: it is saved with the network, so a resumed trial trains as if never paused.
            random_state=np.random.RandomState(self.trial.seed % 2**32),
        )

    def train(self):
        self.network.partial_fit(*self.training_digits, classes=range(10))

    def evaluate(self):
        accuracy = self.network.score(*self.validation_digits)
        print(f"loss {self.network.loss_:.4f}, accuracy {accuracy:.4f}")
        return {"accuracy": accuracy}

    def save(self, path):
        joblib.dump(self.network, path)

    def load(self, path):
        self.network = joblib.load(path)


def start_spark():
    """Start Spark on this machine, or use the cluster of spark-submit."""
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit sets it
    if not is_submitted:
        print("starting Java and Spark on this machine, which takes about 10 seconds ...", flush=True)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("digits-search")
    if not is_submitted:
        builder = builder.master("local[*]").config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.ui.enabled", "false")  # its port may be in use
    return builder.getOrCreate()


def make_study(store="studies/digits", seed=0, backend="auto"):
    """Describe the search without starting or writing anything."""
    return Study(
        DigitReader,
        space=SPACE,
        metric="accuracy",
        mode="max",
        scheduler=ASHA(max_resource=27, reduction_factor=3),  # rungs at 1, 3, 9 and 27 passes over the digits
        store=store,
        seed=seed,
        backend=backend,
        resume=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=64, help="trials in all (default: 64)")
    parser.add_argument(
        "--parallelism", type=int, help="workers (default: as many as Spark, or this machine, has slots)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", default="studies/digits", help="folder or URL that all workers see")
    parser.add_argument("--backend", default="spark", choices=("spark", "processes", "inline", "auto"))
    options = parser.parse_args()

    if options.backend == "spark":
        start_spark()
    study = make_study(options.store, options.seed, options.backend)
    print(study.preview(options.trials, parallelism=options.parallelism), end="\n\n")
    study.run(num_trials=options.trials, parallelism=options.parallelism)

    best = study.best_trial
    with study.checkpoint(best) as path:
        network = joblib.load(path)
    test_digits = split_digits()[2]
    trained, full = sum(trial.trained for trial in study.trials), 27 * len(study.trials)
    look = f"{shlex.quote(min(sys.executable, os.path.relpath(sys.executable), key=len))} -m asyncsearch"
    store = shlex.quote(options.store)
    print(f"""
the best is {best.name}: accuracy {best.value:.4f} on the digits that trials were compared on
  {best.params}
accuracy on {len(test_digits[0])} digits that no trial saw: {network.score(*test_digits):.4f}
trained {trained:,} passes over the digits instead of {full:,}: {1 - trained / full:.0%} saved
the study is stored in {options.store}; inspect it with
  {look} show {store}
  {look} trials {store} --sort value --limit 10
  {look} explain {store} {best.name}""")


if __name__ == "__main__":
    main()
