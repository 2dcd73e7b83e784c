"""Limits a runner to its share of a GPU's memory, in PyTorch and TensorFlow, before the user's code has used it.

The agent says the share in an environment variable. A framework is told when it is imported, whoever imports it.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

SHARE = "ASYNCSEARCH_GPU_SHARE"
"""Name of the variable with a runner's share of the memory of each GPU that it sees, below 1."""

ModuleCall = Callable[[Any], None]
_ANSWERS_WITHIN_S = 30.0


def limit_memory(environment: Mapping[str, str]) -> None:
    """Limit this process to the share that its environment names, if it names one."""
    share = float(environment.get(SHARE) or 1.0)
    if share < 1.0:
        when_imported({"torch": lambda torch: limit_torch(torch, share)})
        when_imported({"tensorflow": lambda tensorflow: limit_tensorflow(tensorflow, share)})


def when_imported(calls: Mapping[str, ModuleCall]) -> None:
    """ModuleCall functions with modules by their names: now, or as soon as each has been imported."""
    for name in calls.keys() & sys.modules.keys():
        calls[name](sys.modules[name])
    sys.meta_path.insert(0, _Watch({name: call for name, call in calls.items() if name not in sys.modules}))


def limit_torch(torch: Any, share: float) -> None:
    """Limit PyTorch to a share of each GPU, once it uses them."""

    def limit() -> None:
        for device in range(torch.cuda.device_count()):
            torch.cuda.set_per_process_memory_fraction(share, device)

    # Where CUDA is begun at the import of torch, no process can be forked that uses it.
    torch.cuda._lazy_call(limit)


def limit_tensorflow(tensorflow: Any, share: float) -> None:
    """Limit TensorFlow to a share of each GPU; where its memory is unknown, let it take no more than it needs."""
    config = tensorflow.config
    names = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    for gpu, name in zip(config.list_physical_devices("GPU"), names, strict=False):
        if total := _memory_of(name):
            limit = config.LogicalDeviceConfiguration(memory_limit=int(total * share))
            config.set_logical_device_configuration(gpu, [limit])
        else:
            config.experimental.set_memory_growth(gpu, True)


def _memory_of(name: str) -> int:
    """Return the memory of a GPU in MiB, by index or UUID. 0 if it is unknown, as that of a MIG device."""
    command = ["nvidia-smi", f"--id={name}", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_ANSWERS_WITHIN_S).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return int(answer) if answer.strip().isdecimal() else 0


class _Watch(MetaPathFinder):
    """Finds nothing itself: it lets a function be called with a module that another finder has found and loaded."""

    def __init__(self, calls: dict[str, ModuleCall]) -> None:
        self._calls = calls
        self._asked: set[tuple[int, str]] = set()
        """Threads that ask the other finders, and for which module: they ask this one again."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        question = threading.get_ident(), fullname
        if fullname not in self._calls or question in self._asked:
            return None
        self._asked.add(question)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asked.discard(question)
        if spec is not None and spec.loader is not None:
            self._watch(spec.loader)
        return spec

    def _watch(self, loader: Any) -> None:
        """Let the call follow the load, not the search: many libraries only ask whether a framework is there."""
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            if call := self._calls.pop(module.__name__, None):
                call(module)

        loader.exec_module = exec_module
