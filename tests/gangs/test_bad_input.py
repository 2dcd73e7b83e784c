"""What cannot train on several workers is refused before a worker starts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, Cluster, Gang, Study, Trainer, choice, randint, run_together, uniform
from asyncsearch.errors import AsyncSearchError, NotEnoughSlotsError, UsageError
from asyncsearch.ids import WorkerId
from asyncsearch.launch.base_launcher import Launcher, Preflight
from asyncsearch.launch.processes import ProcessLauncher
from asyncsearch.study.asked.gang_option import workers_for
from tests.gangs.searches import Digits, linear


def fits_alone(trial: Any) -> None:
    trial.report(loss=trial.params["x"])


def fits_in_a_helper(trial: Any) -> None:
    helper(trial)


def helper(trial: Any) -> None:
    trial.process_group()
    trial.report(loss=1.0)


class Own(Trainer):
    def train(self) -> None: ...

    def evaluate(self) -> dict[str, float]:
        return {}


class OwnStep(Digits):
    def step(self, batch: Any) -> None:
        self.loss(self.net, batch).backward()
        self.opt.step()


class InThrees(Digits):
    batch_size = 3


class PassedOn(Digits):
    def step(self, batch: Any) -> None:
        super().step(batch)


def study(store: Path, trainable: Any = None, **options: Any) -> Study:
    settings: dict[str, Any] = {"scheduler": FIFO(max_resource=2)} | options
    settings.setdefault("space", {"x": uniform(0, 1)})
    return Study(trainable or linear(), metric="loss", mode="min", store=store, **settings)


class TwoSlots(ProcessLauncher):
    """A cluster of two slots."""

    def check(self, parallelism: int | None) -> Preflight:
        if (parallelism or 0) > 2:
            raise NotEnoughSlotsError("There are 2.")
        return Preflight(parallelism=2)

    def launch(self, worker: WorkerId, epoch: int) -> None:
        raise AssertionError("a worker was started")


def submitted(cluster: int | Launcher, made: Study, **terms: Any) -> None:
    """Submit a study to a cluster of so many workers."""
    backend: Any = cluster if isinstance(cluster, Launcher) else "processes"
    workers = None if isinstance(cluster, Launcher) else cluster
    with Cluster(workers, backend=backend, display="none") as shared:
        shared.submit(made, 2, **terms)


CALLS: list[tuple[Callable[[Path], object], str]] = [
    (lambda at: study(at, workers_per_trial=0), "workers_per_trial=0 is no number of workers: write an integer from 1"),
    (lambda at: study(at, workers_per_trial=1.5), "workers_per_trial=1.5 is no number"),
    (lambda at: study(at, workers_per_trial=True), "workers_per_trial=True is no number"),
    (lambda _: Gang(2, min_size=3), "min_size=3 must be an integer from 1 to size=2"),
    (lambda _: Gang(2, min_size=0), "min_size=0 must be"),
    (lambda at: study(at, Digits, workers_per_trial=2, pack=4), "Leave out one of the two"),
    (lambda at: study(at, fits_alone, workers_per_trial=2), "all workers of a trial would train the same"),
    (lambda at: study(at, Own, workers_per_trial=2), "derive it from TorchTrainer"),
    (lambda at: study(at, OwnStep, workers_per_trial=2), "write self.parallel in its place"),
    (
        lambda at: study(at, InThrees, workers_per_trial=4),
        "batch_size=3 some workers of a trial would get no sample. Let every batch_size be at least 4, or lower",
    ),
    (
        lambda at: study(at, space={"batch_size": choice(8, 2)}, trainable=Digits, workers_per_trial=4),
        "of batch_size=2 some workers",
    ),
    (
        lambda at: study(at, space={"batch_size": randint(3, 8)}, trainable=Digits, workers_per_trial=Gang(4, 2)),
        "of batch_size=3 some workers",
    ),
    (
        lambda at: study(at, workers_per_trial=4).run(2, parallelism=3, display="none"),
        "parallelism=3 counts workers, and each trial trains on 4 workers: run with parallelism=4 or more",
    ),
    (
        lambda at: submitted(2, study(at, workers_per_trial=4)),
        "parallelism=2 counts workers, and each trial trains on 4 workers: run with parallelism=4 or more",
    ),
    (
        lambda at: submitted(TwoSlots(), study(at, workers_per_trial=Gang(4, min_size=3))),
        "Each trial trains on 3 to 4 workers, and there is room for 2",
    ),
    (
        lambda at: submitted(8, study(at, workers_per_trial=4), max_workers=3),
        "max_workers=3 is less than one trial needs, which trains on 4 workers: write max_workers=4 or more",
    ),
    (
        lambda at: run_together(
            [study(at, workers_per_trial=3, backend=TwoSlots()), study(at.with_name("t"))], num_trials=2
        ),
        "Each trial trains on 3 workers, and there is room for 2",
    ),
    (
        lambda at: study(at, workers_per_trial=2, backend="inline").run(2, display="none"),
        "Each trial trains on 2 workers, and there is room for 1",
    ),
]


@pytest.mark.parametrize(("call", "words"), CALLS, ids=[words[:30] for _, words in CALLS])
def test_what_cannot_be_is_refused_in_words(tmp_path: Path, call: Callable[[Path], object], words: str) -> None:
    with pytest.raises((UsageError, NotEnoughSlotsError), match=re.escape(words)):
        call(tmp_path / "s")
    assert not (tmp_path / "s" / "journal").exists()


@pytest.mark.parametrize("sizes", [3, choice(8, 3), randint(3, 8)], ids=repr)
def test_batches_of_which_each_worker_gets_a_sample_are_taken(tmp_path: Path, sizes: Any) -> None:
    made = study(tmp_path / "s", space={"batch_size": sizes}, trainable=Digits, workers_per_trial=3)
    assert made.gang == Gang(3)


def test_a_step_that_calls_that_of_its_class_is_taken_at_its_word(tmp_path: Path) -> None:
    assert study(tmp_path / "s", PassedOn, workers_per_trial=2).gang == Gang(2)


def test_a_function_that_passes_its_trial_on_is_taken_at_its_word(tmp_path: Path) -> None:
    assert study(tmp_path / "s", fits_in_a_helper, workers_per_trial=2).gang == Gang(2)


def of_many_kinds(trial: Any) -> None:
    from asyncsearch.trainers.torch.gangs import process_groups

    process_groups._device = lambda: f"GPU of kind {trial.rank}"
    trial.process_group()
    trial.report(loss=1.0)


@pytest.mark.slow
def test_ranks_with_unequal_devices_fail_and_say_which_has_what(tmp_path: Path) -> None:
    made = study(tmp_path / "s", of_many_kinds, workers_per_trial=2, backend="processes")
    with pytest.raises(AsyncSearchError, match="rank 0 has GPU of kind 0, and rank 1 has GPU of kind 1"):
        made.run(1, parallelism=2, display="none")


def test_one_worker_a_trial_is_no_gang(tmp_path: Path) -> None:
    assert study(tmp_path / "s", fits_alone, workers_per_trial=1).gang is None


@pytest.mark.parametrize(
    ("gang", "workers", "used"), [(None, 3, 3), (Gang(2), 5, 4), (Gang(4), 4, 4), (Gang(4, min_size=1), 7, 7)]
)
def test_workers_that_cannot_make_up_a_gang_are_not_started(gang: Gang | None, workers: int, used: int) -> None:
    assert workers_for(gang, workers) == used
