"""Checkpoints and journal records on each kind of store, beside HDFS's own Java client and a bare HTTP append.

An HDFS of two DataNodes is started for it, or with ``--running`` that of ``scripts/hdfs.sh start`` is used. Kinds take
turns, each turn in a drawn order, so that a disturbance meets all of them; each figure is a median. Of nine turns
with 64 MB it was 0.97 to 1.59 times its baseline on a busy machine: leave ``--repeats`` at 25 or more.

``save_large_*`` and ``load_large_*`` are a checkpoint of ``--megabytes``; ``save_small_*`` and ``load_small_*`` one of
10 kB, of ``--small``; the baseline is the Java client that copies the same file and, to save, writes and renames a
manifest: it neither hashes nor lists what has arrived. ``record_*`` is a synced record of 300 bytes, of ``--records``;
its baseline is the Java client's ``hsync``, for ``webhdfs`` an append by two bare HTTP requests. With ``--digits``,
``digits_hdfs_s`` is the digits search of 8 trials on local processes, its baseline the same on local disk.

    python scripts/bench_store.py [--megabytes 64] [--small 50] [--records 500] [--repeats 25] [--running] [--digits]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from _bench import Figure, show
from _hadoop import user
from _hdfs import Hdfs
from _jvm_client import JvmClient, jvm_client
from _servers import cluster_folder

from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.store import Store, open_store, scratch

NODE = NodeKey("0" * 32)
SMALL_BYTES, RECORD = 10_000, b"x" * 299 + b"\n"
MANIFEST = b"{}" * 100
DIGITS = Path(__file__).with_name("digits_search.py")
Kinds = Mapping[str, Callable[[int], object]]


def taken(kinds: Kinds, repeats: int) -> dict[str, float]:
    """Let the kinds take turns, and return the median of each in seconds; the first turn does not count.

    The order of a turn is drawn: the disk is still busy with what the one before has written, which is another one
    each time.
    """
    times: dict[str, list[float]] = {name: [] for name in kinds}
    names, source = list(kinds), random.Random(0)
    for number in range(repeats + 1):
        source.shuffle(names)
        for name in names:
            began = time.perf_counter()
            kinds[name](number)
            times[name].append(time.perf_counter() - began)
    return {name: median(found[1:]) for name, found in times.items()}


def saver(store: Store, content: bytes) -> Callable[[int], object]:
    """Return the saving of a checkpoint, with the writing of its file by the trial."""

    def save(number: int) -> None:
        checkpoint = CheckpointRef(NODE, number + 1)
        staged = store.stage(checkpoint)
        (staged / "model").write_bytes(content)
        store.commit(checkpoint, staged)

    return save


def loader(store: Store) -> Callable[[int], object]:
    def load(number: int) -> None:
        with store.fetch(CheckpointRef(NODE, number + 1)) as folder:
            assert (folder / "model").stat().st_size

    return load


def java_saver(java: JvmClient, folder: str, local: Path, content: bytes) -> Callable[[int], object]:
    def save(number: int) -> None:
        # A file of its own, as each trial writes: to write over one takes a fourth of the time.
        mine = local.with_name(f"{local.name}-{number}")
        mine.write_bytes(content)
        java.upload(mine, f"{folder}/{number}/model")
        java.write(f"{folder}/{number}/manifest", MANIFEST)
        mine.unlink()

    return save


def java_loader(java: JvmClient, folder: str, local: Path) -> Callable[[int], object]:
    return lambda number: java.download(f"{folder}/{number}/model", local)


def bare_append(gateway: str, path: str) -> Callable[[int], object]:
    """Return an append by the two requests that WebHDFS needs."""
    import requests

    session = requests.Session()
    query = f"http://{gateway}/webhdfs/v1{path}?user.name={user()}&op="
    where = session.put(f"{query}CREATE", allow_redirects=False).headers["Location"]
    session.put(where, data=b"").raise_for_status()

    def append(_: int) -> None:
        there = session.post(f"{query}APPEND", allow_redirects=False).headers["Location"]
        session.post(there, data=RECORD).raise_for_status()

    return append


def checkpoint_figures(
    title: str, unit: str, stores: Mapping[str, Store], java: JvmClient, folder: Path, content: bytes, repeats: int
) -> list[Figure]:
    """Return the figures of one size of checkpoints."""
    there, local = f"/bench/{uuid.uuid4().hex}", folder / "java"
    scale = 1000.0 if unit == "ms" else 1.0
    found = []
    savers = {name: saver(store.child(title), content) for name, store in stores.items()}
    loaders = {name: loader(store.child(title)) for name, store in stores.items()}
    with scratch.temporary_folder("kept"):  # as in an agent, which keeps checkpoints: the folder around them stays
        for verb, kinds, of_java in (
            ("save", savers, java_saver(java, there, local, content)),
            ("load", loaders, java_loader(java, there, local)),
        ):
            times = taken({**kinds, "java": of_java}, repeats)
            found += [
                Figure(f"{verb}_{title}_{name}_{unit}", scale * times[name], unit, scale * times["java"])
                for name in stores
            ]
    return found


def record_figures(
    stores: Mapping[str, Store], java: JvmClient, bare: Callable[[int], object], count: int
) -> list[Figure]:
    """Return the figures of appends to a journal; over HTTP there are at most 100."""
    segments = {name: store.open_segment() for name, store in stores.items()}
    out = java.open_new(f"/bench/{uuid.uuid4().hex}")

    def of_java(_: int) -> None:
        out.write(RECORD)
        out.hsync()

    def of(name: str) -> Callable[[int], object]:
        return lambda _: segments[name].append(RECORD)

    times = taken({"local": of("local"), "hdfs": of("hdfs"), "java": of_java}, count)
    times |= taken({"webhdfs": of("webhdfs"), "bare": bare}, min(count, 100))
    out.close()
    for segment in segments.values():
        segment.close()
    baselines = {"local": "java", "hdfs": "java", "webhdfs": "bare"}
    return [
        Figure(f"record_{name}_ms", 1000 * times[name], "ms", 1000 * times[other]) for name, other in baselines.items()
    ]


def digits(store: str) -> None:
    """Run the digits search on local processes."""
    command = [sys.executable, str(DIGITS), "--backend", "processes", "--trials", "8", "--store", store]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def cluster(is_running: bool, folder: Path) -> Iterator[Hdfs]:
    """Yield the HDFS that runs, or one that is started for this."""
    if is_running:
        yield Hdfs(cluster_folder("hdfs"))
        return
    (folder / "hdfs").mkdir()
    made = Hdfs(folder / "hdfs")
    try:
        made.start(2, None, is_ha=False)
        yield made
    finally:
        made.servers.end_all()


def measure(options: argparse.Namespace, hdfs: Hdfs, folder: Path) -> list[Figure]:
    gateway, place = hdfs._web(hdfs.active()).removeprefix("http://"), f"bench/{uuid.uuid4().hex}"
    urls = {
        "local": str(folder / "local"),
        "hdfs": f"{hdfs.url}/{place}/n",
        "webhdfs": f"webhdfs://{gateway}/{place}/w",
    }
    stores = {name: open_store(url) for name, url in urls.items()}
    for store in stores.values():
        store.prepare()
        for size in ("large", "small"):
            store.child(size).prepare()
    with jvm_client(hdfs.conf, hdfs.url) as java:
        large = os.urandom(options.megabytes << 20)
        found = checkpoint_figures("large", "s", stores, java, folder, large, options.repeats)
        found += checkpoint_figures("small", "ms", stores, java, folder, large[:SMALL_BYTES], options.small)
        found += record_figures(stores, java, bare_append(gateway, f"/{place}/bare"), options.records)
    if options.digits:
        kinds: dict[str, Callable[[int], Any]] = {
            name: lambda number, url=url: digits(f"{url}/digits-{number}") for name, url in list(urls.items())[:2]
        }
        times = taken(kinds, 3)
        found.append(Figure("digits_hdfs_s", times["hdfs"], "s", times["local"]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=64, help="size of a large checkpoint (default: 64)")
    parser.add_argument("--small", type=int, default=50, help="small checkpoints (default: 50)")
    parser.add_argument("--records", type=int, default=500, help="journal records (default: 500)")
    parser.add_argument("--repeats", type=int, default=25, help="large checkpoints (default: 25)")
    parser.add_argument("--running", action="store_true", help="use the HDFS that scripts/hdfs.sh has started")
    parser.add_argument("--digits", action="store_true", help="search with the digits, too")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # else the servers would outlive it
    with tempfile.TemporaryDirectory() as name, cluster(options.running, Path(name)) as hdfs:
        found = measure(options, hdfs, Path(name))
    show(f"Stores: checkpoints of {options.megabytes} MB and of 10 kB, records of 300 bytes", found)


if __name__ == "__main__":
    main()
