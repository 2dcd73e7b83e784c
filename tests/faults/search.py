"""A search as a script whose processes die, or are interrupted, at moments that its argument names.

    python -m tests.faults.search '{"folder": "/tmp/x", "kill": "write:17:within"}'

It leaves in the folder: ``study``, its store; ``witness``, each line of the journal that was durable as soon as it was;
``acknowledged``, each message that a worker was told to forget; ``moments``, what has been done; ``counts``, its calls.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from asyncsearch import ASHA, Checkpoints, GridSearch, Study, WorkerOptions, choice
from asyncsearch.agent.config import WorkerConfig
from asyncsearch.driver.loop import Driver
from asyncsearch.engine.pool import Pool
from asyncsearch.ids import WorkerId
from asyncsearch.launch.base_launcher import run_agent
from asyncsearch.launch.processes import ProcessLauncher
from asyncsearch.rpc.messages import WorkerMessage
from asyncsearch.rpc.server import SearchServer
from asyncsearch.store.local.store import LocalSegment
from tests.faults.breakages import BREAKAGES, MENDINGS, unlimited
from tests.faults.moments import Calls, Moment, kill_this, stop_this
from tests.faults.places import Places, Victim
from tests.faults.trained import Packed, make_trainable

CONFIGURATIONS = 9
UNITS = 9
LIVES = 30
"""Failures that a trial may have: more than it is killed."""
_write, _open = os.write, os.open


class Order(msgspec.Struct, kw_only=True):
    """What is to happen; the argument of the script."""

    folder: str
    kill: str = ""
    """The moment of the driver at which it dies."""
    stop: str = ""
    """The moment of the driver at which it is stopped, until it gets SIGCONT."""
    lease_timeout: float = 30.0
    """Seconds of silence after which a worker is lost."""
    interrupts: list[str] = []
    """Moments of the driver at which Ctrl-C is pressed."""
    victims: list[Victim] = []
    """Places in trials at which the runner or its agent dies."""
    kill_agent: str = ""
    """The moment of the first agent at which it dies."""
    breaks: dict[str, str] = {}
    """Moment of the driver -> the breakage of its store."""
    mends: dict[str, str] = {}
    """Moment of the driver or an agent, whoever reaches it first -> the breakage that is mended."""
    store: str = ""
    """Folder or file to go on from. ``study`` if empty."""
    store_timeout: float | None = None
    """Seconds that the store is waited for. The default if None."""


class Witness:
    """Files of what was promised; a line is whole in them before anybody can rely on the promise."""

    def __init__(self, folder: Path) -> None:
        self._files = {
            name: _open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            for name in ("witness", "acknowledged", "moments")
        }
        self._messages: dict[tuple[int, int], dict[int, WorkerMessage]] = {}

    def note(self, name: str, data: bytes) -> None:
        _write(self._files[name], data)

    def watch(self) -> None:
        """Note what is durable, and what is acknowledged."""
        note, messages = self.note, self._messages
        append, received, acknowledge = LocalSegment.append, Driver.received, SearchServer.acknowledge

        def watched_append(self: LocalSegment, data: bytes) -> None:
            append(self, data)
            note("witness", data)

        pools: list[Pool] = []

        def watched_received(self: Driver, worker: WorkerId, epoch: int, number: int, message: WorkerMessage) -> None:
            pools[:] = [self._state.pool]
            messages.setdefault((worker, epoch), {})[number] = message
            received(self, worker, epoch, number, message)

        def watched_acknowledge(self: SearchServer, worker: WorkerId, epoch: int, number: int) -> None:
            waiting = messages.get((worker, epoch), {})
            for sent in sorted(sent for sent in waiting if sent <= number):
                message = waiting.pop(sent)
                # What a worker that counts as lost says is acknowledged only so that it comes no more.
                if pools[0].is_current(worker, epoch):
                    note("acknowledged", msgspec.json.encode(message) + b"\n")
            acknowledge(self, worker, epoch, number)

        LocalSegment.append = watched_append  # type: ignore[method-assign]
        Driver.received = watched_received  # type: ignore[method-assign]
        SearchServer.acknowledge = watched_acknowledge  # type: ignore[method-assign]


class Mortal:
    """The agent's function: the first agent of the study that reaches the moment dies there."""

    def __init__(self, order: Order) -> None:
        self._order = order

    def __call__(self, config: WorkerConfig) -> str:
        order = self._order
        acts = mending(order)
        if order.kill_agent:
            places = Places(order.folder, [])
            acts[Moment.parse(order.kill_agent)] = lambda moment: places.die_once(lambda: kill_this(moment))
        if acts:
            Calls(acts)
        return run_agent(config)


def mending(order: Order) -> dict[Moment, Callable[[Moment], None]]:
    """Return the mendings by their moments; the first process that reaches one does it."""
    folder, places = Path(order.folder), Places(order.folder, [])
    return {
        Moment.parse(text): lambda _, name=name: places.claim("mended", lambda: MENDINGS[name](folder))  # type: ignore[misc]
        for text, name in order.mends.items()
    }


def make_study(order: Order, **options: Any) -> Study:
    """Return the study of the script."""
    waiting: dict[str, Any] = {} if order.store_timeout is None else {"store_timeout": order.store_timeout}
    settings: dict[str, Any] = {
        "space": {"x": choice(*range(1, CONFIGURATIONS + 1))},
        "metric": "loss",
        "mode": "min",
        "searcher": GridSearch(),
        "scheduler": ASHA(max_resource=UNITS),
        "store": order.store or Path(order.folder) / "study",
        "backend": ProcessLauncher(agent=Mortal(order)),
        "max_failures": LIVES,
        "resume": True,
        "name": "faults",
        "workers": WorkerOptions(stop_grace=1.0, lease_timeout=order.lease_timeout),
        "checkpoints": Checkpoints(keep_checkpoints=2, at_rungs=True, **waiting),
    }
    trainable = Packed if "pack" in options else make_trainable(Places(order.folder, order.victims))
    return Study(trainable, **(settings | options))


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets commands in its background ignore it
    order = msgspec.json.decode(sys.argv[1], type=Order)
    folder = Path(order.folder)
    witness = Witness(folder)

    def noted(act: Callable[[Moment], None]) -> Callable[[Moment], None]:
        def noted_act(moment: Moment) -> None:
            witness.note("moments", f"{moment}\n".encode())
            act(moment)

        return noted_act

    moments: Mapping[str, Callable[[Moment], None]] = {
        **({order.kill: kill_this} if order.kill else {}),
        **({order.stop: stop_this} if order.stop else {}),
        **dict.fromkeys(order.interrupts, lambda _: os.kill(os.getpid(), signal.SIGINT)),
        **{text: lambda _, name=name: BREAKAGES[name](folder) for text, name in order.breaks.items()},  # type: ignore[misc]
    }
    study = make_study(order)
    witness.watch()
    calls = Calls({Moment.parse(text): noted(act) for text, act in moments.items()} | mending(order))
    calls.count_ours()
    try:
        study.run(parallelism=2)
    finally:
        unlimited(folder)  # the error is shown in a file too
    calls.end()
    (folder / "counts").write_bytes(msgspec.json.encode(calls.counts))
    sys.stdout.write(f"best: {study.best_trial.params['x']}\n")


if __name__ == "__main__":
    from tests.faults.search import main as search  # so that workers find its classes in a module

    search()
