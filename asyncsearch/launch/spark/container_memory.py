"""The memory of an executor's container beside its Java process, in which workers and trials live."""

from __future__ import annotations

from collections.abc import Callable

PROCESSES_MB = 75
"""Memory of one worker's processes before the user's code: agent, template and runner."""
_LIMITING = ("yarn", "k8s:")
"""Clusters that kill a container which takes more memory than it has asked for."""
_UNITS_MB = {"k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0**2}


def memory_warning(conf: Callable[[str, str], str], master: str, cpus_per_task: int) -> str:
    """Return a warning if the workers of an executor do not fit beside its Java process; else an empty text.

    Args:
        conf: returns a setting of the application, given its default.
    """
    workers = _workers_of_executor(conf, cpus_per_task)
    needed, given = workers * PROCESSES_MB, _given_mb(conf, master)
    if given is None or needed <= given:
        return ""
    return (
        f"An executor runs {workers} workers, whose processes take {needed} MB before the first trial, and has "
        f"{given:.0f} MB for them beside Java: the cluster kills it when it takes more. Set "
        f"spark.executor.memoryOverhead={needed}m plus what the trials of {workers} workers take, or fewer "
        "spark.executor.cores."
    )


def given_bytes(conf: Callable[[str, str], str], master: str, cpus_per_task: int) -> int | None:
    """Return the memory of each worker of an executor beside its Java process; None if no container limits it."""
    given = _given_mb(conf, master)
    return None if given is None else int(given * 2**20 / _workers_of_executor(conf, cpus_per_task))


def _workers_of_executor(conf: Callable[[str, str], str], cpus_per_task: int) -> int:
    cores = conf("spark.executor.cores", "1").strip()
    return max(1, (int(cores) if cores.isdecimal() else 1) // cpus_per_task)


def _given_mb(conf: Callable[[str, str], str], master: str) -> float | None:
    """Return the memory of a container beside Java's heap; None if nothing limits it, or a setting cannot be read."""
    if not master.startswith(_LIMITING):
        return None
    try:
        limit_mb = _megabytes(conf("spark.executor.pyspark.memory", "0"))
        if named := conf("spark.executor.memoryOverhead", ""):
            return _megabytes(named) + limit_mb
        factor = float(conf("spark.executor.memoryOverheadFactor", "0.1"))
        least_mb = _megabytes(conf("spark.executor.minMemoryOverhead", "384m"))
        return max(least_mb, factor * _megabytes(conf("spark.executor.memory", "1g"))) + limit_mb
    except ValueError:
        return None


def _megabytes(text: str) -> float:
    """Read a size of Spark, which counts in MiB where there is no unit."""
    text = text.strip().lower().removesuffix("b")
    unit = text[-1:] if text[-1:] in _UNITS_MB else ""
    return float(text.removesuffix(unit)) * _UNITS_MB[unit or "m"]
