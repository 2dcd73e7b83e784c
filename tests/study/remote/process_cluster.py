"""A cluster of processes on this machine, each of them a task: as many slots as are asked for, and kills by process."""

from __future__ import annotations

import contextlib
import functools
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError

import msgspec

from asyncsearch.agent.runner_template import fork_template
from asyncsearch.errors import InternalError
from asyncsearch.ids import WorkerId
from asyncsearch.launch.base_launcher import ConfigFor, Launcher, OnWorkerEnded, Preflight
from asyncsearch.launch.remote.worker import MetDriver
from asyncsearch.launch.value_pickler import dumps
from asyncsearch.runner.template import main_in_fork
from asyncsearch.store.base_store import Store

_TASK = "import pickle, sys; task = pickle.load(sys.stdin.buffer); sys.stdout.write(task())"


class ProcessTasks:
    """``RemoteTasks`` whose tasks wait for a slot, then run in a process of their own."""

    def __init__(self, slots: int, store_seen: Callable[[Store], Store] = lambda store: store) -> None:
        self._free = threading.Semaphore(slots)
        self._guard = threading.Lock()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._outs: dict[str, Future[bytes]] = {}
        self.begun: list[str] = []
        """The tags of all tasks that were begun, in order."""
        self._cancelled: set[str] = set()
        self._store_seen = store_seen
        self.is_gone = False
        """Whether the cluster does not answer any more."""

    def drive(self, content: bytes, tag: str) -> str:
        return self._run(functools.partial(_drive, content), tag)

    def work(self, store: Store, tag: str) -> str:
        return self._run(functools.partial(_work, dumps(store)), tag)

    def is_running(self, tag: str) -> bool:
        return tag in self.running

    def cancel(self, tag: str) -> None:
        with self._guard:
            self._cancelled.add(tag)
            if tag in self.running:
                self.running[tag].kill()

    def trouble(self) -> str:
        return "the cluster does not answer" if self.is_gone else ""

    def why_lost(self, error: BaseException) -> str:
        return str(error)

    def kill(self, begin: str) -> int:
        """Kill the running tasks whose tag begins so, and return how many these were."""
        with self._guard:
            found = [process for tag, process in self.running.items() if tag.startswith(begin)]
            for process in found:
                process.kill()
            return len(found)

    def lose_sight_of(self, begin: str) -> subprocess.Popen[bytes]:
        """Take a task for lost that goes on, as a cluster does whose machine cannot be reached."""
        with self._guard:
            [tag] = [tag for tag in self.running if tag.startswith(begin)]
            self._outs[tag].set_exception(RuntimeError("its machine is out of reach"))
            return self.running[tag]

    def _run(self, task: Callable[[], str], tag: str) -> str:
        with self._free:
            with self._guard:
                if tag in self._cancelled:
                    raise RuntimeError("it was cancelled")
                process = subprocess.Popen([sys.executable, "-c", _TASK], stdin=-1, stdout=-1)
                self.running[tag] = process
                self.begun.append(tag)
                out: Future[bytes] = Future()
                self._outs[tag] = out
            talk = functools.partial(_talk, process, pickle.dumps(task), out)
            threading.Thread(target=talk, name=f"task-{tag}", daemon=True).start()
            try:
                return out.result().decode()
            finally:
                with self._guard:
                    del self.running[tag], self._outs[tag]


def _talk(process: subprocess.Popen[bytes], task: bytes, out: Future[bytes]) -> None:
    said, _ = process.communicate(task)
    with contextlib.suppress(InvalidStateError):  # nobody waits for it any more
        if process.returncode:
            out.set_exception(RuntimeError(f"its process ended with {process.returncode}"))
        else:
            out.set_result(said)


def _drive(content: bytes) -> str:
    answer: str = pickle.loads(content)("127.0.0.1")
    return answer


def _work(store: bytes) -> str:
    fork_template(main_in_fork)  # as in a task of Spark
    met = MetDriver(store)
    config = met.received()
    return "" if config is None else met.run(msgspec.structs.replace(config, keeps_template=True))


class ProcessCluster(Launcher):
    """A backend whose driver must be one of its tasks."""

    name = "process-cluster"

    def __init__(self, workers: int = 2, slots: int | None = None) -> None:
        self._workers = workers
        self.tasks = ProcessTasks(workers + 1 if slots is None else slots)

    def check(self, parallelism: int | None) -> Preflight:
        return Preflight(parallelism=parallelism or self._workers, is_remote=True, place="processes as a cluster")

    @property
    def drives_remotely(self) -> bool:
        return True

    def remote_tasks(self) -> ProcessTasks:
        return self.tasks

    def start(self, config_for: ConfigFor, ended: OnWorkerEnded) -> None:
        raise InternalError("the driver is not here")

    def launch(self, worker: WorkerId, epoch: int) -> None:
        raise InternalError("the driver is not here")

    def kill(self, worker: WorkerId, epoch: int) -> None:
        raise InternalError("the driver is not here")

    def stop(self, grace_s: float) -> None:
        pass
