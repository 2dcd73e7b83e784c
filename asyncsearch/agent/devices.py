"""The devices and number of threads of a runner. Pure: environments are arguments and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asyncsearch.errors import ClusterError
from asyncsearch.files.paths import import_path as in_full
from asyncsearch.runner.process.device_memory import SHARE

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_DEVICES = "CUDA_VISIBLE_DEVICES"


def visible_devices(gpus: Sequence[str], already_visible: str | None) -> str:
    """Return the ``CUDA_VISIBLE_DEVICES`` of a runner.

    Spark names a task's devices as a discovery script printed them. If the executor itself sees only some devices,
    those names may be indices into its visible devices, or physical names; both occur.

    Args:
        gpus: names of the devices given to this worker: indices, UUIDs or MIG names. Empty means none is visible.
        already_visible: ``CUDA_VISIBLE_DEVICES`` of the agent. None if it is not set.

    Raises:
        ClusterError: the two arguments contradict each other.
    """
    if already_visible is None:
        return ",".join(gpus)
    visible = [name.strip() for name in already_visible.split(",") if name.strip()]
    if all(name.isdecimal() and int(name) < len(visible) for name in gpus):
        return ",".join(visible[int(name)] for name in gpus)
    if all(name in visible or not name.isdecimal() for name in gpus):
        return ",".join(gpus)
    raise ClusterError(
        f"This worker was given the devices {', '.join(gpus)} and its process sees {_DEVICES}={already_visible!r}; "
        "they are neither indices into that list nor in it. Let the resource discovery script print what the executors "
        f"see, or unset {_DEVICES} on them."
    )


def devices_of(environment: Mapping[str, str], gpus: Sequence[str] | None) -> str | None:
    """Return the ``CUDA_VISIBLE_DEVICES`` of a runner, None if it is not set, from ``WorkerConfig.gpus``."""
    return environment.get(_DEVICES) if gpus is None else visible_devices(gpus, environment.get(_DEVICES))


def runner_environment(
    environment: Mapping[str, str],
    import_path: Sequence[str],
    cpu_threads: int,
    gpus: Sequence[str] | None,
    gpu_share: float = 1.0,
    hash_seed: str = "",
) -> dict[str, str]:
    """Return the environment of a runner.

    Args:
        environment: the agent's environment, unchanged here, because Spark reuses the worker process for other tasks.
        import_path: the agent's ``sys.path``, so that the runner finds the modules that Spark shipped.
        cpu_threads: threads of numerical libraries, from 1; Spark's own setting would be one.
        gpus: see ``visible_devices``. None for the devices that the agent sees.
        gpu_share: share of each device's memory that the runner may take.
        hash_seed: the driver's ``PYTHONHASHSEED``, so that sets have its order; empty if it has none.
    """
    changes = dict.fromkeys(_THREADS, str(cpu_threads))
    changes["PYTHONPATH"] = in_full(import_path)
    changes["PYTHONUNBUFFERED"] = "1"
    changes["PYTHONFAULTHANDLER"] = "1"
    if gpus is not None:
        changes[_DEVICES] = visible_devices(gpus, environment.get(_DEVICES))
    if hash_seed:
        changes["PYTHONHASHSEED"] = hash_seed
    if gpu_share < 1.0:
        changes[SHARE] = str(gpu_share)
    return {**environment, **changes}
