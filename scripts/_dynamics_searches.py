"""Parts of ``bench_dynamics``: searches, measured with this checkout and with an earlier one."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

LANES, PACKED = 16, (9, 30, 150)
CALL_OF_LANES_S = 0.05
"""Of up to 16 trainings together; more take as much longer as they are more."""


_BEGUN_S = 20.0
"""Time in which a process that imports beforehand begins."""


def killed_once(lines: Path) -> type[Any]:
    """Make a trainer in torch whose second trial kills its process, and which writes when it does and when it steps."""
    import torch

    from asyncsearch import TorchTrainer

    file = str(lines)

    class Killed(TorchTrainer):
        def model(self, hp: Any) -> Any:
            return torch.nn.Linear(64, 10)

        def optimizer(self, hp: Any, model: Any) -> Any:
            return torch.optim.Adam(model.parameters(), hp["lr"])

        def data(self, hp: Any) -> Any:
            from sklearn.utils import shuffle

            some = shuffle(torch.zeros(64, 64).numpy()), torch.zeros(64, dtype=torch.long).numpy()
            return some, some

        def step(self, batch: Any) -> None:
            super().step(batch)
            is_second = self.trial.name == "trial-1"
            if is_second and not Path(file).exists():
                megabytes = awaited_megabytes()
                Path(file).write_text(f"{megabytes} {time.monotonic()}")
                os.kill(os.getpid(), signal.SIGKILL)
            elif is_second and len(Path(file).read_text().split()) == 2:
                Path(file).write_text(f"{Path(file).read_text()} {time.monotonic()}")

    return Killed


def awaited_megabytes() -> float:
    """Wait until a process beside this one has no more to do, and return the memory that it alone has. 0: none is."""
    import psutil

    used, until_s = -1.0, time.monotonic() + _BEGUN_S
    while True:
        beside = [one for one in psutil.Process(os.getppid()).children() if one.pid != os.getpid()]
        with contextlib.suppress(psutil.NoSuchProcess):  # some try out a fork, and are gone at once
            if not beside and time.monotonic() < until_s:
                time.sleep(0.1)
                continue
            if not beside or used == (used := sum(one.cpu_times().user for one in beside)):
                return sum(one.memory_full_info().uss for one in beside) / 2**20
        time.sleep(5.0)


def killed(place: int) -> float:
    """Search in torch with one process killed; return one of the megabytes, and the seconds from there to a step."""
    from asyncsearch import FIFO, Study, loguniform

    with tempfile.TemporaryDirectory() as name:
        lines = Path(name) / "times"
        study = Study(
            killed_once(lines),
            space={"lr": loguniform(1e-3, 1e-1)},
            metric="accuracy",
            mode="max",
            scheduler=FIFO(max_resource=2),
            seed=1,
            store=Path(name) / "study",
            backend="processes",
        )
        study.run(2, parallelism=1, display="none")
        megabytes, killed_s, stepped_s = map(float, lines.read_text().split())
        return (megabytes, stepped_s - killed_s)[place]


def packed(folder: Path) -> type[Any]:
    """Make a trainer that writes the trials of each of its calls."""
    from asyncsearch import Trainer

    lines = str(folder / "calls")

    class Packed(Trainer):
        def setup(self, hp: Mapping[str, Any]) -> None:
            self.units, self.x = 0, hp["x"]

        def train(self) -> None:
            type(self).train_pack([self])

        @classmethod
        def train_pack(cls, trainers: Sequence[Any]) -> None:
            with open(lines, "a") as file:
                file.write(" ".join(one.trial.name for one in trainers) + "\n")
            time.sleep(CALL_OF_LANES_S * max(1.0, len(trainers) / LANES))
            for one in trainers:
                one.units += 1

        def evaluate(self) -> dict[str, float]:
            return {"loss": float(self.x + 1 / self.units)}

        def save(self, path: Path) -> None:
            path.write_text(str(self.units))

        def load(self, path: Path) -> None:
            self.units = int(path.read_text())

    return Packed


def calls(pack: int | str, trials: int) -> list[list[str]]:
    """Search on one worker, and return the trials of each call of the trainer."""
    from asyncsearch import ASHA, Study, uniform

    with tempfile.TemporaryDirectory() as name:
        study = Study(
            packed(Path(name)),
            space={"x": uniform(0.0, 1.0)},
            metric="loss",
            mode="min",
            scheduler=ASHA(max_resource=9),
            seed=1,
            store=Path(name) / "study",
            backend="processes",
            pack=pack,
        )
        study.run(trials, parallelism=1, display="none")
        return [line.split() for line in (Path(name) / "calls").read_text().splitlines()]


def lanes_filled() -> float:
    """Return how many lanes of 16 train, on average, before the last trial begins."""
    found = calls(LANES, 100)
    seen: set[str] = set()
    steady = []
    for lanes in found:
        is_last = len(seen | set(lanes)) == 100
        seen |= set(lanes)
        if is_last:
            break
        steady.append(len(lanes))
    return sum(steady) / len(steady)


def auto_calls(trials: int) -> float:
    """Return the calls of ``auto`` as a part of those of the best size."""
    return len(calls("auto", trials)) / len(calls(LANES, trials))


def keras_cpu() -> float:
    """Return the CPU seconds of a process that searches with small networks of Keras, its imports included."""
    from asyncsearch import ASHA, KerasTrainer, Study, choice, loguniform

    class Digits(KerasTrainer):
        def model(self, hp: Any) -> Any:
            import keras

            layers = keras.layers
            return keras.Sequential(
                [layers.Input((64,)), layers.Dense(hp["width"], "relu"), layers.Dense(10, "softmax")]
            )

        def optimizer(self, hp: Any) -> Any:
            import keras

            return keras.optimizers.Adam(hp["lr"])

        def data(self, hp: Any) -> Any:
            from sklearn.datasets import load_digits

            x, y = load_digits(return_X_y=True)
            x = (x / 16).astype("float32")
            return (x[:1400], y[:1400]), (x[1400:], y[1400:])

    with tempfile.TemporaryDirectory() as name:
        study = Study(
            Digits,
            space={"lr": loguniform(1e-3, 1e-1), "width": choice([32, 64])},
            metric="accuracy",
            mode="max",
            scheduler=ASHA(max_resource=9, reduction_factor=3),
            seed=1,
            store=Path(name) / "study",
            backend="inline",
            pack=None,
        )
        study.run(15, parallelism=1, display="none")
    return time.process_time()


MEASURED: dict[str, tuple[str, Callable[[], float]]] = {
    "preload_mb": ("MB", lambda: killed(0)),
    "kill_to_step_s": ("s", lambda: killed(1)),
    "lanes_filled": ("of 16", lanes_filled),
    **{f"auto_calls_{trials}": ("of best", lambda trials=trials: auto_calls(trials)) for trials in PACKED},
    "keras_cpu_ratio": ("before / now", keras_cpu),
}
"""Each runs in a process of its own: unit and measurement."""
RATIOS = frozenset({"keras_cpu_ratio"})
"""Parts whose figure is the baseline's measurement as a multiple of this checkout's."""
