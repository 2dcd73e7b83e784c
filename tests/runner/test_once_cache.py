"""What a process computes once: equal calls share a value, and calls that may differ do not."""

from __future__ import annotations

import functools
import gc
import operator
import os
import sqlite3
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import StandaloneTrial, Trainer
from asyncsearch.errors import UsageError
from asyncsearch.runner import once_cache
from asyncsearch.runner.once_cache import MOST_KEPT, OnceCache, once
from asyncsearch.runner.once_identity import CallIdentity, identity_of

calls: list[object] = []
GUARD = threading.Lock()
ROWS: Any = 1


def load(name: str, size: int = 1) -> list[str]:
    calls.append(name)
    return [name] * size


def make_loader(name: str) -> Callable[[], list[str]]:
    return lambda: load(name)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    calls.clear()
    monkeypatch.setattr(once_cache, "_cache", OnceCache())


def test_equal_calls_share_one_value() -> None:
    assert once(load, "digits", 2) is once(load, "digits", 2)
    assert calls == ["digits"]


def test_other_arguments_are_another_value() -> None:
    assert once(load, "digits") != once(load, "faces")
    assert calls == ["digits", "faces"]


def test_an_exception_is_not_remembered() -> None:
    def fail() -> None:
        calls.append("fail")
        raise OSError

    for _ in range(2):
        with pytest.raises(OSError):
            once(fail)
    assert calls == ["fail", "fail"]


def test_a_class_can_be_made_once() -> None:
    assert once(list) is once(list)


class Source:
    def __init__(self, split: Any) -> None:
        self.split = split
        self.unread = object()

    def load(self) -> Any:
        return [self._inner()]

    def _inner(self) -> Any:
        return self.split

    @property
    def split_twice(self) -> Any:
        return self.split, self.split

    def by_property(self) -> Any:
        return [self.split_twice]

    def by_dict(self) -> Any:
        return [vars(self)["split"]]

    def by_helper(self) -> Any:
        return [split_of(self)]

    def __call__(self) -> Any:
        return [self.split]


def split_of(source: Source) -> Any:
    return source.split


def with_keyword(*, split: Any = None) -> list[Any]:
    return [split]


def keyword_default(split: Any) -> Callable[[], list[Any]]:
    def get(*, split: Any = split) -> list[Any]:
        return [split]

    return get


def with_attribute(split: Any) -> Callable[[], list[Any]]:
    def get() -> list[Any]:
        return [get.split]  # type: ignore[attr-defined]

    get.split = split  # type: ignore[attr-defined]
    return get


def captured_object(split: Any) -> Callable[[], list[Any]]:
    source = Source(split)
    return lambda: [source.split]


def reads_a_global(split: Any) -> Callable[[], list[Any]]:
    space: dict[str, Any] = {"SPLIT": split, "__name__": "__main__"}
    exec("def helper(): return SPLIT\ndef get(): return [helper()]", space)
    return space["get"]  # type: ignore[no-any-return]


def calls_a_helper(split: Any) -> Callable[[], list[Any]]:
    space: dict[str, Any] = {"__name__": "__main__", type(split).__name__: type(split)}
    exec(f"def helper(): return {split!r}\ndef get(): return [helper()]", space)
    return space["get"]  # type: ignore[no-any-return]


def reads_a_class(split: Any) -> Callable[[], list[Any]]:
    space: dict[str, Any] = {"__name__": "__main__", type(split).__name__: type(split)}
    exec(f"class Config:\n    split = {split!r}\ndef get(): return [Config.split]", space)
    return space["get"]  # type: ignore[no-any-return]


def reads_a_module(split: Any) -> Callable[[], list[Any]]:
    module = types.ModuleType("own_settings")
    vars(module)["SPLIT"] = split
    space: dict[str, Any] = {"__name__": "__main__", "own_settings": module}
    exec("def get(): return [own_settings.SPLIT]", space)
    return space["get"]  # type: ignore[no-any-return]


def in_a_module_of_a_package(line: str) -> Callable[[Any], Callable[[], list[Any]]]:
    def made(split: Any) -> Callable[[], list[Any]]:
        package, module = types.ModuleType("own_package"), types.ModuleType("own_package.own_settings")
        vars(module)["SPLIT"] = split
        vars(package)["own_settings"] = module
        package.__file__ = None  # as of a package without __init__.py
        space: dict[str, Any] = {"__name__": "__main__", "own_package": package, "own_settings": module}
        exec(line, space)
        return space["get"]  # type: ignore[no-any-return]

    return made


class Split:
    """A descriptor, which names its attribute by a text."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"_{name}"

    def __get__(self, source: Any, owner: type) -> Any:
        return getattr(source, self.name)

    def __set__(self, source: Any, value: Any) -> None:
        setattr(source, self.name, value)


class Described:
    split = Split()

    def __init__(self, split: Any) -> None:
        self.split = split

    def load(self) -> Any:
        return [self.split]


def cached(split: Any) -> Callable[[], list[Any]]:
    return functools.lru_cache(lambda: [split])


WAYS: list[Callable[[Any], Callable[[], Any]]] = [
    lambda split: Source(split).load,
    lambda split: Source(split).by_property,
    Source,
    lambda split: functools.partial(with_keyword, split=split),
    lambda split: functools.partial(functools.partial(lambda one: [one]), split),
    lambda split: lambda: [split],
    captured_object,
    keyword_default,
    with_attribute,
    reads_a_global,
    calls_a_helper,
    reads_a_class,
    reads_a_module,
    cached,
    lambda split: functools.partial(operator.methodcaller("copy"), [split]),
    lambda split: [split].copy,
    lambda split: functools.partial(Source(split).load),
    in_a_module_of_a_package("def get(): return [own_package.own_settings.SPLIT]"),
    in_a_module_of_a_package("def get(): return [getattr(own_settings, 'SPLIT', 0)]"),
    in_a_module_of_a_package("def get(): return [v for k, v in vars(own_settings).items() if k.isupper()]"),
    in_a_module_of_a_package("def get(): return [globals()['own_settings'].SPLIT]"),
    in_a_module_of_a_package("def make(m):\n    def get(): return [m.SPLIT]\n    return get\nget = make(own_settings)"),
    lambda split: Described(split).load,
]
VALUES: list[tuple[Any, Any]] = [
    ("train", "test"),
    (1, True),
    ([1, 2], [1, 3]),
    ({"a": 1}, {"a": 2}),
    (Path("a"), Path("b")),
    (list(range(2_000)), [*range(1_999), 0]),
]


@pytest.mark.parametrize("values", VALUES, ids=lambda pair: str(pair)[:20])
@pytest.mark.parametrize("way", WAYS, ids=range(len(WAYS)))
def test_functions_of_unequal_inputs_are_told_apart_and_equal_ones_shared(
    way: Callable[[Any], Callable[[], Any]], values: tuple[Any, Any]
) -> None:
    first, second = values
    found = [once(way(first)), once(way(second)), once(way(first))]
    assert found[1] == way(second)()
    assert found[0] == way(first)()
    assert found[2] is found[0], "made anew, and equal in all that it reads"


@pytest.mark.parametrize("way", [Source.by_dict, Source.by_helper])
def test_an_object_of_which_perhaps_all_is_read_is_not_taken_for_another(way: Callable[[Source], Any]) -> None:
    assert once(functools.partial(way, Source("train"))) == ["train"]
    assert once(types.MethodType(way, Source("test"))) == ["test"]
    assert once(types.MethodType(way, Source("train"))) == ["train"]


def test_a_changed_global_is_loaded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> list[Any]:
        return [ROWS]

    module = globals()
    for rows in (1, 5, [1], [1, 2], {"a": Source(1)}, {"a": Source(2)}):
        monkeypatch.setitem(module, "ROWS", rows)
        assert once(read) == [rows]
        assert once(read) is once(read)


@pytest.mark.parametrize("read", [lambda: os.environ["ROWS"], lambda: os.getenv("ROWS", "0")])
def test_a_changed_environment_variable_is_loaded_anew(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[], str]
) -> None:
    for rows in ("1", "5", "1"):
        monkeypatch.setenv("ROWS", rows)
        monkeypatch.setenv("OTHER", f"not read {rows}")
        assert once(lambda: [read()]) == [rows]
        assert once(lambda: [read()]) == [rows]


def test_a_function_that_is_registered_later_is_called() -> None:
    @functools.singledispatch
    def kind(_one: object) -> str:
        return "object"

    assert once(kind, 1) == "object"
    kind.register(int)(lambda _one: "int")
    assert once(kind, 1) == "int"


def test_a_list_to_which_it_adds_itself_does_not_count_as_a_change() -> None:
    for _ in range(3):
        once(functools.partial(load, "digits"))
    assert calls == ["digits"]


def test_threads_share_a_value_whose_computation_changes_what_it_reads() -> None:
    is_computing, asked, found = threading.Event(), threading.Event(), []

    def read() -> object:
        calls.append("read")
        is_computing.set()
        asked.wait(60)
        return object()

    class Cache(OnceCache):
        def turn(self, identity: CallIdentity) -> Any:
            if is_computing.is_set():
                asked.set()
            return super().turn(identity)

    once_cache._cache = Cache()
    threads = [threading.Thread(target=lambda: found.append(once(read)), daemon=True) for _ in range(2)]
    threads[0].start()
    assert is_computing.wait(60)
    threads[1].start()
    for thread in threads:
        thread.join(60)
    assert calls == ["read"]
    assert found[0] is found[1]


def test_a_thread_that_is_left_in_a_computation_keeps_no_other_waiting() -> None:
    """A thread that ended in the middle, as by an interrupt, does not either."""
    is_computing, may_end, found = threading.Event(), threading.Event(), []
    once_cache._cache = OnceCache()

    def read() -> str:
        if not is_computing.is_set():
            is_computing.set()
            may_end.wait(60)
        return "value"

    left = threading.Thread(target=lambda: once(read), daemon=True)
    other = threading.Thread(target=lambda: found.append(once(read)), daemon=True)
    left.start()
    assert is_computing.wait(60)
    other.start()
    assert left.ident
    once_cache.leave(left.ident)
    other.join(60)
    assert found == ["value"]
    may_end.set()
    left.join(60)
    assert once(read) == "value"

    turn = once_cache._cache.turn(identity_of(read, (), once_cache._cache.numbers))
    ended = threading.Thread(target=turn.__enter__)
    ended.start()
    ended.join(60)
    assert once(read) == "value"


def test_locks_do_not_tell_calls_apart() -> None:
    def read() -> object:
        with GUARD:
            return object()

    assert once(read) is once(read)


class Loading(Trainer):
    def setup(self, hp: dict[str, Any]) -> None:
        self.hp = hp
        self.path = "train.csv"
        self.model = bytearray(10)

    def by_path(self) -> list[Any]:
        return [self.path]

    def by_hp(self) -> list[Any]:
        return [self.hp["x"]]

    def by_trial(self) -> list[Any]:
        return [self.trial.params["x"]]

    def by_all_of_trial(self) -> list[Any]:
        return [self.trial.resource, self.trial.params["x"]]


def trainers(count: int) -> Iterator[Loading]:
    for number in range(count):
        trainer = Loading()
        trainer.trial = StandaloneTrial({"x": number}, max_resource=1)
        trainer.setup({"x": number})
        yield trainer


@pytest.mark.parametrize("is_lambda", [False, True])
def test_a_trainer_shares_only_what_does_not_depend_on_its_trial(is_lambda: bool) -> None:
    found = []
    for number, trainer in enumerate(trainers(3)):
        loads = (trainer.by_path, trainer.by_hp, trainer.by_trial, trainer.by_all_of_trial)
        lambdas = (lambda t=trainer: t.by_path(), lambda t=trainer: t.by_hp())
        values = [trainer.trial.once(one) for one in (lambdas if is_lambda else loads)]
        found.append(values[0])
        assert values[1] == [number]
        if not is_lambda:
            assert values[2] == [number]
            assert values[3] == [0, number]
    if not is_lambda:
        assert found[0] is found[1] is found[2]


def test_a_lambda_over_self_that_reads_an_equal_attribute_loads_once() -> None:
    def loader(self: Loading) -> Callable[[], list[Any]]:
        return lambda: [self.path]

    first, second = trainers(2)
    assert once(loader(first)) is once(loader(second))


def test_trainers_and_their_values_end_with_their_trials() -> None:
    class Data:
        pass

    alive: list[weakref.ref[Any]] = []
    for trainer in trainers(20):
        alive.append(weakref.ref(trainer))

        def read(trainer: Loading = trainer) -> Data:
            vars(trainer)
            return Data()

        alive.append(weakref.ref(once(read)))
        del read
    del trainer
    gc.collect()
    assert [one() for one in alive] == [None] * len(alive)


def test_values_that_depend_on_each_trial_are_bounded() -> None:
    class Data:
        pass

    alive: weakref.WeakSet[Data] = weakref.WeakSet()
    for number in range(5 * MOST_KEPT):

        def read(number: int = number) -> Data:
            return Data()

        alive.add(once(read))
    gc.collect()
    assert len(alive) == MOST_KEPT


def test_an_object_without_content_counts_as_itself_and_a_second_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def reader(connection: sqlite3.Connection) -> Callable[[], list[Any]]:
        return lambda: [connection]

    first, second, third = (sqlite3.connect(":memory:") for _ in range(3))
    assert once(reader(first)) is once(reader(first))
    assert capsys.readouterr().err == ""
    for other in (second, third):
        assert once(reader(other)) == [other]
    text = capsys.readouterr().err
    assert text.count("is computed again: it depends on an object of type Connection") == 1


def test_what_is_not_a_function_is_refused() -> None:
    with pytest.raises(UsageError, match=r"once\(\) is given list, the result of a call"):
        once([1])  # type: ignore[arg-type]
