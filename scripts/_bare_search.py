"""What the messages of a short search take by themselves: no engine, no journal's format, no user's function.

The processes and the hops are those of a search. Each of the workers is an agent with a child that trains; it says over
a socket pair that it has come to a place where something is decided of it, its agent says so on its gRPC stream, the
driver appends a line to a file and syncs that in another thread, and the answer comes back the same way. The units
sleep. What a search takes beyond this is its own; what this takes beyond the units is the machine's.

    python scripts/_bare_search.py agent PORT UNITS WAITS
"""

from __future__ import annotations

import asyncio
import os
import queue
import socket
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

METHOD = "/bare/attach"
UNIT_S = 0.02


def bare_search_s(workers: int, units: int, waits: int) -> float:
    """Return the seconds from the first unit to the last one, of workers that are there already.

    Args:
        workers: how many.
        units: of all of them.
        waits: how often one of them waits for a decision.
    """
    return asyncio.run(_drive(workers, units // workers, waits // workers))


async def _drive(workers: int, units: int, waits: int) -> float:
    from asyncsearch.rpc.quiet_grpc import grpc

    began_s = ended_s = 0.0
    attached, all_there = 0, asyncio.Event()
    disk = ThreadPoolExecutor(1)

    async def serve(_requests: Any, context: Any) -> None:
        nonlocal began_s, ended_s, attached
        attached += 1
        if attached == workers:
            began_s = time.perf_counter()
            all_there.set()
        await all_there.wait()
        await context.write(b"begin")
        while (said := await context.read()) != b"end":
            await asyncio.get_running_loop().run_in_executor(disk, append, said)
            await context.write(said)
        ended_s = time.perf_counter()

    with tempfile.TemporaryFile() as journal:

        def append(line: bytes) -> None:
            os.write(journal.fileno(), line + b"\n")
            os.fsync(journal.fileno())

        server = grpc.aio.server()
        method = grpc.stream_stream_rpc_method_handler(serve)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bare", {"attach": method}),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        command = [sys.executable, __file__, "agent", str(port), str(units), str(waits)]
        for agent in [await asyncio.create_subprocess_exec(*command) for _ in range(workers)]:
            await agent.wait()
        await server.stop(None)
        disk.shutdown()
    return ended_s - began_s


def serve_as_agent(port: int, units: int, waits: int) -> None:
    """Be an agent whose child trains."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        _train(theirs, units, waits)
        os._exit(0)
    theirs.close()
    from asyncsearch.rpc.quiet_grpc import grpc

    said: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream(METHOD)(iter(said.get, b""))
        for answer in call:
            ours.send(answer)
            message = ours.recv(100)
            said.put(message)
            if message == b"end":
                break
        for _ in call:
            pass


def _train(agent: socket.socket, units: int, waits: int) -> None:
    agent.recv(100)
    for unit in range(1, units + 1):
        time.sleep(UNIT_S)
        if unit * waits // units > (unit - 1) * waits // units:
            agent.send(b"x" * 90)
            agent.recv(100)
    agent.send(b"end")


if __name__ == "__main__":
    serve_as_agent(*map(int, sys.argv[2:]))
