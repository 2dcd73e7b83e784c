"""What a trainable consists of at a moment, part by part: where it stands, its kind, and a digest of its content.

A part can be given to another object of the same kind, so that it can be tried out whether it was what was missing.
Frameworks are known by what is imported already; see ``generators``.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import sys
import types
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from asyncsearch.checking.part_kinds import kind_of_name
from asyncsearch.checking.trainable_parts import (
    Part,
    as_array,
    digest,
    digest_text,
    framework_parts,
    give_array,
    is_of,
    is_plain,
    kind_of_array,
)
from asyncsearch.trainable import TrialContext

_MAX_DEPTH = 10
_MAX_PARTS = 20_000

PartPath = tuple[tuple[str, Any], ...]
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

_WHOLE = ("optimizer", "generator", "scaler", "order")
"""Kinds that hold for all that is inside of something that is called so."""


class TrainableState:
    """All parts that can be reached from a trainer, or from the local variables of a function."""

    def __init__(self, root: Any) -> None:
        self.parts: dict[tuple[PartPath, str], Part] = {}
        self.opaque: list[str] = []
        """Iterators: where they stand cannot be seen."""
        self._containers: dict[PartPath, Any] = {}
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

    def place(self, path: PartPath) -> str:
        """Return a path as Python writes it."""
        text = "" if self._is_frame else "self"
        for how, key in path:
            text += (f".{key}" if text else str(key)) if how == "attr" else f"[{key!r}]"
        return text

    def differing(self, other: TrainableState) -> dict[str, list[str]]:
        """Return the places whose content is not what it is in the other state, by kind."""
        found: dict[str, list[str]] = {}
        for (path, kind), part in self.parts.items():
            twin = other.parts.get((path, kind))
            theirs = {} if twin is None else twin.digests
            found.setdefault(kind, []).extend(
                self.place(path) + name for name, digest in part.digests.items() if theirs.get(name) != digest
            )
        return {kind: places for kind, places in found.items() if places}

    def give(self, other: TrainableState, kinds: Collection[str], but: str = "") -> None:
        """Give the other state what this one has of some kinds, where it differs, except for one place."""
        done: set[PartPath] = set()
        for (path, kind), part in self.parts.items():
            twin = other.parts.get((path, kind))
            if kind not in kinds or self.place(path) == but or (twin is not None and twin.digests == part.digests):
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

    def _enter(self, value: Any, path: PartPath, kind: str) -> None:
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

    def _look(self, value: Any, path: PartPath, kind: str) -> None:
        if isinstance(value, _SKIPPED):
            return
        name = str(path[-1][1])
        mine = kind_of_name(name) if isinstance(path[-1][1], str) else ""
        inherited = kind or mine
        if isinstance(value, _ITERATORS) or (hasattr(value, "__next__") and not hasattr(value, "__dict__")):
            self.opaque.append(self.place(path))
            return
        parts = framework_parts(value)
        if parts is not None:
            if id(value) in self._seen:
                return
            self._seen.add(id(value))
            self._containers[path] = value
            for part in parts:
                self.parts[path, part.kind] = part
            self._look_inside(value, path)
            return
        array = as_array(value)
        if array is not None:
            leaf = kind or kind_of_array(mine, value, array)
            self.parts[path, leaf] = Part(leaf, {"": digest(array)}, value, give_array)
        elif is_plain(value):
            leaf = inherited or ("counter" if isinstance(value, int) and not isinstance(value, bool) else "value")
            self.parts[path, leaf] = Part(leaf, {"": digest_text(value)}, value, None)
        elif isinstance(value, Mapping | list | tuple) or hasattr(value, "__dict__") or hasattr(value, "__slots__"):
            self._enter(value, path, inherited if inherited in _WHOLE else "")

    def _look_inside(self, value: Any, path: PartPath) -> None:
        """Look at what stands inside of a framework's object, and is not the framework's."""
        if is_of("keras", "Model", value) and getattr(value, "optimizer", None) is not None:
            self._look(value.optimizer, (*path, ("attr", "optimizer")), "optimizer")
        if is_of("torch", "nn.Module", value):
            for name, module in value.named_modules():
                place = (*path, *(("attr", step) for step in name.split(".") if step))
                self._containers[place] = module
                own = [attribute for attribute in vars(module) if not attribute.startswith("_")]
                for attribute in own:
                    if attribute != "training":
                        self._look(getattr(module, attribute), (*place, ("attr", attribute)), "")


class Locals:
    """The local variables of a function that is running."""

    def __init__(self, frame: types.FrameType) -> None:
        self.frame = frame

    def items(self) -> list[tuple[str, Any]]:
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
