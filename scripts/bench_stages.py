"""The savings from training shared stages once: 54 schedules of a small CNN on the digits, and 448 of ResNet56.

The CNN is trained in torch for 8 epochs, on a grid of step, warm-up and cyclic learning rates, batch sizes and momenta.
Figures: ``merge_rate`` is the number of trained units without sharing over that with it. ``training_ratio`` is the time
inside ``Trainer.train``, summed over all units, of one worker; it is CPU time of the training thread, so that other
activity of the machine is not included. ``saving_off_percent`` is the difference between the saving in training time
and the merge rate; its baseline is the goal. Batch sizes grow in some schedules and shrink in others, so that the
larger one has about the same share of the units with sharing as without, 36 % and 33 %: they cost differently, and if
all grew, the saving would depend on the amount. ``unit_ratio`` is the time of the units with sharing, over that of as
many units of the same batch sizes without it.

Each search is run three times, in turns. With one worker each unit's time is that of its fastest round; of the rest,
the fastest search counts. ``wall_ratio_1`` and ``wall_ratio_2`` are the time from the first ``Assign`` to the end of
the search, with one and two workers. ``bytes_ratio`` is the total size of all written checkpoints, and
``bytes_held_ratio`` the largest size at any time: a trial that trains alone saves only at its end, and a shared one
also where others part from it. The baseline of all of these is the same search with ``share=False`` in the same run.

``explored_rate_sha`` and ``explored_rate_asha`` are the units requested by all of the 448 trials over the trained ones,
in simulated searches on 8 workers with a reduction factor of 4 and the rungs of the Hippo paper, 15, 60 and 120 (ours
would be 30 and 120, counted from the top). Their baselines are the paper's rates; its space is not public.

    python scripts/bench_stages.py      needs torch and scikit-learn
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from _bench import Figure, show

from asyncsearch import ASHA, FIFO, SHA, GridSearch, Study, choice
from asyncsearch.actions import AnyAction, Assign, DeleteCheckpoint, EndRun
from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, CheckpointCommitted, Reported
from asyncsearch.ids import CheckpointRef
from asyncsearch.journal.opening import read_records
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.sequences import values
from asyncsearch.simulate import Simulation

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from asyncsearch.testing.recording import Histories
from tests.sequences.spaces import RESNET56_EPOCHS, resnet56_space
from tests.trainers.digits import EPOCHS, schedules

CHANNELS = 12
TRAIN_ON = 1_437
SIMULATED_WORKERS = 8
PAPER_RUNGS = (15, 60, 120)
PAPER_SHA, PAPER_ASHA = 4.23, 4.81
GOAL_PERCENT = 5.0
ROUNDS = 3
BATCH_SIZES = choice(32, values([32, 48], milestones=[4]), values([48, 32], milestones=[4]))


@dataclass(frozen=True)
class Cost:
    """The costs of one search."""

    seconds: dict[str, list[float]]
    """Those of each unit, by batch size."""
    wall_s: float
    written: int
    """Bytes of all checkpoints."""
    held: int
    """Bytes of checkpoints at the time when they were most."""

    @property
    def units(self) -> int:
        return sum(map(len, self.seconds.values()))

    @property
    def training_s(self) -> float:
        return sum(map(sum, self.seconds.values()))

    def would_take(self, units: dict[str, list[float]]) -> float:
        """Return the seconds of units of these batch sizes, each at the average time of such a unit."""
        return sum(len(found) * statistics.fmean(self.seconds[size]) for size, found in units.items())


def timed(note: Path) -> type[Any]:
    """Return the trainer; each unit appends its seconds to a file."""
    from tests.trainers.digits_torch import TorchDigits

    class Timed(TorchDigits):
        channels = CHANNELS
        train_on = TRAIN_ON

        def train(self) -> None:
            began = time.thread_time()
            super().train()
            taken = time.thread_time() - began
            file = os.open(note, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(file, f"{self.hp['batch_size']} {taken!r}\n".encode())
            os.close(file)

    return Timed


def search(*, share: bool, workers: int) -> Cost:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        study = Study(
            timed(folder / "seconds"),
            space=schedules(BATCH_SIZES),
            metric="accuracy",
            mode="max",
            searcher=GridSearch(),
            scheduler=FIFO(max_resource=EPOCHS),
            store=folder / "study",
            share=share,
            backend="processes",
        )
        study.run(parallelism=workers, display="none")
        seconds: dict[str, list[float]] = {}
        for line in (folder / "seconds").read_text().splitlines():
            size, taken = line.split()
            seconds.setdefault(size, []).append(float(taken))
        return Cost(seconds, *journalled(study))


def quickest(*, workers: int) -> tuple[Cost, Cost]:
    """Return the fastest of several alternating searches without and with sharing: the speed of machines varies.

    With one worker the units come in the same order each time, and each one's time is that of its fastest round: the
    speed varies within a search, too.
    """
    costs = [(search(share=False, workers=workers), search(share=True, workers=workers)) for _ in range(ROUNDS)]
    alone, merged = (fastest(found, by_unit=workers == 1) for found in zip(*costs, strict=True))
    return alone, merged


def fastest(rounds: Sequence[Cost], *, by_unit: bool) -> Cost:
    """Return the fastest round, with each unit's time in its own fastest round if ``by_unit``."""
    best = min(rounds, key=lambda cost: cost.training_s)
    if not by_unit:
        return best
    times = {
        size: [min(same) for same in zip(*(cost.seconds[size] for cost in rounds), strict=True)]
        for size in best.seconds
    }
    return replace(best, seconds=times)


def journalled(study: Study) -> tuple[float, int, int]:
    """Return the seconds from the first work to the end, and the bytes of checkpoints: in total, and at the maximum."""
    began = ended = 0.0
    sizes: dict[CheckpointRef, int] = {}
    written = held = most = 0
    for record in read_records(study.store):
        if isinstance(record.event, CheckpointCommitted):
            sizes[record.event.checkpoint] = record.event.size_bytes
            written += record.event.size_bytes
            held += record.event.size_bytes
            most = max(most, held)
        for action in record.actions:
            if isinstance(action, Assign):
                began = began or record.t
            elif isinstance(action, EndRun):
                ended = record.t
            elif isinstance(action, DeleteCheckpoint):
                held -= sizes.pop(action.checkpoint, 0)
    return ended - began, written, most


def training() -> list[Figure]:
    """Return the savings from sharing in real training."""
    alone, merged = quickest(workers=1)
    alone_2, merged_2 = quickest(workers=2)
    merge_rate = alone.units / merged.units
    off = 100 * abs(alone.training_s / merged.training_s / merge_rate - 1)
    return [
        Figure("merge_rate", merge_rate, "times", 1.0),
        Figure("training_ratio", merged.training_s, "s", alone.training_s),
        Figure("saving_off_percent", off, "%", GOAL_PERCENT),
        Figure("unit_ratio", merged.training_s, "s", alone.would_take(merged.seconds)),
        Figure("wall_ratio_1", merged.wall_s, "s", alone.wall_s),
        Figure("wall_ratio_2", merged_2.wall_s, "s", alone_2.wall_s),
        Figure("bytes_ratio", merged.written / 1e6, "MB", alone.written / 1e6),
        Figure("bytes_held_ratio", merged.held / 1e6, "MB", alone.held / 1e6),
    ]


class Units:
    """Counts the units that simulated workers train."""

    def __init__(self) -> None:
        self.trained = 0

    def __call__(self, now: float, event: AnyEvent, actions: Sequence[AnyAction]) -> None:
        self.trained += isinstance(event, Reported)


def explored_rate(scheduler: Scheduler) -> float:
    config = EngineConfig(study="bench", metric="loss", mode="min", look_ahead=1_000)
    state = StudyState(config, GridSearch().begin(resnet56_space(), 0), scheduler.begin(), scheduler.max_resource)
    units = Units()
    end = Simulation(state, Histories(), workers=SIMULATED_WORKERS, watch=units).run(None)
    assert end is not None
    assert end.is_complete, end
    return sum(trial.resource for trial in state.trials) / units.trained


class PaperSHA(SHA):
    """Has the rungs of the paper."""

    levels = PAPER_RUNGS


class PaperASHA(ASHA):
    """Has the rungs of the paper."""

    levels = PAPER_RUNGS


def exploring() -> list[Figure]:
    """Return the rates of sharing if most trials are stopped early."""
    settings: dict[str, Any] = {"max_resource": RESNET56_EPOCHS, "min_resource": 15, "reduction_factor": 4}
    return [
        Figure("explored_rate_sha", explored_rate(PaperSHA(**settings)), "times", PAPER_SHA),
        Figure("explored_rate_asha", explored_rate(PaperASHA(**settings)), "times", PAPER_ASHA),
    ]


def main() -> None:
    show("Training once what trials share", [*training(), *exploring()])


if __name__ == "__main__":
    main()
