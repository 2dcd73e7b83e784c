"""A runner takes its share of a device's memory, whoever imports the framework, and begins no device for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WATCH = """
import sys
from asyncsearch.runner.process.device_memory import limit_memory, when_imported
"""


def printed(code: str, folder: Path | None = None) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", WATCH + code], capture_output=True, text=True, check=True, cwd=folder, timeout=300
    )
    return done.stdout.split()


def test_a_function_is_called_once_with_a_module_that_is_imported_later() -> None:
    code = """
when_imported({"colorsys": lambda module: print(module.__name__, hasattr(module, "rgb_to_hsv"))})
import colorsys, colorsys
"""
    assert printed(code) == ["colorsys", "True"]


def test_who_only_asks_whether_a_module_is_there_ends_no_watch() -> None:
    code = """
import importlib.util
when_imported({"colorsys": lambda module: print(module.__name__)})
print(all(importlib.util.find_spec("colorsys") for _ in range(2)))
import colorsys
importlib.reload(colorsys)
"""
    assert printed(code) == ["True", "colorsys"]


def test_a_function_is_called_at_once_with_a_module_that_is_here() -> None:
    assert printed("""when_imported({"sys": lambda module: print(module is sys)})""") == ["True"]


def test_a_module_that_is_not_there_is_still_not_there() -> None:
    code = """
when_imported({"no_such_module": print})
try:
    import no_such_module
except ModuleNotFoundError as error:
    print(error.name)
"""
    assert printed(code) == ["no_such_module"]


def test_whole_devices_have_no_limit() -> None:
    assert printed("before = len(sys.meta_path); limit_memory({}); print(len(sys.meta_path) - before)") == ["0"]


def test_torch_is_told_the_share_when_it_begins_to_use_a_device() -> None:
    pytest.importorskip("torch")
    code = """
limit_memory({"ASYNCSEARCH_GPU_SHARE": "0.25"})
import torch
print(torch.cuda.is_initialized())
torch.cuda.device_count = lambda: 2
torch.cuda.set_per_process_memory_fraction = lambda *given: print(*given)
for call, _ in torch.cuda._queued_calls:
    if "device_memory" in call.__code__.co_filename:
        call()
"""
    assert printed(code) == ["False", "0.25", "0", "0.25", "1"]


@pytest.mark.slow
def test_tensorflow_has_its_share_of_the_memory_that_the_machine_names(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\n[ $1 = --id=GPU-a ] && echo 40000\n[ $1 = --id=MIG-b ] && echo '[N/A]'\n")
    tool.chmod(0o755)
    code = f"""
import os
os.environ |= {{"PATH": {str(tmp_path)!r} + os.pathsep + os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "GPU-a,MIG-b"}}
limit_memory({{"ASYNCSEARCH_GPU_SHARE": "0.25"}})
import tensorflow
from asyncsearch.runner.process.device_memory import limit_tensorflow
config = tensorflow.config
config.list_physical_devices = lambda kind: ["first", "second"]
config.set_logical_device_configuration = lambda gpu, limits: print(gpu, *[one.memory_limit for one in limits])
config.experimental.set_memory_growth = lambda gpu, grows: print(gpu, grows)
limit_tensorflow(tensorflow, 0.25)
"""
    assert printed(code) == ["first", "10000", "second", "True"]
