"""What a trial's process gives to those that it starts by ``spawn`` or ``forkserver``, which cannot import it."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import cloudpickle
import pytest

from asyncsearch.runner.process import spawned_children
from asyncsearch.runner.process.spawned_children import send_by_value, sending_copies
from tests.shares import names

CODE = """
import {name}_b as b

class Point:
    def __init__(self, x):
        self.x = x

def square(x):
    return x * x

SEEN = []

def note(value):
    SEEN.append(value)

def noted(_):
    return SEEN

def moved(point):
    assert isinstance(point, Point)
    return Point(b.next_of(point.x))
"""


def doubled(x: int) -> int:
    return 2 * x


@pytest.fixture(params=["sent_module", "__main__"])
def user(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module of the user's own that is here and on no path, as what was sent with a trainable."""
    send_by_value()
    spawned_children._can_be_imported.cache_clear()
    spawned_children._register_modules.cache_clear()
    other = ModuleType("sent_module_b")
    exec("def next_of(x):\n    return x + 1", vars(other))
    monkeypatch.setitem(sys.modules, "sent_module_b", other)
    module = ModuleType(request.param)
    monkeypatch.setitem(sys.modules, request.param, module)
    exec(CODE.format(name="sent_module"), vars(module))
    yield module
    for name in cloudpickle.list_registry_pickle_by_value() & {"sent_module", "sent_module_b"}:
        cloudpickle.unregister_pickle_by_value(sys.modules[name])
    del ForkingPickler.reducer_override


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_functions_and_objects_of_the_user_go_to_a_pool_and_come_back(user: Any, method: str) -> None:
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.map_async(user.square, range(3)).get(timeout=60) == [0, 1, 4]
        points = pool.map_async(user.moved, [user.Point(1), user.Point(2)]).get(timeout=60)
    assert [point.x for point in points] == [2, 3]
    assert {type(point) for point in points} == {user.Point}


def test_what_a_child_can_import_is_sent_by_its_name(user: Any) -> None:
    del user
    found = bytes(ForkingPickler.dumps(spawned_children.received))
    assert b"received" in found
    assert len(found) < 100


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_copy_of_a_function_goes_to_a_pool_while_a_trial_trains_with_it(method: str) -> None:
    before = dict(vars(ForkingPickler))
    copy = cloudpickle.loads(cloudpickle.dumps(FunctionType(doubled.__code__, globals(), "doubled")))
    assert copy is not doubled
    with sending_copies(), multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.map_async(copy, range(3)).get(timeout=60) == [0, 2, 4]
        assert bytes(ForkingPickler.dumps(doubled)) == pickle.dumps(doubled), "itself goes by its name"
    assert dict(vars(ForkingPickler)) == before


SCRIPT = """
import multiprocessing
STATE, NUMBER = {"seen": 0}, 0

def init(given):
    global NUMBER, LATER
    STATE["seen"] = NUMBER = LATER = given

def task(_):
    return STATE["seen"], NUMBER, LATER

def train(trial):
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1, init, (5,)) as pool:
            assert pool.map_async(task, range(3)).get(timeout=60) == [(5, 5, 5)] * 3, method
    return 1.0
"""


@pytest.mark.parametrize("backend", ["processes", "inline"])
def test_what_an_initializer_of_a_pool_sets_is_what_its_tasks_read(backend: str, tmp_path: Path) -> None:
    run = (
        "if __name__ == '__main__':\n    from asyncsearch import Study, uniform\n"
        "    space = {'x': uniform(0, 1)}\n"
        f"    study = Study(train, space=space, metric='loss', mode='min', store='s', backend={backend!r})\n"
        "    study.run(2, parallelism=1)\n"
    )
    (tmp_path / "script.py").write_text(SCRIPT + run)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("method", names(["fork", "spawn", "forkserver"], ["fork", "spawn"]))
def test_functions_of_a_sent_module_share_its_globals_in_a_child(user: Any, method: str) -> None:
    with multiprocessing.get_context(method).Pool(1, user.note, (7,)) as pool:
        assert pool.map_async(user.noted, range(2)).get(timeout=60) == [[7], [7]]
        (back,) = pool.map_async(returned, [user.note]).get(timeout=60)
    assert back.__globals__ is vars(user)


def returned(value: Any) -> Any:
    return value
