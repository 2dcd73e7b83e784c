"""What a trainable consists of at a moment, part by part: where it stands, its kind, and a digest of its content.

A part can be given to another object of the same kind, so that it can be tried out whether it was what was missing.
Frameworks are known by what is imported already; see ``generators``.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import hashlib
import random
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from asyncsearch.checking.kinds import kind_of_name
from asyncsearch.trainable import TrialContext

_MAX_DEPTH = 10
_MAX_PARTS = 20_000
_HASHED_BYTES = 1 << 26
"""Of a larger array only so much is read, at its beginning and at its end."""

Path = tuple[tuple[str, Any], ...]
"""How to come from the root to a place: ("attr", name) or ("item", key), one after the other."""

_SKIPPED = (
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.FrameType,
    type,
    PurePath,
    TrialContext,
)
_ITERATORS = (types.GeneratorType, types.AsyncGeneratorType, zip, map, filter, enumerate, reversed)
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class Part(NamedTuple):
    """One part: its content, and how another part's content is put there."""

    kind: str
    digests: dict[str, str]
    """Digests of its content, by the name of what is in it."""
    owner: Any
    give: Callable[[Any, Any], None] | None
    """Copies from one owner into another; None: by setting it where it stands."""


class State:
    """All parts that can be reached from a trainer, or from the local variables of a function."""

    def __init__(self, root: Any) -> None:
        self.parts: dict[tuple[Path, str], Part] = {}
        self.opaque: list[str] = []
        """Iterators: where they stand cannot be seen."""
        self._containers: dict[Path, Any] = {}
        self._seen: set[int] = set()
        self._is_frame = isinstance(root, types.FrameType)
        self._enter(Locals(root) if self._is_frame else root, (), "")

    def digests(self) -> dict[str, str]:
        """Return all digests, by the kind and the place of what they stand for."""
        return {
            f"{part.kind}|{self.place(path)}{name}": digest
            for (path, _), part in self.parts.items()
            for name, digest in part.digests.items()
        }

    def place(self, path: Path) -> str:
        """Return a path as Python writes it."""
        text = "" if self._is_frame else "self"
        for how, key in path:
            text += (f".{key}" if text else str(key)) if how == "attr" else f"[{key!r}]"
        return text

    def differing(self, other: State) -> dict[str, list[str]]:
        """Return the places whose content is not what it is in the other state, by kind."""
        found: dict[str, list[str]] = {}
        for (path, kind), part in self.parts.items():
            twin = other.parts.get((path, kind))
            theirs = {} if twin is None else twin.digests
            found.setdefault(kind, []).extend(
                self.place(path) + name for name, digest in part.digests.items() if theirs.get(name) != digest
            )
        return {kind: places for kind, places in found.items() if places}

    def give(self, other: State, kinds: set[str]) -> None:
        """Give the other state what this one has of some kinds, where it differs."""
        done: set[Path] = set()
        for (path, kind), part in self.parts.items():
            twin = other.parts.get((path, kind))
            if kind not in kinds or (twin is not None and twin.digests == part.digests):
                continue
            if twin is not None and part.give is not None:
                with contextlib.suppress(Exception):  # another shape, say; then it is set
                    part.give(part.owner, twin.owner)
                    continue
            # What is missing altogether is set as a whole, so that what belongs together stays together.
            at = next(at for at in range(len(path)) if path[: at + 1] not in other._containers)
            missing = path[: at + 1]
            if missing not in done:
                done.add(missing)
                value = self._containers.get(missing, part.owner)
                _set(other._containers[path[:at]], path[at], _copied(value))

    def _enter(self, value: Any, path: Path, kind: str) -> None:
        """Look into something that has parts."""
        if id(value) in self._seen or len(path) > _MAX_DEPTH or len(self.parts) > _MAX_PARTS:
            return
        self._seen.add(id(value))
        self._containers[path] = value
        if isinstance(value, Mapping | Locals):
            items: Iterator[tuple[tuple[str, Any], Any]] = (
                (("attr" if isinstance(value, Locals) else "item", key), part) for key, part in value.items()
            )
        elif isinstance(value, list | tuple):
            items = ((("item", key), part) for key, part in enumerate(value))
        else:
            items = ((("attr", key), part) for key, part in _attributes(value))
        for step, part in list(items):
            self._look(part, (*path, step), kind)

    def _look(self, value: Any, path: Path, kind: str) -> None:
        if isinstance(value, _SKIPPED):
            return
        name = str(path[-1][1])
        mine = kind_of_name(name) if isinstance(path[-1][1], str) else ""
        inherited = kind or mine
        if isinstance(value, _ITERATORS) or (hasattr(value, "__next__") and not hasattr(value, "__dict__")):
            self.opaque.append(self.place(path))
            return
        parts = _framework_parts(value)
        if parts is not None:
            if id(value) in self._seen:
                return
            self._seen.add(id(value))
            self._containers[path] = value
            for part in parts:
                self.parts[path, part.kind] = part
            optimizer = getattr(value, "optimizer", None)
            if _is_of("keras", "Model", value) and optimizer is not None:
                self._look(optimizer, (*path, ("attr", "optimizer")), "optimizer")
            return
        array = _as_array(value)
        if array is not None:
            self._keep(path, kind or _kind_of_array(mine, value, array), {"": _digest(array)}, value, _give_array)
        elif _is_plain(value):
            leaf = inherited or ("counter" if isinstance(value, int) and not isinstance(value, bool) else "other")
            self._keep(path, leaf, {"": _digest_text(value)}, value, None)
        elif isinstance(value, Mapping | list | tuple) or hasattr(value, "__dict__") or hasattr(value, "__slots__"):
            self._enter(value, path, inherited if inherited in ("optimizer", "generator", "scaler") else "")

    def _keep(
        self, path: Path, kind: str, digests: dict[str, str], owner: Any, give: Callable[[Any, Any], None] | None
    ) -> None:
        self.parts[path, kind] = Part(kind, digests, owner, give)


class Locals:
    """The local variables of a function that is running."""

    def __init__(self, frame: types.FrameType) -> None:
        self.frame = frame

    def items(self) -> list[tuple[str, Any]]:
        """Return names and values."""
        return list(self.frame.f_locals.items())

    def __setitem__(self, name: str, value: Any) -> None:
        self.frame.f_locals[name] = value
        if sys.version_info < (3, 13):  # before, f_locals is a copy that has to be written back
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(self.frame), ctypes.c_int(0))


def _attributes(value: Any) -> list[tuple[str, Any]]:
    names = dict.fromkeys([*getattr(value, "__dict__", {}), *getattr(type(value), "__slots__", ())])
    return [(name, getattr(value, name)) for name in names if not name.startswith("__") and hasattr(value, name)]


def _set(container: Any, step: tuple[str, Any], value: Any) -> None:
    how, key = step
    if how == "item" or isinstance(container, Locals):
        container[key] = value
    else:
        setattr(container, key, value)


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # something in it cannot be copied; the outcome tells whether this does
        return value


def _is_of(module: str, names: str, value: Any) -> bool:
    """Return whether a value is of a class of a framework, given as "a.b.C", without importing the framework."""
    found: Any = sys.modules.get(module)
    for name in names.split("."):
        found = getattr(found, name, None)
    return isinstance(found, type) and isinstance(value, found)


def _framework_parts(value: Any) -> list[Part] | None:
    """Return the parts of something that is known as a whole; None: it is not."""
    if isinstance(value, random.Random):
        return [_generator(repr(value.getstate()), value, lambda one, other: other.setstate(one.getstate()))]
    if isinstance(value, np.random.Generator | np.random.RandomState | np.random.BitGenerator):
        source = _bits(value)
        return [_generator(repr(source.state), value, _give_bits)]
    if _is_of("torch", "Generator", value):
        state = value.get_state().numpy().tobytes()
        return [_generator(state.hex(), value, lambda one, other: other.set_state(one.get_state()))]
    if _is_of("torch", "nn.Module", value):
        return _module_parts(value)
    if _is_of("torch", "optim.Optimizer", value):
        return [Part("optimizer", _digests_of(value.state_dict()), value, _give_state_dict)]
    if _is_of("torch", "amp.GradScaler", value):
        return [Part("scaler", _digests_of(value.state_dict()), value, _give_state_dict)]
    if _is_of("keras", "Layer", value):
        return _layer_parts(value)
    if _is_of("keras", "optimizers.Optimizer", value):
        return _keras_optimizer_parts(value)
    if _is_of("keras", "metrics.Metric", value) or _is_of("keras", "Loss", value):
        return []
    return None


def _generator(state: str, value: Any, give: Callable[[Any, Any], None]) -> Part:
    return Part("generator", {"": _digest_text(state)}, value, give)


def _bits(value: Any) -> Any:
    found = value.bit_generator if isinstance(value, np.random.Generator) else value
    return found._bit_generator if isinstance(found, np.random.RandomState) else found


def _give_bits(one: Any, other: Any) -> None:
    _bits(other).state = _bits(one).state


def _give_state_dict(one: Any, other: Any) -> None:
    other.load_state_dict(copy.deepcopy(one.state_dict()))


def _module_parts(module: Any) -> list[Part]:
    weights = {f".{name}": _digest(_as_array(value)) for name, value in module.named_parameters()}
    buffers = {f".{name}": _digest(_as_array(value)) for name, value in module.named_buffers()}
    modes = {f".{name}": str(part.training) for name, part in module.named_modules()}
    return [
        Part("weights", weights, module, _giving_tensors("named_parameters")),
        Part("buffers", buffers, module, _giving_tensors("named_buffers")),
        Part("mode", modes, module, _give_modes),
    ]


def _giving_tensors(method: str) -> Callable[[Any, Any], None]:
    def give(one: Any, other: Any) -> None:
        theirs = dict(getattr(other, method)())
        for name, value in getattr(one, method)():
            if name in theirs and theirs[name].shape == value.shape:
                theirs[name].data.copy_(value.data)

    return give


def _give_modes(one: Any, other: Any) -> None:
    for mine, theirs in zip(one.modules(), other.modules(), strict=False):
        theirs.training = mine.training


def _layer_parts(layer: Any) -> list[Part]:
    kinds: dict[str, list[int]] = {"weights": [], "buffers": [], "generator": []}
    trainable = {id(variable) for variable in layer.trainable_variables}
    for number, variable in enumerate(layer.variables):
        is_seed = "seed_generator" in variable.path
        kinds["generator" if is_seed else "weights" if id(variable) in trainable else "buffers"].append(number)
    return [_variables_part(kind, layer, numbers) for kind, numbers in kinds.items() if numbers]


def _keras_optimizer_parts(optimizer: Any) -> list[Part]:
    inner = getattr(optimizer, "inner_optimizer", None)
    if inner is None:
        return [_variables_part("optimizer", optimizer, list(range(len(optimizer.variables))))]
    within = {id(variable) for variable in inner.variables}
    numbers = [number for number, variable in enumerate(optimizer.variables) if id(variable) not in within]
    return [
        _variables_part("scaler", optimizer, numbers),
        _variables_part("optimizer", inner, list(range(len(inner.variables)))),
    ]


def _variables_part(kind: str, owner: Any, numbers: list[int]) -> Part:
    def give(one: Any, other: Any) -> None:
        for number in numbers:
            other.variables[number].assign(one.variables[number].value)

    names = {number: "." + owner.variables[number].path.partition("/")[2] for number in numbers}
    return Part(
        kind, {names[number]: _digest(owner.variables[number].value.numpy()) for number in numbers}, owner, give
    )


def _digests_of(value: Any, name: str = "") -> dict[str, str]:
    if isinstance(value, Mapping):
        pairs = [(f"[{key!r}]", part) for key, part in value.items()]
    elif isinstance(value, list | tuple) and not _is_plain(value):
        pairs = [(f"[{key}]", part) for key, part in enumerate(value)]
    else:
        array = _as_array(value)
        return {name: _digest_text(value) if array is None else _digest(array)}
    return {key: digest for step, part in pairs for key, digest in _digests_of(part, name + step).items()}


def _as_array(value: Any) -> Any:
    """Return an array or tensor as numpy's, None for all else."""
    if isinstance(value, np.ndarray | np.generic):
        return value if value.dtype != object else None
    if _is_of("torch", "Tensor", value):
        torch: Any = sys.modules["torch"]
        found = value.detach().cpu()
        return found.contiguous().reshape(-1).view(torch.uint8).numpy() if found.numel() else np.zeros(0)
    if _is_of("tensorflow", "Variable", value) or _is_of("tensorflow", "Tensor", value):
        return value.numpy() if hasattr(value, "numpy") else None
    if _is_of("keras", "Variable", value):
        return value.value.numpy()
    return None


def _give_array(one: Any, other: Any) -> None:
    if isinstance(other, np.ndarray):
        other[...] = one
    elif hasattr(other, "copy_"):
        other.data.copy_(one.data)
    elif hasattr(other, "assign"):
        other.assign(one)


def _kind_of_array(named: str, value: Any, array: Any) -> str:
    if named:
        return named
    if isinstance(value, np.ndarray) and array.ndim == 1 and array.dtype.kind in "iu" and array.size > 1:
        is_permutation = int(array.min()) == 0 and np.array_equal(np.sort(array), np.arange(array.size))
        return "order" if is_permutation else "other"
    return "weights"


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    return isinstance(value, _PLAIN)


def _digest(array: Any) -> str:
    array = np.asarray(array)
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    half = _HASHED_BYTES // 2
    parts = [data] if data.size <= _HASHED_BYTES else [data[:half], data[-half:]]
    digest = hashlib.blake2b(f"{array.dtype} {array.shape}".encode(), digest_size=12)
    for part in parts:
        digest.update(part.tobytes())
    return digest.hexdigest()


def _digest_text(value: Any) -> str:
    # Sets have an order of their own in each process.
    text = repr(sorted(value, key=repr)) if isinstance(value, set | frozenset) else repr(value)
    return text if len(text) <= 40 else hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
