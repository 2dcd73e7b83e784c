"""A process that compiles the graph of a step, while the steps go on: what it does wrong harms no training."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

GRAPH, LIBRARY, WORDS, COST = "graph", "step.so", "words", "cost"
"""Files of its folder: what it is given, what it makes, what it writes, and the CPU time that it took, in seconds."""


class CompileProcess:
    """One compilation in another process."""

    def __init__(self, graph: Any, shapes: list[tuple[Any, Any]], scratch: Path | None = None) -> None:
        """Begin.

        Args:
            graph: see ``step_graph``.
            shapes: shape and dtype of each input.
            scratch: where its folder is made; None: where temporary folders are.
        """
        self.folder = Path(tempfile.mkdtemp(prefix="asyncsearch-compile-", dir=scratch))
        try:
            (self.folder / GRAPH).write_bytes(pickle.dumps((graph, shapes)))
            with (self.folder / WORDS).open("wb") as words:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "asyncsearch.packing.compile_main", str(self.folder)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=words,
                    env=_environment(self.folder),
                )
        except BaseException:
            self.remove()
            raise

    def is_over(self) -> bool:
        """Return whether the process has ended."""
        return self._process.poll() is not None

    def wait(self) -> None:
        """Wait for its end."""
        self._process.wait()

    def library(self) -> Path | None:
        """Return what it has made; None: it failed."""
        path = self.folder / LIBRARY
        return path if self._process.poll() == 0 and path.exists() else None

    def cost_s(self) -> float:
        """Return the CPU time that it has taken, its compilers included."""
        return float((self.folder / COST).read_text())

    def words(self) -> str:
        """Return the last line that it has written, which says why it failed."""
        lines = (self.folder / WORDS).read_text(errors="replace").strip().splitlines() if self.folder.exists() else []
        return lines[-1][:300] if lines else f"the process ended with status {self._process.poll()}"

    def close(self) -> None:
        """End the process and its compilers at once, and remove its folder."""
        pid = self._process.pid
        if not self.is_over():
            with contextlib.suppress(ProcessLookupError):
                # It leads a group of its own before it starts a compiler.
                os.killpg(pid, signal.SIGKILL) if os.getpgid(pid) == pid else self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        self.remove()

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _environment(folder: Path) -> dict[str, str]:
    """Return an environment in which all that a compiler writes is in the folder, and it starts no other workers."""
    (folder / "tmp").mkdir()
    own = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"), "TMPDIR": str(folder / "tmp")}
    return {**os.environ, **own, "TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
