"""A search whose process may open few descriptors, while strangers take all connections that they can get.

Run as a script by ``test_flood.py``, because the limit is that of a whole process: ``under_flood.py FOLDER LIMIT``.
"""

from __future__ import annotations

import json
import os
import queue
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil

from asyncsearch.events import WorkerAttached, WorkerLost
from asyncsearch.journal.opening import read_records
from asyncsearch.rpc.server import SearchServer
from tests.system.tools import Running, make_study
from tests.system.trained import Gate, make_trainable

STRANGERS = 600
FLOOD = f"""
import asyncio, sys

async def hold(port, begun):
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            begun.set()
            await reader.read(1)
            writer.close()
        except OSError:
            begun.set()
        await asyncio.sleep(0.5)

async def main():
    port = int(await asyncio.to_thread(sys.stdin.readline))
    begun = [asyncio.Event() for _ in range({STRANGERS})]
    tasks = [asyncio.create_task(hold(port, one)) for one in begun]
    for one in begun:
        await one.wait()
    print("all are there", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()

asyncio.run(main())
"""


def ports_of_servers() -> queue.SimpleQueue[int]:
    """Return where the published port of each server of this process appears."""
    ports: queue.SimpleQueue[int] = queue.SimpleQueue()
    start: Any = SearchServer.start

    async def started(self: SearchServer, *place: Any) -> int:
        port: int = await start(self, *place)
        ports.put(port)
        return port

    patched: Any = SearchServer
    patched.start = started
    return ports


def main(folder: Path, limit: int) -> None:
    flood = subprocess.Popen([sys.executable, "-c", FLOOD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert flood.stdin is not None
    assert flood.stdout is not None
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    ports = ports_of_servers()
    gate = Gate(folder).make()
    running = Running(make_study(make_trainable(gate), folder / "study"), parallelism=1)
    _, agent = gate.pids()
    flood.stdin.write(f"{ports.get()}\n")
    flood.stdin.flush()
    flood.stdout.readline()
    most, over = 0, threading.Event()

    def count() -> None:
        nonlocal most
        while not over.wait(0.05):
            most = max(most, psutil.Process().num_fds())

    counting = threading.Thread(target=count)
    counting.start()
    os.kill(agent, signal.SIGKILL)
    study = running.wait()
    over.set()
    counting.join()
    flood.communicate()
    events = [record.event for record in read_records(study.store)]
    found = {
        "trials": len(study.trials),
        "failed": sum(trial.state.value == "FAILED" for trial in study.trials),
        "best": study.best_trial.params,
        "lost": sum(isinstance(event, WorkerLost) for event in events),
        "attached": sorted(event.epoch for event in events if isinstance(event, WorkerAttached)),
        "descriptors_most": most,
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
