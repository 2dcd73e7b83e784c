"""``Study(..., workers_per_trial=)``: which studies may train a trial on several workers, as far as that is known."""

from __future__ import annotations

import ast

from asyncsearch.errors import NotEnoughSlotsError, UsageError
from asyncsearch.fair.demands import GangSizes
from asyncsearch.sizing.autoscale import Autoscale
from asyncsearch.sizing.gangs import Gang, gang_of
from asyncsearch.sizing.packing import Packing
from asyncsearch.space import Space
from asyncsearch.study.asked.trainable_source import source_of, trial_argument
from asyncsearch.trainable import Trainable, Trainer

_USES = frozenset({"process_group", "rank", "world_size"})
"""Attributes of its trial that a function which trains on several workers reads."""


def gang_for(
    trainable: Trainable,
    space: Space,
    workers_per_trial: int | Gang | None,
    packing: Packing | None,
    autoscale: Autoscale | None,
) -> Gang | None:
    """Return how many workers train a trial of a study together; None means one.

    Raises:
        UsageError: an option breaks its rule, or the trainable cannot be trained by several workers, or by so many.
    """
    gang = gang_of(workers_per_trial, autoscale)
    if gang is None:
        return None
    option = f"workers_per_trial={gang.size}" if gang.size > 1 else "autoscale="
    if packing is not None:
        raise UsageError(
            f"{option} and pack=: one trains a trial on several workers, the other several trials on one. Leave out "
            "one of the two."
        )
    _require_distributable(trainable, option)
    _require_shares(trainable, space, gang)
    return gang


def require_workers(gang: Gang | None, parallelism: int | None) -> None:
    """Check the number of workers that a run was asked for, before anything is started.

    Raises:
        UsageError: they are too few for one trial.
    """
    if gang is not None and parallelism is not None and parallelism < least_workers(gang):
        raise UsageError(
            f"parallelism={parallelism} counts workers, and each trial trains on {_words(gang)}: run with "
            f"parallelism={gang.size} or more, or give the study fewer workers_per_trial."
        )


def require_limit(gang: Gang | None, max_workers: int | None) -> None:
    """Check the most workers that a study is to have of a cluster, before anything is started.

    Raises:
        UsageError: they are too few for one trial.
    """
    if gang is not None and max_workers is not None and max_workers < least_workers(gang):
        raise UsageError(
            f"max_workers={max_workers} is less than one trial needs, which trains on {_words(gang)}: write "
            f"max_workers={gang.size} or more, or give the study fewer workers_per_trial."
        )


def least_workers(gang: Gang | None) -> int:
    """Return the fewest workers that can train a trial."""
    return sizes_of(gang).least


def sizes_of(gang: Gang | None) -> GangSizes:
    """Return which numbers of workers a study can use."""
    return GangSizes() if gang is None else GangSizes(gang.size, gang.min_size)


def useful_workers(gang: Gang | None, num_trials: int | None) -> int | None:
    """Return how many workers so many trials can use; None means any number."""
    if gang is None or num_trials is None:
        return num_trials
    scale = gang.autoscale
    most = gang.size if scale is None else scale.max_size
    return None if most is None else num_trials * most


def workers_for(gang: Gang | None, workers: int) -> int:
    """Return how many of the workers that there are can be used.

    Raises:
        NotEnoughSlotsError: they are too few for one trial.
    """
    if gang is None:
        return workers
    if workers < least_workers(gang):
        raise NotEnoughSlotsError(
            f"Each trial trains on {_words(gang)}, and there is room for {workers}: give the study fewer "
            "workers_per_trial, or the cluster more slots."
        )
    return workers if gang.min_size is not None else workers // gang.size * gang.size


def gangs_of(gang: Gang | None, workers: int) -> int:
    """Return how many trials so many workers train at once.

    Raises:
        UsageError: not one.
    """
    require_workers(gang, workers)
    return workers if gang is None else max(1, workers // gang.size)


def gang_notes(gang: Gang | None, workers: int) -> list[str]:
    """Return sentences on what a preview supposes of the workers of a trial, of so many."""
    if gang is None or gang.size == 1:
        return []
    return [f"{min(gang.size, workers)} workers train each trial; the time of a unit is theirs together."]


def _words(gang: Gang) -> str:
    return f"{gang.size} workers" if gang.min_size is None else f"{gang.min_size} to {gang.size} workers"


def _require_distributable(trainable: Trainable, option: str) -> None:
    name = getattr(trainable, "__name__", repr(trainable))
    if isinstance(trainable, type) and issubclass(trainable, Trainer):
        if refusal := trainable.gang_refusal():
            raise UsageError(f"{option} needs a trainable that several workers train: {refusal}")
    elif not _may_distribute(trainable):
        word = option.partition("=")[0]
        raise UsageError(
            f"{option}: {name} reads neither trial.process_group() nor trial.rank, so that all workers of a trial "
            "would train the same. Let it average gradients, as in DistributedDataParallel(net, "
            f"process_group=trial.process_group()), or leave out {word}=."
        )


def _may_distribute(function: Trainable) -> bool:
    """Return whether a function may train on several workers: its source says so, or does not show all of it."""
    tree = source_of(function)
    name = trial_argument(function, tree)
    if tree is None or not name:
        return True
    attributes = {id(node.value): node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    return any(attributes.get(id(node), "process_group") in _USES for node in uses)


def _require_shares(trainable: Trainable, space: Space, gang: Gang) -> None:
    """Check that each worker of a trial has a sample of each whole batch."""
    least = min(_batch_sizes(trainable, space), default=gang.size)
    if least < gang.size:
        raise UsageError(
            f"workers_per_trial={gang.size}: of batch_size={least} some workers of a trial would get no sample. Let "
            f"every batch_size be at least {gang.size}, or lower workers_per_trial to {max(1, least)}."
        )


def _batch_sizes(trainable: Trainable, space: Space) -> list[int]:
    """Return the sizes of batches, the least among them, that the space has, or else a trainer; none: unknown."""
    if not (isinstance(trainable, type) and issubclass(trainable, Trainer)):
        return []
    domain = space.parameters.get("batch_size")
    sizes = [getattr(trainable, "batch_size", None)] if domain is None else domain.grid(2)
    return [size for size in sizes if isinstance(size, int)]
