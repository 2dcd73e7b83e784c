"""A check reads what it can: what fails, waits or loads when it is looked at is said, and blamed on nobody."""

from __future__ import annotations

import collections
import itertools
import multiprocessing
import random
import socket
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch import check
from asyncsearch.checking.trainable_state import TrainableState


def _fail(*_: Any, **__: Any) -> Any:
    raise OSError("it is far away")


_HOOKS = ("__eq__", "__array__", "numpy", "__reduce__", "__reduce_ex__", "__len__", "__iter__", "__getattr__",
          "__repr__", "__bool__", "__getitem__", "__next__", "__deepcopy__", "__getattribute__", "__dir__", "__str__",
          "items", "keys", "__contains__", "__getstate__")  # fmt: skip


def hostile(base: Any, hooks: frozenset[str], is_property: bool) -> Any:
    """Return an object some of whose methods, or properties of their names, fail."""
    names = {name: property(_fail) if is_property and not name.startswith("__") else _fail for name in hooks}
    kind = type("Hostile", (base,), {**names, "__class__": property(_fail)} if is_property else names)
    return base.__new__(kind)  # not a call, which may use the methods


class Endless(Mapping[str, int]):
    """Reads from a place that never ends."""

    def __getitem__(self, key: str) -> int:
        return 1

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        return map(str, itertools.count())


class EndlessList(list[int]):
    def __iter__(self) -> Iterator[int]:
        return itertools.count()


def _closed_file() -> Any:
    with tempfile.TemporaryFile() as file:
        return file


def _closed_socket() -> Any:
    with socket.socket() as found:
        return found


def _dead_proxy() -> Any:
    return weakref.proxy(set[int]())


def _cyclic() -> Any:
    found: list[Any] = []
    found.append(found)
    return found


def _closed_map() -> Any:
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"12345678")
        file.flush()
        return np.memmap(file.name, dtype=np.uint8)


OBJECTS: dict[str, Callable[[], Any]] = {
    "closed file": _closed_file,
    "dead proxy": _dead_proxy,
    "cycle": _cyclic,
    "memory of a file": _closed_map,
    "generator": lambda: (number for number in itertools.count()),
    "closed socket": _closed_socket,
    "lock": threading.Lock,
    "system's generator": random.SystemRandom,
    "endless mapping": Endless,
    "endless list": lambda: EndlessList([1, 2]),
    "objects in an array": lambda: np.array([{}, object()], dtype=object),
    "records of objects": lambda: np.array([(1, {})], dtype=[("a", int), ("b", object)]),
    "no bytes": lambda: np.zeros(3, dtype="V0"),
    "objects as keys": lambda: {object(): 1, hostile(tuple, frozenset({"__repr__", "__len__"}), False): 2},
    "chain": lambda: collections.ChainMap({"a": np.ones(2)}, {}),
}


def main_with(make: Callable[[], Any]) -> Callable[[Any], None]:
    def main(trial: Any) -> None:
        state, strange = {"x": 1.0}, make()
        for _ in trial.epochs(state={"state": state}):
            state["x"] *= 0.5
            trial.report(loss=state["x"])
        del strange

    return main


@pytest.mark.parametrize("name", OBJECTS)
def test_no_object_of_a_function_makes_its_check_fail(name: str) -> None:
    result = check(main_with(OBJECTS[name]), units=2, processes=False)
    assert result.ok, result


@settings(max_examples=60, deadline=None)
@given(
    base=st.sampled_from([object, dict, list, set, int, str, np.ndarray, random.Random]),
    hooks=st.frozensets(st.sampled_from(_HOOKS)),
    is_property=st.booleans(),
)
def test_no_object_makes_a_state_fail(base: type, hooks: frozenset[str], is_property: bool) -> None:
    if base is np.ndarray:
        value: Any = np.zeros(2).view(
            type("Hostile", (np.ndarray,), dict.fromkeys(hooks - {"__getattribute__"}, _fail))
        )
    else:
        value = hostile(base, hooks, is_property)
    holder = type("Trainer", (), {})()
    holder.strange, holder.weight = [value], np.ones(3)
    state = TrainableState(holder)
    assert any("weight" in place for place in state.digests())
    state.give(TrainableState(holder), {"weights", "value"})


def test_a_dataset_is_said_to_be_read_by_nobody() -> None:
    tf: Any = pytest.importorskip("tensorflow")

    def with_dataset(trial: Any) -> None:
        state, data = {"x": 1.0}, tf.data.Dataset.range(10)
        batches = iter(data.batch(2))
        handle = data._variant_tensor
        for _ in trial.epochs(state={"state": state}):
            state["x"] *= 0.5
            trial.report(loss=state["x"] + 0 * float(next(batches)[0]))
        del handle

    result = check(with_dataset, units=2, processes=False)
    assert result.ok, result
    assert "not compared, for it cannot be read: data (_RangeDataset), " in str(result)
    assert "handle (EagerTensor)" in str(result)


def test_a_pool_that_is_used_gets_no_part_of_another_one() -> None:
    def with_pool(trial: Any) -> None:
        state = {"x": 1.0}
        with multiprocessing.get_context("fork").Pool(1) as pool:
            for _ in trial.epochs(state={"state": state}):
                state["x"] *= 0.5
                trial.report(loss=pool.map_async(abs, [-state["x"]]).get(timeout=60)[0])

    result = check(with_pool, units=2, processes=False)
    assert result.ok, result
    assert "not compared, for it cannot be read: pool (Pool)" in str(result)


def test_what_cannot_be_read_does_not_hide_what_was_forgotten() -> None:
    def forgetful(trial: Any) -> None:
        state, other, strange = {"x": 1.0}, {"y": 1.0}, random.SystemRandom()
        for _ in trial.epochs(state={"state": state}):
            state["x"] *= 0.5
            other["y"] += 1.0
            trial.report(loss=state["x"] + other["y"])
        del strange

    result = check(forgetful, units=2, processes=False)
    assert not result.ok
    assert "other" in str(result)
    assert "strange (SystemRandom)" in str(result)
