"""Objects of a script's own classes can be pickled in a trial, and unpickled in another process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import pickle, sys
from asyncsearch import ASHA, Study, Trainer, uniform

class Layer:
    size = 3

class Net:
    def __init__(self):
        self.layers, self.units = [Layer()], 0

def make():
    return Net()

def train(trial):
    net = make()
    def save(path):
        path.write_bytes(pickle.dumps(net))
    def load(path):
        nonlocal net
        net = pickle.loads(path.read_bytes())
    for unit in trial.epochs(save=save, load=load):
        net.units += 1
        assert net.units == unit
        trial.report(loss=1.0)

class Trained(Trainer):
    def setup(self, hp):
        self.net = make()
    def train(self):
        self.net.units += 1
    def evaluate(self):
        return {"loss": 1.0}
    def save(self, path):
        path.write_bytes(pickle.dumps(self.net))
    def load(self, path):
        self.net = pickle.loads(path.read_bytes())

if __name__ == "__main__":
    for trainable in (train, Trained):
        study = Study(trainable, space={"x": uniform(0, 1)}, metric="loss", mode="min", backend="processes",
                      scheduler=ASHA(max_resource=3), store=sys.argv[1] + "/" + trainable.__name__)
        study.run(3, parallelism=2, display="none")
        with study.checkpoint() as path:
            print(type(pickle.loads(path.read_bytes())).__name__, study.best_trial.resource)
"""


def test_a_script_pickles_and_reads_its_own_classes_in_its_trials(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["Net", "3", "Net", "3"], done.stdout + done.stderr
