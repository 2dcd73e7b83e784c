"""The global generators, in the states that they would have if a member of a pack trained alone."""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

_drawing: set[type] = set()
"""Classes of trainers whose model or loss has drawn from another generator than torch's in this process."""


def states() -> Any:
    """Return the states of the generators of Python, of numpy, and of torch on the CPU."""
    return random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002


def seeded_states(python: int, numpy: int, cpu: int) -> Any:
    """Return what ``states`` returns once the generators have these seeds; nothing is seeded."""
    return (
        random.Random(python).getstate(),
        np.random.RandomState(numpy).get_state(),
        torch.Generator().manual_seed(cpu).get_state(),
    )


def put_states(found: Any) -> None:
    """Set what ``states`` returns."""
    python, numpy, cpu = found
    random.setstate(python)
    np.random.set_state(numpy)  # noqa: NPY002
    torch.set_rng_state(cpu)


def are_same_states(one: Any, other: Any) -> bool:
    """Return whether nothing was drawn between two results of ``states``."""
    (python, numpy, cpu), (python_after, numpy_after, cpu_after) = one, other
    return python == python_after and all(map(np.array_equal, numpy, numpy_after)) and torch.equal(cpu, cpu_after)


def draws_outside_torch(before: Any) -> bool:
    """Return whether a generator of Python or of numpy was drawn from since ``states`` returned this."""
    return not are_same_states(before, (*states()[:2], before[2]))


class UnitGenerators:
    """Those of one trainer in one unit."""

    def __init__(self, kind: type, generator: Any, begin: Callable[[], Any]) -> None:
        """Begin a unit.

        Args:
            kind: the class of the trainer.
            generator: of its member; it stands in for torch's on the device.
            begin: returns the states of the others at the beginning of the unit; called where they are needed.
        """
        self._begin = begin
        self._kind, self._generator = kind, generator
        self._steps = 0

    @functools.cached_property
    def states(self) -> Any:
        """Those of Python, of numpy, and of torch on the CPU, as this trainer has left them."""
        return self._begin()

    def take(self) -> None:
        """Take the present states of the process, after this trainer has trained by itself."""
        self.states = states()
        self._generator.set_state(_state_on(self._generator.device))

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Draw from those of this trainer."""
        put_states(self.states)
        with drawing_from(self._generator):
            yield
        self.states = states()

    @contextlib.contextmanager
    def in_use_for_step(self) -> Iterator[None]:
        """Draw from those of this trainer in a step that computes it alone.

        To set all takes longer than many a step. So that is done in the steps 1, 2, 4, 8 and so on of a unit, and in
        all once trainers of this class have drawn; in the others, only torch's is set.
        """
        self._steps += 1
        if self._kind not in _drawing and self._steps & (self._steps - 1):
            with drawing_from(self._generator):
                yield
            return
        before = self.states
        with self.in_use():
            yield
        if not are_same_states(before, self.states):
            _drawing.add(self._kind)


@contextlib.contextmanager
def drawing_from(generator: Any) -> Iterator[None]:
    """Let torch's own generator be that of the member: layers outside a stack draw from no other."""
    if generator is None:
        yield
        return
    before = _state_on(generator.device)
    _put_on(generator.device, generator.get_state())
    try:
        yield
    finally:
        generator.set_state(_state_on(generator.device))
        _put_on(generator.device, before)


def _state_on(device: Any) -> Any:
    """Return the state of torch's own generator on a device."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _put_on(device: Any, state: Any) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
