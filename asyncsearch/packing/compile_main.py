"""``python -m asyncsearch.packing.compile_main FOLDER``: compiles the graph of a step; see ``compile_process``.

When its standard input is closed, since nobody waits for it any more, it removes the folder and ends its compilers and
itself.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # unpickling a graph needs it, and does not import it
import torch._inductor
from torch.fx.experimental.proxy_tensor import make_fx

from asyncsearch.packing.compile_process import COST, GRAPH, LIBRARY

_NICENESS = 5
_OPTIONS = {
    "aot_inductor.package": False,
    "aot_inductor.precompile_headers": False,
    "aot_inductor.compile_wrapper_opt_level": "O0",  # it only calls the kernels
    "cpp_cache_precompile_headers": False,
    "cpp.vec_isa_ok": True,  # what the processor says is enough; trying each instruction set takes seconds
}


def main(folder: Path) -> None:
    """Compile the graph in a folder."""
    os.setpgid(0, 0)
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    torch.set_num_threads(1)
    graph, shapes = pickle.loads((folder / GRAPH).read_bytes())  # noqa: S301
    found = _compiled(graph, [torch.empty(shape, dtype=dtype) for shape, dtype in shapes])
    os.replace(found, folder / LIBRARY)
    times = os.times()
    (folder / COST).write_text(str(sum(times[:4])))


def _compiled(graph: Any, inputs: list[Any]) -> Path:
    # Gradients were taken when the graph was made; what is left must change nothing in place.
    pure = make_fx(torch.func.functionalize(graph, remove="mutations"), tracing_mode="fake")(*inputs)
    return Path(str(torch._inductor.aot_compile(pure, tuple(inputs), options=_OPTIONS)))


def _end_with_parent(folder: Path) -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 1):
            pass
    shutil.rmtree(folder, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
