"""The workers that a run has: those of its own launcher, or its part of a cluster that several studies share."""

from __future__ import annotations

from contextlib import nullcontext

import msgspec

from asyncsearch.arguments import enough
from asyncsearch.driver.shared_workers import WorkerShare
from asyncsearch.driver.threads import require_threads
from asyncsearch.errors import UsageError
from asyncsearch.launch.base_launcher import Launcher, Preflight
from asyncsearch.launch.machine import require_descriptors
from asyncsearch.report.formatting import many
from asyncsearch.report.live.display import announced
from asyncsearch.rpc.forks import require_no_fork_with_grpc
from asyncsearch.shared.pack_times import TimesInProcess
from asyncsearch.study.asked.devices_option import (
    many_devices,
    require_equal_kinds,
    require_own_devices,
    with_devices,
)
from asyncsearch.study.asked.gang_option import useful_workers, workers_for
from asyncsearch.study.kept.definition import StudyDefinition


class SharedPlace(msgspec.Struct, frozen=True):
    """A study's place on a cluster that it shares with other studies."""

    share: WorkerShare
    found: Preflight
    """The workers of the cluster, for all studies."""
    backend: str | Launcher
    """Of the cluster, or the launcher that the study brought along."""
    times: TimesInProcess
    """How fast packs of its studies train."""

    def check(self, launcher: Launcher) -> Preflight:
        """Return the findings of a launcher of this study."""
        mine = msgspec.structs.replace(self.found, parallelism=self.share.most)
        return msgspec.structs.replace(launcher.check_again(mine), cpu_threads=self.found.cpu_threads)


class FoundWorkers(msgspec.Struct, frozen=True):
    """Workers that are there to be launched."""

    preflight: Preflight
    definition: StudyDefinition
    """Of the study that they train for."""
    devices: tuple[str, ...] | None = None
    """The devices of this machine that they divide among themselves; None if they see those of their machine."""
    is_share: bool = False
    """Whether other studies have workers of the same cluster."""

    def describe(self) -> str:
        """Return how many they are, where, and of how many a trial or a worker has some, for people."""
        found, gang, devices = self.preflight, self.definition.gang, self.definition.devices
        words = "a share of " if self.is_share else ""
        words += many(found.parallelism, "worker") + (f" ({found.place})" if found.place else "")
        words += "" if gang is None else f", {gang.size} to a trial"
        return words + ("" if devices is None else f", {many_devices(devices)} to a worker")


def find_workers(
    launcher: Launcher,
    definition: StudyDefinition,
    num_trials: int | None,
    parallelism: int | None,
    place: SharedPlace | None,
    *,
    is_shown: bool,
) -> FoundWorkers:
    """Look for the workers of a study, and warm up those that it has for itself.

    Args:
        launcher: launches them.
        definition: of the study.
        num_trials: how many trials it will have; None if it is not known.
        parallelism: how many workers were asked for; None means all that there are.
        place: the study's place on a cluster that it shares, where ``parallelism`` does not count.
        is_shown: whether to say that there is something to wait for.

    Raises:
        ResourceError: there are too few.
        UsageError: their devices do not suit the study.
    """
    require_threads()
    if launcher.transport is None:
        require_no_fork_with_grpc()
    elif definition.worker.get("trial_bytes") is not None:
        raise UsageError(
            f"trial_memory= ends the process of a trial that holds more, and backend={launcher.name!r} trains in this "
            "one: write backend='processes', or leave it out."
        )
    if place is not None:
        found = FoundWorkers(place.check(launcher), definition, is_share=True)
        require_own_devices(launcher, definition.devices)
    else:
        with announced(launcher.preparation()) if is_shown else nullcontext():
            preflight = launcher.check(enough(parallelism, useful_workers(definition.gang, num_trials)))
        room, devices = with_devices(launcher, definition.devices, preflight.parallelism, parallelism)
        if room < preflight.parallelism:  # each of fewer workers has more cores
            preflight = launcher.check(room)
        preflight = msgspec.structs.replace(preflight, parallelism=workers_for(definition.gang, room))
        require_equal_kinds(devices, definition.devices, definition.gang, preflight.parallelism)
        found = FoundWorkers(preflight, definition, devices)
    require_descriptors(found.preflight.parallelism, are_processes_here=launcher.name == "processes")
    # Where the driver is a task, one that waits for a launch of this process would hold the slot of another.
    if place is None and not found.preflight.is_remote:
        launcher.warm_up(found.preflight.parallelism)
    return found
