"""What this process has compiled, and the one compilation that is under way."""

from __future__ import annotations

import atexit
import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from asyncsearch.packing.compile_process import CompileProcess
from asyncsearch.packing.compiled_step import CompiledStep, Run
from asyncsearch.packing.step_graph import StepShape, StepTensors
from asyncsearch.trainers.compile_rule import MOST_COMPILED

GraphKey = tuple[Any, ...]
"""The code of a graph, and shapes and dtypes of its inputs: what they determine is the same step."""


@dataclass
class Compilation:
    """One graph that was, or is, compiled."""

    shape: StepShape
    lanes: int
    process: CompileProcess | None = None
    """While it is under way."""
    step: CompiledStep | None = None
    cost_s: float | None = None
    """CPU time that it took."""
    eager_s: float = 0.0
    """What a step takes that is not compiled, where the two were compared."""
    compiled_s: float | None = None
    """What a step takes, once that was measured."""
    words: str = ""
    """Why it is not used; empty: it is, or will be."""


class StepCompiler:
    """Compiles steps for all packs of a process, one at a time, and keeps what it has made."""

    def __init__(self) -> None:
        self._made: dict[GraphKey, Compilation] = {}
        self._has_explained = False
        self._is_broken = False

    @property
    def is_busy(self) -> bool:
        """Whether a compilation is under way."""
        return any(one.process is not None for one in self._made.values())

    @property
    def can_begin(self) -> bool:
        """Whether another graph may be compiled now."""
        return not self.is_busy and not self._is_broken and len(self._made) < MOST_COMPILED

    def likely(self, shape: StepShape, members: int) -> Compilation | None:
        """Return what may have been compiled for such a step: whether it has the same graph shows when it is traced."""
        for one in self._made.values():
            if one.step is not None and not one.words and one.step.fits(shape, members):
                return one
        return None

    def find(self, key: GraphKey) -> Compilation | None:
        """Return what became of a graph; None: it was not compiled."""
        return self._made.get(key)

    def begin(self, key: GraphKey, graph: Any, shape: StepShape, tensors: StepTensors, scratch: Path | None) -> None:
        """Begin to compile a graph in another process."""
        found = self._made[key] = Compilation(shape, len(tensors.weights))
        try:
            found.process = CompileProcess(graph, [(one.shape, one.dtype) for one in tensors.flat()], scratch)
        except Exception as error:
            self._failed(found, f"{type(error).__name__}: {error}")

    def poll(self) -> None:
        """Take what a process has made, once it has ended, whichever stack has begun it."""
        for found in self._made.values():
            self._take(found)

    def _take(self, found: Compilation) -> None:
        process = found.process
        if process is None or not process.is_over():
            return
        found.process = None
        try:
            library = process.library()
            if library is None:
                self._failed(found, process.words())
                return
            found.cost_s = process.cost_s()
            found.step = CompiledStep(loaded(library), found.shape, found.lanes)
        except Exception as error:
            self._failed(found, f"{type(error).__name__}: {error}")
        finally:
            process.close()

    def close(self) -> None:
        """End what is under way."""
        for found in self._made.values():
            if found.process is not None:
                found.process.close()
                found.process = None

    def _failed(self, found: Compilation, words: str) -> None:
        found.words, self._is_broken = words, True
        self.say(words)

    def say(self, words: str) -> None:
        """Say once in this process why steps are not compiled."""
        if not self._has_explained:
            self._has_explained = True
            sys.stderr.write(f"asyncsearch: the step of these packs is not compiled, and trains as before: {words}\n")


def loaded(library: Path) -> Run:
    """Return the function of a library that ``compile_process`` has made; its file is not needed any more."""
    runner = torch._C._aoti.AOTIModelContainerRunnerCpu(str(library), 1)
    return runner.run  # type: ignore[no-any-return]


_compilers: list[StepCompiler] = []


def compiler_of_process() -> StepCompiler:
    """Return the one that all packs of this process share."""
    if not _compilers:
        _compilers.append(StepCompiler())
        atexit.register(_close)
    return _compilers[0]


def _close() -> None:
    with contextlib.suppress(Exception):
        _compilers[0].close()
