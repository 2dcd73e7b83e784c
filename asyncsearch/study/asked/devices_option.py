"""``Study(..., devices_per_trial=)``: how many devices each worker sees, and whether there are as many."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

from asyncsearch.errors import NotEnoughSlotsError, UsageError
from asyncsearch.launch.base_launcher import Launcher
from asyncsearch.launch.machine import machine_kinds
from asyncsearch.report.formatting import many
from asyncsearch.sizing.gangs import Gang

_LEAST = 1e-3
"""The least part of a device: a process of CUDA takes some hundred MB besides."""


def devices_for(devices_per_trial: float | None, gang: Gang | None) -> float | None:
    """Return the number of devices that a worker sees, below 1 its share of one; None means those of its machine.

    Raises:
        UsageError: it is no number of devices, or the workers of a trial cannot share them evenly.
    """
    if devices_per_trial is None:
        return None
    _require_number(devices_per_trial)
    if gang is None:
        return devices_per_trial
    if devices_per_trial < 1 and gang.size == 1:
        raise UsageError(
            f"devices_per_trial={devices_per_trial} and autoscale=: the workers that train a trial together have whole "
            "devices each, and two on one device gain nothing: write devices_per_trial=1, or leave out autoscale=."
        )
    if devices_per_trial < gang.size or devices_per_trial % gang.size:
        raise UsageError(
            f"devices_per_trial={devices_per_trial} cannot be shared evenly by the {gang.size} workers of a trial, of "
            f"which each has whole devices of its own: write {gang.size}, or a multiple of it."
        )
    return devices_per_trial / gang.size


def room_on(devices: Sequence[str], per_worker: float) -> int:
    """Return how many workers there are devices for."""
    return int(len(devices) // per_worker) if per_worker >= 1 else len(devices) * sharers(per_worker)


def sharers(fraction: float) -> int:
    """Return how many workers share a device of which each has a fraction, though 1 / (1 / 93) is less than 93."""
    return int(1 / fraction * (1 + 1e-9))


def devices_of(worker: int, devices: Sequence[str], per_worker: float) -> tuple[str, ...]:
    """Return the devices of a worker, by its number: those of an earlier launch of it."""
    place = worker % max(1, room_on(devices, per_worker))
    if per_worker < 1:
        return (devices[place // sharers(per_worker)],)
    count = int(per_worker)
    return tuple(devices[place * count : (place + 1) * count])


def with_devices(
    launcher: Launcher, per_worker: float | None, found: int, asked: int | None
) -> tuple[int, tuple[str, ...] | None]:
    """Return how many of the workers for which there is room have devices, and these; None if they have their own."""
    devices = None if per_worker is None else launcher.devices(per_worker)
    if per_worker is None or devices is None:
        return found, None
    return workers_with_devices(found, asked, devices, per_worker), devices


def require_own_devices(launcher: Launcher, per_worker: float | None) -> None:
    """Refuse a study whose workers get this machine's devices from it, beside other studies that do the same.

    Raises:
        UsageError: it is one.
    """
    if per_worker is not None and launcher.devices(per_worker) is not None:
        raise UsageError(
            "devices_per_trial= and a cluster that studies share: each study would give the devices of this machine to "
            "its workers. Run it by itself, by study.run(), or on executors to which Spark gives devices."
        )


def workers_with_devices(found: int, asked: int | None, devices: Sequence[str], per_worker: float) -> int:
    """Return how many of the workers for which there is room can have devices.

    Args:
        found: number of workers for which there is room.
        asked: the ``parallelism`` of the run; None means as many as there can be.
        devices: those of the machine.
        per_worker: as in ``devices_for``.

    Raises:
        NotEnoughSlotsError: there are too few devices, for one worker or for as many as were asked for.
    """
    room = room_on(devices, per_worker)
    if not room:
        raise NotEnoughSlotsError(
            f"A worker is to see {many_devices(per_worker)}, and this machine shows {len(devices)} (by "
            "CUDA_VISIBLE_DEVICES, else nvidia-smi -L): lower devices_per_trial=, or leave it out."
        )
    if asked is not None and asked > room:
        raise NotEnoughSlotsError(
            f"parallelism={asked} counts workers, each is to see {many_devices(per_worker)}, and this machine shows "
            f"{len(devices)}: run with parallelism={room}, or lower devices_per_trial=."
        )
    return min(found, room)


def require_equal_kinds(devices: Sequence[str] | None, per_worker: float | None, gang: Gang | None, count: int) -> None:
    """Refuse workers that would train a trial together on GPUs of different kinds of this machine.

    Args:
        devices: as ``with_devices`` returns them.
        per_worker: as in ``devices_for``.
        gang: of the study.
        count: number of workers.

    Raises:
        UsageError: ``nvidia-smi -L`` says that they are of different kinds.
    """
    if gang is None or devices is None or per_worker is None:
        return
    kinds = machine_kinds(os.environ)
    if len(kinds) != len(devices):
        return
    seen = [devices_of(worker, kinds, per_worker) for worker in range(count)]
    other = next((worker for worker in range(count) if seen[worker] != seen[0]), None)
    if other is not None:
        raise UsageError(
            f"The workers that train a trial together would have unequal devices: worker-0 {' and '.join(seen[0])}, "
            f"worker-{other} {' and '.join(seen[other])} (nvidia-smi -L). Each step would take as long as on the "
            "slowest: name GPUs of one kind in CUDA_VISIBLE_DEVICES, or leave out workers_per_trial= and autoscale=."
        )


def many_devices(per_worker: float) -> str:
    """Return a number of devices in words."""
    return many(int(per_worker), "device") if per_worker >= 1 else f"{per_worker:g} of a device"


def _require_number(value: object) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_number = is_number and _LEAST <= value < math.inf  # type: ignore[operator]
    if not is_number or (value > 1 and value != int(value)):  # type: ignore[operator, call-overload]
        raise UsageError(
            f"devices_per_trial={value!r} is no number of devices: write an integer from 1, or a fraction such as 0.5, "
            "with which two trials share one."
        )
