"""Stands in for a CUDA graph where there is no GPU: repeats operations of the CPU as a graph repeats those of a GPU.

Each operation of torch is kept with the tensors that it has read and written, and with its numbers as they were. A
replay runs no Python of the model: it computes each operation anew and writes the results to where the first ones are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode


class _Operations(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[Any, Any, Any, list[Any]]] = []

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        if function is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("operation not permitted when stream is capturing")
        result = function(*arguments, **(options or {}))
        self.found.append((function, arguments, options or {}, _pytree.tree_leaves(result)))
        return result


class RecordedOperations:
    """An ``OperationRecorder`` of the CPU."""

    device_type = "cpu"

    def __init__(self) -> None:
        self.recorded = 0
        """Passes that were recorded."""
        self.replays = 0
        """How many times one was replayed."""

    def record(self, run: Callable[[], Any], device: Any) -> tuple[Any, Callable[[], None]]:
        """Run a function, and keep its operations."""
        operations = _Operations()
        with operations:
            result = run()
        self.recorded += 1

        def replay() -> None:
            self.replays += 1
            with torch.no_grad():
                for function, arguments, options, results in operations.found:
                    again = _pytree.tree_leaves(function(*arguments, **options))
                    for one, other in zip(results, again, strict=True):
                        if isinstance(one, torch.Tensor) and one is not other:
                            one.copy_(other)

        return result, replay
