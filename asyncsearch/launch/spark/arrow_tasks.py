"""The function of a query of Spark Connect that is a task: it takes Arrow batches, and yields its answers as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any


def arrow_task(task: Callable[[Iterable[int]], Iterable[Any]]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function of a query. A nested function is sent by value, because executors may lack asyncsearch."""

    def batches(rows: Iterator[Any]) -> Iterator[Any]:
        import json

        import pyarrow

        for _ in rows:  # the numbers of the tasks
            pass
        yield pyarrow.RecordBatch.from_pydict({"answer": [json.dumps(one) for one in task([])]})

    return batches


def answer_in(text: str) -> Any:
    """Return an answer with the tuples that a classic session returns, which JSON has as lists."""
    return _with_tuples(json.loads(text))


def _with_tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_with_tuples(one) for one in value)
    if isinstance(value, dict):
        return {key: _with_tuples(one) for key, one in value.items()}
    return value
