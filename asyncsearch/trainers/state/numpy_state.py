"""numpy's arrays, restored in place, and its generators."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsearch.errors import UsageError
from asyncsearch.trainers.state import CannotSaveError, StateKind


def find_numpy(value: Any) -> StateKind | None:
    """Return the kind of an array or a generator."""
    if isinstance(value, np.ndarray):
        require_storable(value)
        if not value.flags.writeable:
            raise CannotSaveError("is a read-only array, so that nothing can be put back into it: write array.copy().")
        return _ARRAY
    if isinstance(value, np.random.Generator | np.random.RandomState | np.random.BitGenerator):
        return _GENERATOR
    return None


def require_storable(array: Any) -> None:
    """Check that an array can be written without pickle.

    Raises:
        CannotSaveError: it has objects, a mask, or a type of another library.
    """
    if array.dtype.hasobject:
        raise CannotSaveError("is an array of objects, which only pickle restores: write array.astype(...) to numbers.")
    if isinstance(array, np.ma.MaskedArray):
        raise CannotSaveError("is a masked array, whose mask would be lost: save array.data and array.mask.")
    if array.dtype.kind == "V" and array.dtype.fields is None:
        raise CannotSaveError(f"is an array of {array.dtype}, which numpy's files lack: write array.view('uint8').")


def _put_array(array: Any, saved: Any) -> None:
    if (array.shape, array.dtype) != (saved.shape, saved.dtype):
        raise UsageError(
            f"it is {array.dtype} of shape {array.shape}, and {saved.dtype} of shape {saved.shape} was saved"
        )
    array[...] = saved


def bits_of(generator: Any) -> Any:
    """Return the source of the bits that a generator of NumPy draws from."""
    found = generator.bit_generator if isinstance(generator, np.random.Generator) else generator
    return found._bit_generator if isinstance(found, np.random.RandomState) else found


def _get_bits(generator: Any) -> Any:
    bits = bits_of(generator)
    legacy = generator.get_state(legacy=False) if isinstance(generator, np.random.RandomState) else None
    return {"bits": bits.state, "legacy": legacy, "spawned": getattr(bits.seed_seq, "n_children_spawned", 0)}


def _put_bits(generator: Any, state: Any) -> None:
    bits = bits_of(generator)
    bits.state = state["bits"]
    if state["legacy"] is not None:
        generator.set_state(state["legacy"])  # with the second normal number, which is drawn in advance
    missing = state["spawned"] - getattr(bits.seed_seq, "n_children_spawned", 0)
    if missing > 0:  # else the next child would repeat an earlier one
        bits.seed_seq.spawn(missing)


_ARRAY = StateKind("array", lambda value: value, _put_array)
_GENERATOR = StateKind("numpy generator", _get_bits, _put_bits)
