"""The global generators of a process. A framework counts only if the trainable has imported it.

Rule: this module imports no framework; a check must not need a framework that the trainable does not need.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

FRAMEWORKS = ("torch", "tensorflow")


class Shared(NamedTuple):
    """A global generator of the process."""

    get: Callable[[], Any]
    set: Callable[[Any], None]
    seed: Callable[[int], None]


def shared() -> dict[str, Shared]:
    """Return the generators of this process, by their names in errors."""
    found = {
        "python generator": Shared(random.getstate, random.setstate, random.seed),
        "numpy generator": Shared(np.random.get_state, np.random.set_state, np.random.seed),
    }
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        found["torch generator"] = Shared(torch.get_rng_state, torch.set_rng_state, torch.default_generator.manual_seed)
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            found["cuda generator"] = Shared(
                torch.cuda.get_rng_state_all, torch.cuda.set_rng_state_all, torch.cuda.manual_seed_all
            )
    tensorflow: Any = sys.modules.get("tensorflow")
    if tensorflow is not None and hasattr(tensorflow, "random"):
        found["tensorflow generator"] = Shared(_tensorflow_state, _set_tensorflow_state, tensorflow.random.set_seed)
    return found


def capture() -> dict[str, Any]:
    """Return the states of all generators."""
    return {name: generator.get() for name, generator in shared().items()}


def restore(states: Mapping[str, Any]) -> None:
    """Set all generators to captured states."""
    now = shared()
    for name, state in states.items():
        if name in now:
            now[name].set(state)


def stir(number: int) -> None:
    """Give each generator an arbitrary state, as in another process; different numbers give different states."""
    for place, generator in enumerate(shared().values()):
        generator.seed(10_007 * number + place + 1)


def loaded() -> list[str]:
    """Return the frameworks that are imported."""
    return [name for name in FRAMEWORKS if name in sys.modules]


def _context() -> Any:
    """Return the object that holds TensorFlow's seed; it has no public name."""
    module: Any = sys.modules.get("tensorflow.python.eager.context")
    return None if module is None else module.context()


def _tensorflow_state() -> Any:
    context = _context()
    source = getattr(context, "_rng", None)
    return getattr(context, "_seed", None), None if source is None else source.getstate()


def _set_tensorflow_state(state: Any) -> None:
    context = _context()
    seed, source = state
    if seed is not None and getattr(context, "_seed", None) != seed:
        sys.modules["tensorflow"].random.set_seed(seed)
    if source is not None and getattr(context, "_rng", None) is not None:
        context._rng.setstate(source)
