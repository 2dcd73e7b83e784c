"""The state of a trainable at a moment, part by part: the place, the kind, and a digest of the content.

A part can be given to another object of the same kind, in order to test whether it was the missing one.
Only frameworks that are already imported are recognised; see ``trainers.state.global_generators``.
"""

from __future__ import annotations

import contextlib
import copy
import re
import types
from collections.abc import Collection, Mapping
from pathlib import PurePath
from typing import Any

from asyncsearch.checking.steps_into import Locals, has_attributes, may_be_read, plain_key, steps_into
from asyncsearch.checking.trainable_parts import (
    Part,
    as_array,
    digest,
    digest_text,
    framework_parts,
    give_array,
    is_plain,
    kind_of_array,
)
from asyncsearch.trainable import TrialContext
from asyncsearch.trainers.state import is_of

_KINDS = (
    ("scaler", r"grad_?scal|loss_?scal|\bscaler\b"),
    ("optimizer", r"optim|\bopt\b|momentum|velocit|\badam|\bms\b|\bvs\b"),
    ("generator", r"rng|random|generator|seed_state"),
    ("buffers", r"running_|moving_|buffer|\bema\b|average"),
    ("order", r"order|perm|shuffl|indices|queue|loader|batches"),
    ("offset", r"offset|position|cursor|samples|\bplace\b"),
    ("counter", r"step|count|epoch|iteration|\bt_?\b|number"),
    ("weights", r"weight|bias|coef|intercept|param|kernel|theta"),
)
_PATTERNS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _KINDS)


def kind_of_name(name: str) -> str:
    """Return the kind that a name suggests, or an empty text."""
    return next((kind for kind, pattern in _PATTERNS if pattern.search(name)), "")


_MAX_DEPTH = 10
_MAX_PARTS = 20_000
_MAX_CONTAINERS = 200_000

PartPath = tuple[tuple[str, Any], ...]
"""The steps from the root to a place, each ("attr", name) or ("item", key)."""

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
"""Kinds that apply to every part inside an object whose name suggests them."""


class TrainableState:
    """All parts that are reachable from a trainer, or from the local variables of a function."""

    def __init__(self, root: Any) -> None:
        self.parts: dict[tuple[PartPath, str], Part] = {}
        self.opaque: list[str] = []
        """Iterators, whose positions cannot be read."""
        self.unread: list[str] = []
        """Other places that cannot be read, each with its class: whatever an object does there is no fault of it."""
        self._containers: dict[PartPath, Any] = {}
        self._seen: set[int] = set()
        self._is_frame = isinstance(root, types.FrameType)
        self._enter(Locals(root) if self._is_frame else root, (), "")

    def digests(self) -> dict[str, str]:
        """Return all digests, by the kind and the place of their parts."""
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
        """Return the places whose content differs from the other state, by kind."""
        found: dict[str, list[str]] = {}
        for (path, kind), part in self.parts.items():
            twin = other.parts.get((path, kind))
            theirs = {} if twin is None else twin.digests
            found.setdefault(kind, []).extend(
                self.place(path) + name for name, digest in part.digests.items() if theirs.get(name) != digest
            )
        return {kind: places for kind, places in found.items() if places}

    def give(self, other: TrainableState, kinds: Collection[str], but: str = "") -> None:
        """Copy the differing parts of some kinds into the other state, except for one place."""
        done: set[PartPath] = set()
        for (path, kind), part in self.parts.items():
            twin = other.parts.get((path, kind))
            if kind not in kinds or self.place(path) == but or (twin is not None and twin.digests == part.digests):
                continue
            if twin is not None and part.give is not None:
                with contextlib.suppress(Exception):  # another shape, say; then it is set
                    part.give(part.owner, twin.owner)
                    continue
            # A missing object is set as a whole, so that its parts stay together.
            at = next((at for at in range(len(path)) if path[: at + 1] not in other._containers), len(path) - 1)
            missing = path[: at + 1]
            if missing not in done:
                done.add(missing)
                value = self._containers.get(missing, part.owner)
                with contextlib.suppress(Exception):  # what cannot be set, as an item of a tuple, stays different
                    _set(other._containers[path[:at]], path[at], _copied(value))

    def _enter(self, value: Any, path: PartPath, kind: str) -> None:
        """Look into an object that has parts."""
        is_enough = len(self.parts) > _MAX_PARTS or len(self._containers) > _MAX_CONTAINERS
        if id(value) in self._seen or len(path) > _MAX_DEPTH or is_enough:
            return
        self._seen.add(id(value))
        self._containers[path] = value
        for step, part in steps_into(value):
            self._look(part, (*path, step), kind)

    def _look(self, value: Any, path: PartPath, kind: str) -> None:
        """Look at an object, whatever it does when it is looked at."""
        if issubclass(type(value), _SKIPPED) or getattr(type(value), "is_of_no_training", False):
            return
        try:
            if not may_be_read(value):
                raise TypeError
            self._read(value, path, kind)
        except Exception:  # a closed file, an array on another machine, a variant of TensorFlow: not the user's fault
            self.unread.append(f"{self.place(path)} ({type(value).__name__})")

    def _read(self, value: Any, path: PartPath, kind: str) -> None:
        mine = kind_of_name(path[-1][1]) if isinstance(path[-1][1], str) else ""
        inherited = kind or mine
        if isinstance(value, _ITERATORS) or (hasattr(type(value), "__next__") and not has_attributes(value)):
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
        elif isinstance(value, Mapping | list | tuple) or has_attributes(value):
            self._enter(value, path, inherited if inherited in _WHOLE else "")

    def _look_inside(self, value: Any, path: PartPath) -> None:
        """Look at the attributes of a framework's object that are not the framework's own."""
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


def _set(container: Any, step: tuple[str, Any], value: Any) -> None:
    how, key = step[0], plain_key(step[1])
    if how == "item" or isinstance(container, Locals):
        container[key] = value
    else:
        setattr(container, key, value)


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # a part of it cannot be copied; the outcome shows whether sharing it is enough
        return value
