"""The device of a runner, in words: times of packs that were measured on one device say nothing of another."""

from __future__ import annotations

import platform
from pathlib import Path

from asyncsearch.runner.process.cgroup_memory import text_of

_GPUS = Path("/proc/driver/nvidia/gpus")
_PROCESSOR = Path("/proc/cpuinfo")


def device_name(visible: str | None) -> str:
    """Return the kinds of the accelerators of this machine, or the kind of its processor.

    Args:
        visible: ``CUDA_VISIBLE_DEVICES`` of the runner. None if it is not set, so that it sees all.
    """
    models = sorted({_field(text_of(file), "Model") for file in _GPUS.glob("*/information")}) if visible != "" else []
    if models:
        return ", ".join(models)
    if visible:
        return f"accelerator {visible}"
    model = _field(text_of(_PROCESSOR), "model name")
    return f"{platform.machine()} processor" + (f", {model}" if model else "")


def _field(text: str, name: str) -> str:
    """Return the first value of a name in lines such as ``Model:  NVIDIA H200``. Empty if there is none."""
    values = (line.partition(":")[2].strip() for line in text.splitlines() if line.partition(":")[0].strip() == name)
    return next(values, "")
