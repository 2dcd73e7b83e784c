"""``ray`` itself, as far as programs of Tune use it: it starts nothing, and what it would run says what to write."""

from __future__ import annotations

import os
import uuid
from typing import Any, NoReturn

import cloudpickle

from asyncsearch.arguments import above_zero
from asyncsearch.errors import UsageError
from asyncsearch.launch.machine import cores

_state = {"is_initialized": False}


class ObjectRef:
    """The reference that ``put`` returns: it has the object with it, so that it is read on any worker."""

    def __init__(self, data: bytes, number: str) -> None:
        self._data, self._number = data, number

    def read(self) -> Any:
        """Return the object, once made for each process."""
        if self._number not in _known:
            _known[self._number] = cloudpickle.loads(self._data)
        return _known[self._number]

    def __repr__(self) -> str:
        return f"ObjectRef({self._number})"


_known: dict[str, Any] = {}


_cpus: list[float] = []
"""What ``init(num_cpus=)`` has said; empty if it did not."""


def init(address: Any = None, num_cpus: float | None = None, **_options: Any) -> dict[str, Any]:
    """Start nothing: workers are started by the search, on this machine as many as ``num_cpus`` has room for.

    All other arguments, which say how Ray would run, have no effect.
    """
    del address  # there is no cluster of Ray
    _state["is_initialized"] = True
    _cpus[:] = [] if num_cpus is None else [above_zero("num_cpus", num_cpus)]
    return {"node_ip_address": "127.0.0.1", "dashboard_url": ""}


def shutdown(_exiting_interpreter: bool = False) -> None:
    """End nothing."""
    _state["is_initialized"] = False
    _cpus.clear()


def asked_cpus() -> float | None:
    """Return how many cores of this machine ``init`` has named. None if it did not."""
    return _cpus[0] if _cpus else None


def is_initialized() -> bool:
    """Return whether ``init`` was called."""
    return _state["is_initialized"]


def put(value: Any, **_options: Any) -> ObjectRef:
    """Return a reference to an object, which a trial reads by ``get``."""
    reference = ObjectRef(cloudpickle.dumps(value), uuid.uuid4().hex[:12])
    _known[reference._number] = value
    return reference


def get(object_refs: Any, *, timeout: float | None = None) -> Any:
    """Return the object of a reference, or those of a list of them."""
    del timeout  # nothing is waited for
    if isinstance(object_refs, list):
        return [get(one) for one in object_refs]
    if not isinstance(object_refs, ObjectRef):
        raise UsageError(f"ray.get({object_refs!r}): give what ray.put returned; there are no remote functions here.")
    return object_refs.read()


def remote(*_arguments: Any, **_options: Any) -> NoReturn:
    """Refuse a remote function."""
    raise UsageError(
        "ray.remote has no counterpart here: call the function itself in the trial, or run it by Spark or "
        "joblib beside the"
        " search."
    )


def cluster_resources() -> dict[str, float]:
    """Return the cores of this machine, and the GPUs that it shows."""
    return {
        "CPU": float(cores()) if asked_cpus() is None else float(_cpus[0]),
        "GPU": float(len(get_gpu_ids())),
        "node:127.0.0.1": 1.0,
    }


available_resources = cluster_resources


def nodes() -> list[dict[str, Any]]:
    """Return this machine."""
    return [{"Alive": True, "NodeManagerAddress": "127.0.0.1", "Resources": cluster_resources()}]


def get_gpu_ids() -> list[Any]:
    """Return the GPUs that this process sees, as the variable of the environment names them."""
    named = [one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one and one != "-1"]
    return [int(one) if one.isdecimal() else one for one in named]


def setup_ray_cluster(*_arguments: Any, **_options: Any) -> tuple[str, None]:
    """Start no cluster on Spark: the search itself runs on its executors."""
    return "asyncsearch", None


def shutdown_ray_cluster() -> None:
    """End nothing."""
