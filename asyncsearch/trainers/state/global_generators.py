"""The global generators of a process. A framework counts only if it is imported.

Rule: this module imports no framework, so that neither a runner nor a check needs one that the trainable does not need.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class GlobalGenerator(NamedTuple):
    """A global generator of the process."""

    get: Callable[[], Any]
    set: Callable[[Any], None]
    seed: Callable[[int], None]


def shared() -> dict[str, GlobalGenerator]:
    """Return the generators of this process, by their names in errors."""
    found = {"python generator": GlobalGenerator(random.getstate, random.setstate, random.seed)}
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        source = numpy.random
        found["numpy generator"] = GlobalGenerator(source.get_state, source.set_state, source.seed)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        found["torch generator"] = GlobalGenerator(
            torch.get_rng_state, torch.set_rng_state, torch.default_generator.manual_seed
        )
        if torch.cuda.is_initialized():
            found["cuda generator"] = GlobalGenerator(
                torch.cuda.get_rng_state_all, _set_cuda_states, torch.cuda.manual_seed_all
            )
    tensorflow: Any = sys.modules.get("tensorflow")
    if tensorflow is not None and hasattr(tensorflow, "random"):
        found["tensorflow generator"] = GlobalGenerator(
            tensorflow_state, set_tensorflow_state, tensorflow.random.set_seed
        )
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


def _set_cuda_states(states: Any) -> None:
    """Set the generators of the devices that are here: the checkpoint may be from a machine with more."""
    cuda: Any = sys.modules["torch"].cuda
    for device, state in zip(range(cuda.device_count()), states, strict=False):
        cuda.set_rng_state(state, device)


def _context() -> Any:
    """Return the object that holds TensorFlow's seed; it has no public name."""
    module: Any = sys.modules.get("tensorflow.python.eager.context")
    return None if module is None else module.context()


def tensorflow_state() -> Any:
    """Return TensorFlow's seed, and the state of the generator that seeds its operations."""
    context = _context()
    source = getattr(context, "_rng", None)
    return getattr(context, "_seed", None), None if source is None else source.getstate()


def set_tensorflow_state(state: Any) -> None:
    """Set both."""
    context = _context()
    seed, source = state
    if seed is not None and getattr(context, "_seed", None) != seed:
        sys.modules["tensorflow"].random.set_seed(seed)
    if source is not None and getattr(context, "_rng", None) is not None:
        context._rng.setstate(source)
