"""States as JSON beside arrays, tensors and pickles.

Every JSON object is a tag with one key, so that nothing in a user's dictionary can be taken for one.
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.trainers.state import CannotSaveError, PickledState, advice, is_of

_TORCH_NAMES = ("dtype", "layout", "memory_format")


class Encoder:
    """Turns values into JSON, and collects all that JSON cannot hold."""

    def __init__(self) -> None:
        self.arrays: list[Any] = []
        self.tensors: list[Any] = []
        self.pickles: list[bytes] = []

    def encode(self, value: Any, place: str) -> Any:
        """Return a value as JSON.

        Args:
            value: numbers, text, arrays, tensors, in collections.
            place: where it stands, for errors: "state['net']".

        Raises:
            UsageError: it holds an object of another kind.
        """
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if abs(value) < float("inf") else {"float": str(value)}
        if isinstance(value, PickledState):
            return {"pickle": _appended(self.pickles, value.data)}
        if type(value) in (complex, bytes):
            text = str(value) if type(value) is complex else base64.b64encode(value).decode()
            return {type(value).__name__: text}
        return self._encode_array(value, place) or self._encode_collection(value, place)

    def _encode_array(self, value: Any, place: str) -> Any:
        if is_of("torch", "Tensor", value):
            return {"tensor": _appended(self.tensors, value)}
        if is_of("torch", "device", value):
            return {"device": str(value)}
        if any(is_of("torch", name, value) for name in _TORCH_NAMES):
            return {"torch": str(value)}
        if is_of("numpy", "ndarray", value) or is_of("numpy", "generic", value):
            from asyncsearch.trainers.state.numpy_state import require_storable

            try:
                require_storable(value)
            except CannotSaveError as error:
                raise UsageError(f"{place} {error}") from None
            tag = "array" if is_of("numpy", "ndarray", value) else "scalar"
            return {tag: _appended(self.arrays, value)}
        return None

    def _encode_collection(self, value: Any, place: str) -> Any:
        if isinstance(value, Mapping):
            pairs = [
                [self.encode(key, f"a key of {place}"), self.encode(part, f"{place}[{key!r}]")]
                for key, part in value.items()
            ]
            return {"ordered" if isinstance(value, OrderedDict) else "dict": pairs}
        if isinstance(value, set | frozenset):
            return {type(value).__name__: [self.encode(part, f"{place}") for part in sorted(value, key=repr)]}
        if isinstance(value, list | tuple):
            parts = [self.encode(part, f"{place}[{number}]") for number, part in enumerate(value)]
            return parts if isinstance(value, list) else {"tuple": parts}
        raise UsageError(f"{place} {advice(value)}")


class Decoder:
    """Turns JSON back into values."""

    def __init__(self, arrays: Any, tensors: list[Any], pickles: list[bytes]) -> None:
        self._readers: dict[str, Callable[[Any], Any]] = {
            "float": float,
            "complex": complex,
            "bytes": base64.b64decode,
            "pickle": lambda number: PickledState(pickles[number]),
            "array": lambda number: arrays[str(number)],
            "scalar": lambda number: arrays[str(number)][()],
            "tensor": tensors.__getitem__,
            "torch": _torch_value,
            "device": _torch_device,
            "dict": self._dict,
            "ordered": lambda pairs: OrderedDict(self._dict(pairs)),
            "set": lambda parts: set(self.decode(parts)),
            "frozenset": lambda parts: frozenset(self.decode(parts)),
            "tuple": lambda parts: tuple(self.decode(parts)),
        }

    def decode(self, found: Any) -> Any:
        """Return the value of JSON that ``Encoder.encode`` has made."""
        if isinstance(found, list):
            return [self.decode(part) for part in found]
        if not isinstance(found, dict):
            return found
        [(tag, content)] = found.items()
        return self._readers[tag](content)

    def _dict(self, pairs: list[Any]) -> dict[Any, Any]:
        return {self.decode(key): self.decode(part) for key, part in pairs}


def _torch_value(text: str) -> Any:
    from asyncsearch.trainers.state.torch_state import named

    return named(text)


def _torch_device(text: str) -> Any:
    from asyncsearch.trainers.state.torch_state import device

    return device(text)


def _appended(parts: list[Any], part: Any) -> int:
    parts.append(part)
    return len(parts) - 1
