"""A Jupyter kernel for tests."""

from __future__ import annotations

import ast
import contextlib
import queue
import time
from pathlib import Path
from typing import Any

DEADLINE_S = 300.0


class Kernel:
    """A kernel, and what it says."""

    def __init__(self, folder: Path) -> None:
        from jupyter_client.manager import start_new_kernel

        self.manager, self.client = start_new_kernel(kernel_name="python3", cwd=str(folder))

    def begin(self, code: str) -> str:
        # Else the kernel answers "aborted" to what comes just after a cell that ended in an error.
        return str(self.client.execute(code, stop_on_error=False))

    def await_output(self, words: str) -> None:
        """Return when the running cell has shown these words."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            content = self.client.get_iopub_msg(timeout=DEADLINE_S)["content"]
            if words in content.get("text", "") or words in content.get("data", {}).get("text/html", ""):
                return
        raise AssertionError(f"{words!r} was never shown")

    def end(self, request: str) -> dict[str, Any]:
        """Return the answer to a request."""
        while True:
            reply = self._reply()
            if reply["parent_header"]["msg_id"] == request:
                content: dict[str, Any] = reply["content"]
                return content

    def _reply(self) -> dict[str, Any]:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                reply: dict[str, Any] = self.client.get_shell_msg(timeout=1.0)
                return reply
            assert self.manager.is_alive(), "the kernel has died; its faults are on stderr"
        raise AssertionError("the kernel did not answer")

    def value(self, expression: str) -> Any:
        """Return the value of an expression in the kernel."""
        request = self.client.execute("", user_expressions={"value": expression})
        answer = self.end(str(request))["user_expressions"]["value"]
        assert answer["status"] == "ok", answer
        text = answer["data"]["text/plain"]
        return ast.literal_eval(text)

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def printed(notebook: Any) -> str:
    """Return what the cells of a notebook have printed."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")
