"""The forward and backward pass of one member, recorded once and replayed: a CUDA graph.

A graph repeats the operations that it has recorded, on the same addresses and with the same numbers, and runs no
Python. So it is of use only while everything is as it was recorded, which is seen here before each replay, and replays
are compared with the pass as it is written. The optimizer is no part of it: it updates the weights in place.

Pseudocode of a pass::

    recorded for batches of this shape and tensors at these addresses?
        no:   as it is written; after three of them it is recorded
        yes:  the batch is copied to where the graph reads it, and the graph is replayed;
              the 1st, 2nd, 4th, 8th ... replay is also computed as it is written; where they differ, that one counts,
              and no graph is used again
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils import _pytree

from asyncsearch.packing.member import Member
from asyncsearch.packing.rounding import is_close
from asyncsearch.trainers.state.global_generators import capture

_WARM = 3
"""Passes as they are written before one is recorded: libraries choose and allocate in the first ones."""
_MOST_SHAPES = 4
"""Shapes of batches that are recorded: each holds the memory of a whole pass."""
_MOST_MOVES = 8
"""After so many recordings the tensors of the member move too often."""


class OperationRecorder(Protocol):
    """Records what a device does."""

    device_type: str
    """Type of the devices that it knows, as torch names it."""

    def record(self, run: Callable[[], Any], device: Any) -> tuple[Any, Callable[[], None]]:
        """Run a function, and return its result and what repeats it: the same operations on the same addresses."""
        ...


class CudaGraphs:
    """Records on a CUDA device."""

    device_type = "cuda"

    def record(self, run: Callable[[], Any], device: Any) -> tuple[Any, Callable[[], None]]:
        """Capture a graph; what it computes is there after the first replay."""
        if _failed:
            raise RuntimeError("another recording of this process has failed")
        graph, before = torch.cuda.CUDAGraph(), (torch.cuda.current_stream(device), torch.cuda.current_stream())
        try:
            # Other threads of the process may use CUDA meanwhile.
            with torch.cuda.graph(graph, stream=torch.cuda.Stream(device), capture_error_mode="thread_local"):
                result = run()
        except BaseException:
            _clean_up(graph, before)
            raise
        return result, graph.replay


_failed: list[Any] = []
"""The last graph of this process, whose capture has failed: it must stay, since torch's allocator may still ask it."""


def _clean_up(graph: Any, streams: Sequence[Any]) -> None:
    """Undo what torch leaves after a capture that has failed: its stream, and a generator that seems to be captured."""
    _failed.append(graph)
    for stream in streams:
        torch.cuda.set_stream(stream)
    graph.reset()
    generator = torch.cuda.default_generators[streams[0].device_index]
    generator.graphsafe_set_state(generator.clone_state())


@dataclass
class _Recording:
    """A pass, and where it reads and writes."""

    batch: list[Any]
    gradients: list[Any]
    loss: Any
    replay: Callable[[], None]
    replays: int = 0


class GraphedPasses:
    """Computes the gradients of one member; the same numbers as without a graph, but for rounding."""

    words: str
    """Why no graph is used; empty: one may be."""

    def __init__(self, member: Member, recorder: OperationRecorder, run: Callable[[Any], Any]) -> None:
        """Begin without a recording.

        Args:
            member: it stays in its own model and optimizer.
            recorder: that of the member's device.
            run: computes the gradients of a batch as it is written, and returns its loss. Gradients are None before.
        """
        self._member, self._recorder, self._run = member, recorder, run
        self._recordings: dict[Any, _Recording] = {}
        self._counts: dict[Any, int] = {}
        self._recorded = 0
        self.words = _refusal(member, recorder)

    @property
    def is_recorded(self) -> bool:
        """Whether a graph is in use."""
        return bool(self._recordings) and not self.words

    def gradients(self, batch: Any) -> Any:
        """Leave the gradients of a batch in the ``grad`` of the parameters, and return its loss."""
        if not self.words and self._member.by_itself:
            self._give_up(self._member.by_itself)
        if self.words:
            return self._plain(batch)
        leaves, structure = _pytree.tree_flatten(batch)
        key = tuple(map(_shape_of, leaves)), structure, self._frozen()
        found = self._recordings.get(key)
        if found is None:
            count = self._counts[key] = self._counts.get(key, 0) + 1
            recorded = sum(other[-1] == key[-1] for other in self._recordings)
            if count <= _WARM or recorded >= _MOST_SHAPES:
                return self._watched(batch)
            found = self._record(key, leaves, structure)
        return self._plain(batch) if found is None else self._replay(found, leaves, batch)

    def _record(self, key: Any, leaves: list[Any], structure: Any) -> _Recording | None:
        frozen = key[-1]
        self._recordings = {other: one for other, one in self._recordings.items() if other[-1] == frozen}
        self._counts = {other: one for other, one in self._counts.items() if other[-1] == frozen}
        self._recorded += 1
        if self._recorded > _MOST_MOVES:
            self._give_up("its tensors move too often")
            return None
        own = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        parameters, buffers = list(self._member.model.parameters()), _copies(self._member.model.buffers())
        self._clear()
        try:
            run, device = lambda: self._run(_pytree.tree_unflatten(own, structure)), parameters[0].device
            loss, replay = self._recorder.record(run, device)
        except Exception as error:  # whatever a pass does that cannot be recorded
            self._give_up(f"it cannot be recorded ({type(error).__name__}: {_first_line(error)})")
            return None
        finally:
            _put(self._member.model.buffers(), buffers)
        found = _Recording(own, [parameter.grad for parameter in parameters], loss.detach(), replay)
        self._recordings[key] = found
        return found

    def _replay(self, found: _Recording, leaves: list[Any], batch: Any) -> Any:
        found.replays += 1
        if found.replays & (found.replays - 1) == 0:
            return self._compared(found, leaves, batch)
        return self._replayed(found, leaves)

    def _replayed(self, found: _Recording, leaves: list[Any]) -> Any:
        for own, leaf in zip(found.batch, leaves, strict=True):
            if isinstance(own, torch.Tensor):
                own.copy_(leaf)
        # Somebody may have removed them, and an optimizer passes over parameters without one.
        for parameter, gradient in zip(self._member.model.parameters(), found.gradients, strict=True):
            parameter.grad = gradient
        found.replay()
        return found.loss.clone()

    def _compared(self, found: _Recording, leaves: list[Any], batch: Any) -> Any:
        """Compute a pass both ways, and return what was replayed if they agree."""
        model = self._member.model
        before = _copies(model.buffers())
        loss = self._plain(batch)
        gradients, after = [parameter.grad for parameter in model.parameters()], _copies(model.buffers())
        _put(model.buffers(), before)
        replayed = self._replayed(found, leaves)
        expected = [loss.detach(), *gradients, *after]
        if all(map(_agree, [replayed, *found.gradients, *model.buffers()], expected)):
            return replayed
        _put(model.buffers(), after)
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.grad = gradient
        self._give_up("a replay and the pass as it is written do not agree")
        return loss

    def _watched(self, batch: Any) -> Any:
        """Compute a pass as it is written, and see whether it draws: a graph would repeat what was drawn."""
        before = _generators(self._member)
        loss = self._plain(batch)
        if not all(map(np.array_equal, before, _generators(self._member))):
            self._give_up("it draws random numbers")
        return loss

    def _plain(self, batch: Any) -> Any:
        self._clear()
        return self._run(batch)

    def _clear(self) -> None:
        """Remove all gradients, those included that the optimizer only zeroes or does not know."""
        for parameter in self._member.model.parameters():
            parameter.grad = None

    def _give_up(self, words: str) -> None:
        self.words, self._recordings, self._counts = words, {}, {}

    def _frozen(self) -> Any:
        """Return what a graph keeps of the model: addresses, what is trained, and the modes of layers."""
        model = self._member.model
        tensors = [*model.parameters(), *model.buffers()]
        places = tuple((one.data_ptr(), one.dtype, one.shape, one.requires_grad) for one in tensors)
        return places, tuple(layer.training for layer in model.modules())


def _refusal(member: Member, recorder: OperationRecorder) -> str:
    tensors = list(member.model.parameters())
    if member.precision is not None or member.scaler is not None:
        return "its precision is mixed"
    if any(one.device.type != recorder.device_type for one in tensors) or not tensors:
        return f"it is not on {recorder.device_type}"
    if any(one.is_floating_point() and one.dtype not in (torch.float32, torch.float64) for one in tensors):
        return "its weights are neither in float32 nor in float64"
    return ""


def _shape_of(leaf: Any) -> Any:
    """Return what a graph keeps of a part of a batch: a number is recorded as it is."""
    return (leaf.shape, leaf.dtype, leaf.device) if isinstance(leaf, torch.Tensor) else (type(leaf), repr(leaf))


def _copies(tensors: Any) -> list[Any]:
    return [one.detach().clone() for one in tensors]


def _put(tensors: Any, values: list[Any]) -> None:
    with torch.no_grad():
        for one, value in zip(tensors, values, strict=True):
            one.copy_(value)


def _agree(one: Any, other: Any) -> bool:
    return one is other if one is None or other is None else is_close(one, other)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _generators(member: Member) -> list[Any]:
    """Return the states of all generators that a pass may draw from."""
    own = None if member.generator is None else member.generator.get_state()
    return list(_pytree.tree_leaves((own, capture())))
