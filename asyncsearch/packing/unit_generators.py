"""The global generators, in the states that they would have if a member of a pack trained alone.

Members that begin a unit with equal seeds find the generators of Python and numpy in equal states, and so do not have
to set them: the process keeps the states of the beginning of the unit. Whoever draws from them gets states of its own,
and the process its former ones again.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

_WORDS = 624
"""Words of the state of the Mersenne Twister."""


def states() -> Any:
    """Return the states of the generators of Python, of numpy, and of torch on the CPU."""
    return random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002


def seeded_states(python: int, numpy: int, cpu: int) -> Any:
    """Return the ``states`` of generators with these seeds, without seeding any."""
    return (
        random.Random(python).getstate(),
        np.random.RandomState(numpy).get_state(),
        torch.Generator().manual_seed(cpu).get_state(),
    )


def put_states(found: Any) -> None:
    """Set the states that ``states`` has returned."""
    python, numpy, cpu = found
    random.setstate(python)
    np.random.set_state(numpy)  # noqa: NPY002
    torch.set_rng_state(cpu)


def outside_states() -> tuple[Any, ...]:
    """Return marks that show whether anything was drawn outside torch: ``states`` takes longer than many a step."""
    return random.getstate(), _words_of_numpy()


def put_outside_states(found: tuple[Any, ...]) -> None:
    """Set the states that ``outside_states`` has returned, where they are others now."""
    python, numpy = outside_states()
    if python != found[0]:
        random.setstate(found[0])
    if numpy != found[1]:
        words = np.frombuffer(found[1], dtype=np.uint32)
        np.random.set_state(("MT19937", words[:_WORDS], int(words[_WORDS]), 0, 0.0))  # noqa: NPY002


def _words_of_numpy() -> bytes:
    """Return the state of numpy's generator, and its place in it."""
    address = np.random.mtrand._rand._bit_generator.ctypes.state_address
    return ctypes.string_at(address, 4 * (_WORDS + 1))


class UnitGenerators:
    """The generators of one member in one unit."""

    def __init__(self, generator: Any, begin: Callable[[], Any], *, is_at_home: bool) -> None:
        """Begin a unit.

        Args:
            generator: of the member; it stands in for torch's on the device.
            begin: returns the states of the others at the beginning of the unit; called where they are needed.
            is_at_home: whether the process has these states.
        """
        self._begin, self.generator = begin, generator
        self._is_at_home = is_at_home

    @functools.cached_property
    def states(self) -> Any:
        """The states of Python, of numpy, and of torch on the CPU, as the member has left them."""
        return self._begin()

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Draw from the generators of this member; the process has its own again afterwards."""
        home = outside_states()
        if not self._is_at_home:
            put_states(self.states)
        try:
            with drawing_from(self.generator):
                yield
        finally:
            if not self._is_at_home or outside_states() != home:
                self._is_at_home = False
                self.states = states()
                put_outside_states(home)

    @property
    def drawn(self) -> tuple[Any, ...]:
        """Marks that show whether this member has drawn anything between two calls."""
        own = self.generator.get_state().numpy().tobytes()
        return (own,) if self._is_at_home else (own, *_compared(self.states))


def _compared(found: Any) -> tuple[Any, ...]:
    python, numpy, cpu = found
    return python, numpy[1].tobytes(), numpy[2:], cpu.numpy().tobytes()


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
