"""Find a learning-rate schedule for a network that reads handwritten digits; common parts of schedules train once.

    python scripts/digits_schedules.py --backend processes    on this machine, without Spark
    spark-submit --master spark://host:7077 scripts/digits_schedules.py --store /shared/studies/schedules

To continue the study after any interruption, run the same command again.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys

import joblib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from asyncsearch import FIFO, GridSearch, Study, Trainer, choice
from asyncsearch.sequences import cyclic, exponential, multistep, revive, values, warmup

EPOCHS = 24
DROPS = choice([8, 16], [12, 18], [16, 20], [16])  # where the rate falls to a tenth
SPACE = {
    "lr": choice(
        multistep(0.1, milestones=DROPS),
        warmup(4, multistep(0.1, milestones=DROPS), start=0.02),
        warmup(4, exponential(0.1, gamma=choice(0.85, 0.95)), start=0.02),
        cyclic(0.01, 0.2, up=choice(4, 8)),
    ),
    "batch_size": choice(32, values([32, 128], milestones=[12]), values([32, 128], milestones=[18])),
}


def split_digits():
    """Return 1,797 images of 8 x 8 pixels in three parts, always the same: to train, to compare trials, to test."""
    images, labels = load_digits(return_X_y=True)
    rest, test, rest_y, test_y = train_test_split(images / 16, labels, test_size=360, stratify=labels, random_state=0)
    train, valid, train_y, valid_y = train_test_split(rest, rest_y, test_size=360, stratify=rest_y, random_state=0)
    return (train, train_y), (valid, valid_y), (test, test_y)


class DigitReader(Trainer):
    """One network; a unit of training is one pass over the digits."""

    def setup(self, hp):
        self.training_digits, self.validation_digits, _ = self.trial.once(split_digits)  # once a process
        self.network = MLPClassifier(
            hidden_layer_sizes=(64,),
            solver="sgd",
            learning_rate_init=hp["lr"],
            batch_size=hp["batch_size"],
            # A generator, not a number: it is saved with the network, so a resumed trial trains as if never paused.
            random_state=np.random.RandomState(self.trial.seed % 2**32),
        )

    def update(self, hp):
        if "lr" in hp:
            # The network used learning_rate_init to make its optimizer; since then only the optimizer's rate counts.
            self.network._optimizer.learning_rate = hp["lr"]
        if "batch_size" in hp:
            self.network.batch_size = hp["batch_size"]

    def train(self):
        self.network.partial_fit(*self.training_digits, classes=range(10))

    def evaluate(self):
        accuracy = self.network.score(*self.validation_digits)
        print(f"loss {self.network.loss_:.4f}, accuracy {accuracy:.4f}, lr {self.trial.params['lr']:.4f}")
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

    builder = SparkSession.builder.appName("digits-schedules")
    if not is_submitted:
        builder = builder.master("local[*]").config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.ui.enabled", "false")  # its port may be in use
    return builder.getOrCreate()


def make_study(store="studies/schedules", seed=0, backend="auto"):
    """Describe the search without starting or writing anything."""
    return Study(
        DigitReader,
        space=SPACE,
        metric="accuracy",
        mode="max",
        searcher=GridSearch(),
        scheduler=FIFO(max_resource=EPOCHS),
        store=store,
        seed=seed,
        backend=backend,
        resume=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, help="trials in all (default: every combination, 36)")
    parser.add_argument(
        "--parallelism", type=int, help="workers (default: as many as Spark, or this machine, has slots)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", default="studies/schedules", help="folder or URL that all workers see")
    parser.add_argument("--backend", default="spark", choices=("spark", "processes", "inline", "auto"))
    options = parser.parse_args()

    if options.backend == "spark":
        start_spark()
    study = make_study(options.store, options.seed, options.backend)
    study.run(num_trials=options.trials, parallelism=options.parallelism)

    best = study.best_trial
    with study.checkpoint(best) as path:
        network = joblib.load(path)
    test_digits = split_digits()[2]
    trained, asked = sum(trial.trained for trial in study.trials), sum(trial.resource for trial in study.trials)
    look = f"{shlex.quote(min(sys.executable, os.path.relpath(sys.executable), key=len))} -m asyncsearch"
    store = shlex.quote(options.store)
    print(f"""
the best is {best.name}: accuracy {best.value:.4f} on the digits that trials were compared on""")
    for name, value in revive(best.params).items():
        print(f"  {name}: {value}")
    print(f"""accuracy on {len(test_digits[0])} digits that no trial saw: {network.score(*test_digits):.4f}
{len(study.trials)} trials asked for {asked:,} passes over the digits, {trained:,} were trained: {
        1 - trained / asked:.0%} saved, each pass serves {asked / trained:.2f} trials
the study is stored in {options.store}; inspect it with
  {look} tree {store} --output tree.svg
  {look} trials {store} --sort value --limit 10
  {look} explain {store} {best.name}""")


if __name__ == "__main__":
    main()
