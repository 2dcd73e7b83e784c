"""TensorBoard itself, as its own process with its real server, asked as its page asks it."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Without tensorflow, as in an environment with the extra alone. TensorBoard 2.20 looks for further plugins by
# pkg_resources, which setuptools has no longer. All is loaded before the server answers.
_MAIN = """
import importlib.util, sys, types
sys.modules["tensorflow"] = None
if importlib.util.find_spec("pkg_resources") is None:
    sys.modules["pkg_resources"] = types.SimpleNamespace(iter_entry_points=lambda group: [])
from tensorboard.main import run_main
run_main()
"""
_OPTIONS = ("--port=0", "--host=127.0.0.1", "--load_fast=false", "--reload_interval=0", "--reload_task=blocking")


class Board:
    """A server that shows a folder."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **query: str) -> Any:
        address = f"{self.url}data/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(address) as answer:
            return json.load(answer)

    def ask(self, path: str, **body: Any) -> Any:
        request = urllib.request.Request(
            f"{self.url}data/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def points(self, run: str, tag: str) -> list[tuple[int, float]]:
        """Return (step, value) of the points of a run."""
        return [(step, value) for _, step, value in self.get("plugin/scalars/scalars", run=run, tag=tag)]

    def groups(self) -> dict[str, Any]:
        """Return the session groups of the hparams page by their names."""
        states = ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"]
        found = self.ask("plugin/hparams/session_groups", startIndex=0, sliceSize=1_000, allowedStatuses=states)
        return {group["name"]: group for group in found["sessionGroups"]}


@contextlib.contextmanager
def shown(logdir: Path) -> Iterator[Board]:
    """Show a folder."""
    command = [sys.executable, "-c", _MAIN, f"--logdir={logdir}", *_OPTIONS]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stderr is not None
            found = (re.search(r"at (http://\S+)", line) for line in process.stderr)
            yield Board(next(match[1] for match in found if match))
        finally:
            process.kill()
