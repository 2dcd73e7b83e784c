"""Two drivers share their training on a real HDFS; one of them is killed with -9, and the other takes over.

Starts a NameNode and a DataNode on this machine (``scripts/_hdfs.py``) and trains the six schedules of
``tests/system/several.py``, which record each trained unit, in three scenes, each with its own folders.

    python scripts/share_on_hdfs.py      needs hdfs-native, pyspark and Java 17; about three minutes
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _hdfs import hdfs

from asyncsearch import Sharing, Study
from asyncsearch.errors import AsyncSearchError
from asyncsearch.events import WorkRefused
from asyncsearch.journal.opening import read_records
from asyncsearch.shared.cleaning import clean
from asyncsearch.store import open_store

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.system.several import DISTINCT, make, results, run, units
from tests.system.trained import Gate

NAMES = ("first", "second")
PATIENCE_S = 120.0


def driver(folder: Path, url: str, name: str, stop_at: int = 0) -> subprocess.Popen[str]:
    """Start a driver in a separate process, which waits in the middle of a unit if ``stop_at`` is given."""
    command = [sys.executable, __file__, str(folder), url, name, str(stop_at)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended(process: subprocess.Popen[str]) -> None:
    output, _ = process.communicate(timeout=PATIENCE_S)
    if process.returncode != 0:
        raise RuntimeError(f"A driver failed:\n{output}")


def await_refusal(url: str) -> None:
    """Wait until a study has found that another one is training its nodes."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(AsyncSearchError):  # its driver is still starting
            if any(isinstance(record.event, WorkRefused) for record in read_records(open_store(url))):
                return
        time.sleep(0.5)
    raise RuntimeError("The second driver never waited for the first one.")


def one_after_another(folder: Path, url: str) -> str:
    for name in NAMES:
        ended(driver(folder, url, name))
    return ""


def side_by_side(folder: Path, url: str) -> str:
    gate = Gate(folder).make()
    first = driver(folder, url, "first", stop_at=3)
    gate.pids()
    second = driver(folder, url, "second")
    await_refusal(f"{url}/second")
    gate.open()
    ended(first)
    ended(second)
    return ""


def killed(folder: Path, url: str) -> str:
    gate = Gate(folder).make()
    first = driver(folder, url, "first", stop_at=6)
    gate.pids()
    second = driver(folder, url, "second")
    await_refusal(f"{url}/second")
    first.kill()
    first.communicate()
    began = time.monotonic()
    ended(second)
    seconds = time.monotonic() - began
    ended(driver(folder, url, "first"))
    return f", the second ended {seconds:.0f} s after the first was killed"


def main() -> None:
    """Run each scene; print the number of trainings, and whether the results are those of a single study."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone = results(run(make(folder, "alone", version="", sharing=Sharing())))
        (folder / "hdfs").mkdir()
        with hdfs(folder / "hdfs") as url:
            print(f"HDFS has started: {url}")
            for scene in (one_after_another, side_by_side, killed):
                place = folder / scene.__name__
                place.mkdir()
                note = scene(place, f"{url}/{scene.__name__}")
                found = [results(Study.open(f"{url}/{scene.__name__}/{study}")) == alone for study in NAMES]
                trained = units(place)
                repeated = sorted(len(json.loads(unit)) for unit, count in trained.items() if count > 1)
                left = clean(open_store(f"{url}/{scene.__name__}/plan"))
                print(
                    f"{scene.__name__}: results as alone: {found}; {len(trained)} of {DISTINCT} units trained, again "
                    f"{repeated or 'none'}{note}; cleaned, {left.kept} checkpoints stay"
                )


def one_study(folder: str, url: str, name: str, stop_at: str) -> None:
    """Be a driver."""
    os.environ["STOP_AT"] = stop_at
    run(make(Path(folder), name, store=f"{url}/{name}", resume=True), parallelism=1)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        one_study(*sys.argv[1:])
    else:
        main()
