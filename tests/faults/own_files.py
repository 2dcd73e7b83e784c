"""A search whose trials leave strange files where they save; run as a user to whom rights of files mean something.

    python -m tests.faults.own_files ORDER.json

The first trials behave, one misbehaves, and the others behave: it alone fails, in words, or nothing does.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asyncsearch import FIFO, Checkpoints, GridSearch, Study, choice
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.trainable import TrialContext
from tests.faults.rights import obey_rights_of_files

STRANGE = 2
"""The trial that misbehaves."""
TRIALS = 4


def deep(folder: Path, levels: int = 1100) -> None:
    """Make folders in each other, by descriptors: their path is longer than the system takes."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        with contextlib.suppress(FileExistsError):
            os.mkdir("deep", dir_fd=at)
        below = os.open("deep", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)


def closed_file(folder: Path) -> None:
    (folder / "closed").write_text("x")
    (folder / "closed").chmod(0)


def closed_folder(folder: Path) -> None:
    (folder / "inner").mkdir(exist_ok=True)
    (folder / "inner").chmod(0)


def locked_folder(folder: Path) -> None:
    """Make a folder whose contents its owner may read and not remove."""
    (folder / "inner").mkdir(exist_ok=True)
    (folder / "inner" / "file").write_text("x")
    (folder / "inner").chmod(0o500)


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def named_socket(folder: Path) -> None:
    here = os.getcwd()
    os.chdir(folder)  # the path of a socket is short
    try:
        socket.socket(socket.AF_UNIX).bind("socket")
    finally:
        os.chdir(here)


def link(folder: Path) -> None:
    (folder / "link").symlink_to("/etc/passwd")


def link_to_folder(folder: Path) -> None:
    (folder / "link").symlink_to("/etc")


def loop(folder: Path) -> None:
    (folder / "loop").symlink_to(".")


def holes(folder: Path) -> None:
    with open(folder / "holes", "wb") as file:
        file.truncate(8 << 40)


def long_path(folder: Path) -> None:
    for _ in range(8):
        folder = folder / ("n" * 200)
        folder.mkdir(exist_ok=True)
    (folder / "file").write_text("x")


def odd_name(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe")).write_bytes(b"x")


def folder_replaced_by_a_link(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to("/etc")


def folder_replaced_by_a_file(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.write_text("x")


def folder_closed(folder: Path) -> None:
    folder.chmod(0)


def folder_removed(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))


def connection_lost(folder: Path) -> None:
    """Fail as a connection does: the error names no file."""
    raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))


def folder_named_as_a_probe(folder: Path) -> None:
    (folder / ".asyncsearch-probe").mkdir(exist_ok=True)
    (folder.parent / ".asyncsearch-probe").mkdir(exist_ok=True)
    raise ValueError("it is the trial's own fault, and nobody else's")


DOINGS: dict[str, Callable[[Path], None]] = {
    one.__name__: one
    for one in (
        deep,
        closed_file,
        closed_folder,
        locked_folder,
        pipe,
        named_socket,
        link,
        link_to_folder,
        loop,
        holes,
        long_path,
        odd_name,
        folder_replaced_by_a_link,
        folder_replaced_by_a_file,
        folder_closed,
        folder_removed,
        connection_lost,
        folder_named_as_a_probe,
    )
}


def train(trial: TrialContext, order: dict[str, Any]) -> None:
    is_strange = trial.params["x"] == STRANGE
    do = DOINGS[order["doing"]]

    def save(path: Path) -> None:
        path.mkdir()
        (path / "weights").write_text(str(trial.params["x"]))
        if is_strange and order["where"] == "save":
            do(path)
        if is_strange and order["where"] == "around":
            do(path.parent)

    def load(path: Path) -> None:
        assert (path / "weights").read_text() == str(trial.params["x"])

    for epoch in trial.epochs(save=save, load=load):
        if order["where"] == "dir":
            (trial.dir / "notes").write_text(str(epoch))
            if is_strange and epoch == 2:
                do(trial.dir)
        trial.report(loss=trial.params["x"] / epoch)


def study(order: dict[str, Any]) -> Study:
    return Study(
        lambda trial: train(trial, order),
        space={"x": choice(*range(TRIALS))},
        searcher=GridSearch(),
        metric="loss",
        mode="min",
        scheduler=FIFO(max_resource=4),
        backend=order["backend"],
        store=FsspecStore(f"file://{order['store']}") if order["is_far"] else order["store"],
        save_every=2,
        checkpoints=Checkpoints(store_timeout=3, keep_checkpoints=TRIALS),
        resume=True,
    )


def main(order: dict[str, Any]) -> None:
    obey_rights_of_files()
    for _ in range(2):  # and once more: nothing that the first run left behind may end the next
        study(order).run(display="none")
    found = Study.open(order["store"])
    said = [[trial.params["x"], trial.state.value, trial.reason] for trial in found.trials]
    sys.stdout.write(f"{json.dumps(said)}\n")


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
