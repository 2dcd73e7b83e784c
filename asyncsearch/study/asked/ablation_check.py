"""What an ablation study needs before workers start: variants that fit, and its functions beside the trainable."""

from __future__ import annotations

from typing import Any

from asyncsearch.ablation.left_out import PARAMETER
from asyncsearch.ablation.own_functions import SentWith
from asyncsearch.checking.ablated_variants import can_try
from asyncsearch.checking.processes import in_child
from asyncsearch.checking.training_runs import Task, name_of
from asyncsearch.report.live.display import announced
from asyncsearch.searchers.ablation import Ablation
from asyncsearch.searchers.base_searcher import Searcher, SearcherState
from asyncsearch.store.scratch import temporary_folder
from asyncsearch.trainable import Trainable


def require_ablated(trainable: Trainable | None, searcher: Searcher, state: SearcherState) -> None:
    """Set each variant up once, in another process, if the searcher is an ``Ablation`` and the trainable a trainer.

    Raises:
        UsageError: a layer or a feature does not exist, or the network cannot be computed without it.
    """
    if not isinstance(searcher, Ablation) or trainable is None or not can_try(trainable):
        return
    base = state.propose(0)
    assert base is not None
    values = [base[PARAMETER], *(one.value for one in searcher.variants())]
    words = f"setting up {name_of(trainable)} in {len(values)} variants, in a process of its own, to see that they fit"
    with announced(words), temporary_folder("ablation") as folder:
        sent = sent_with_functions(trainable, searcher)
        in_child(Task(sent, {**base, PARAMETER: values}, 0, 1, 1, {}, folder), "try variants", [])


def sent_with_functions(trainable: Trainable, searcher: Searcher) -> Any:
    """Return a trainable as it is sent to workers, with the functions of an ``Ablation`` that make variants."""
    functions = searcher.functions() if isinstance(searcher, Ablation) else {}
    return SentWith(trainable, functions) if functions else trainable
