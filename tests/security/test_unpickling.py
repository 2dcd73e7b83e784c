"""Nothing that comes from the network is unpickled: what listens or attaches there has no means to."""

from __future__ import annotations

import ast
import pickle
from functools import lru_cache
from pathlib import Path

import pytest

from asyncsearch.errors import ProtocolError
from asyncsearch.rpc.convert import decode_driver, decode_worker

ROOT = Path(__file__).parents[2] / "asyncsearch"
PICKLING = {"pickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib", "multiprocessing"}
CALLS = {"eval", "exec", "compile", "__import__"}

UNPICKLERS = {
    "checking/__main__.py": "files that the process above it has just written",
    "hyperopt/asked.py": "the program's own file of trials, which it names",
    "hyperopt/facts.py": "the study's own folder, when its program goes on",
    "launch/child_process.py": "the pipe that the launcher alone holds",
    "launch/remote/worker.py": "the closure of its task; what the driver has written into the store with the bundle",
    "launch/spark/broadcast.py": "a broadcast of the driver, sent as the closure of its task is",
    "launch/spark/remote_tasks.py": "the closure of its task",
    "launch/spark/task.py": "a pipe of the driver, which its own account alone can open",
    "launch/threads/thread_runner.py": "a bundle of this process",
    "launch/inline_runner.py": "a bundle of this process",
    "old_pickles.py": "definitions of earlier versions, read by the process that runs their study",
    "optuna/messages.py": "what is behind the seal of a launch, whose key the launcher alone has carried; own journals",
    "programs/pickles.py": "what is behind the seal of a launch, whose key the launcher alone has carried",
    "programs/raised.py": "what it has just pickled",
    "ray/requests.py": "the study's own folder, when its owner restores it, after it was resumed",
    "ray/runtime.py": "an object of the program's, which came with its trainable in the bundle",
    "ray/trial/checkpoints.py": "a checkpoint of this study, after its checksum",
    "runner/runner.py": "the bundle, over the agent's socket pair",
    "runner/process/spawned_children.py": "between a trial and the children that it has started, over their own pipe",
    "study/kept/definition.py": "the study's own folder, when its owner resumes it",
    "study/remote/driver_task.py": "what the client has written into the store, of which its closure has the checksum",
    "study/kept/kept_study.py": "the study's own folder, when its owner resumes it",
    "testing/base_suite.py": "what it has just pickled",
    "testing/store_checkpoints.py": "what it has just pickled",
    "trainable/trainer.py": "an error that the runner makes and this process reads",
    "trainers/state/members.py": "a checkpoint of this study, after its checksum",
}
"""Every module that can unpickle, and where its bytes come from; none of them is the network."""


@lru_cache(maxsize=1)  # a module is asked several questions at once
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
            if (node.module or "").endswith("old_pickles"):
                found.add("pickle")
    return found


def loads(path: Path) -> bool:
    if not imports_of(path) & PICKLING:
        return False
    names = {node.attr for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute)}
    names |= {node.id for node in ast.walk(tree(path)) if isinstance(node, ast.Name)}
    return bool(names & {"loads", "load", "Unpickler"})


@pytest.mark.parametrize("floor", ["rpc", "driver", "agent", "journal", "engine", "shared"])
def test_the_code_that_reads_the_network_imports_nothing_that_unpickles(floor: str) -> None:
    for path in (ROOT / floor).rglob("*.py"):
        assert not imports_of(path) & PICKLING, path
        called = {
            node.func.id
            for node in ast.walk(tree(path))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert "pb" in path.parts or not called & CALLS, path


def test_every_module_that_unpickles_says_where_its_bytes_come_from() -> None:
    found = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if loads(path)}
    assert found == set(UNPICKLERS)


class Trap:
    """Unpickling it leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self._trace = trace

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self._trace,))


def test_a_pickle_on_the_wire_is_no_message(tmp_path: Path) -> None:
    trace = tmp_path / "unpickled"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        data = pickle.dumps(Trap(trace), protocol)
        for decode in (decode_worker, decode_driver):
            with pytest.raises(ProtocolError):
                decode(data)
    assert not trace.exists()
