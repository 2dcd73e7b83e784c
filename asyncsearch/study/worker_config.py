"""Which options of ``Study`` reach a worker, and how.

With a worker's launch, as fields of ``WorkerConfig``, which travels in the launcher's closure:

======================================  ============================================
option                                  field
======================================  ============================================
``trainable``                           ``bundle``
``metric``, ``name``                    ``metric``, ``study``
``store``, ``sharing.shared``           ``store``, ``dirs``
``sharing.trusted``                     ``untrusted``
``devices_per_trial``                   ``gpus``, ``gpu_share``
``workers``, ``checkpoints.dir_bytes``  those of ``for_agents`` in ``asked.options``
======================================  ============================================

With each piece of work, as fields of the stages of its lanes (``engine.lanes.lane_for``): parameters, seed,
``save_every``. All other options are the driver's own: it decides by them, and says what to train.
"""

from __future__ import annotations

import os

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.ids import WorkerId
from asyncsearch.rpc.messages import Endpoint
from asyncsearch.store.base_store import Store
from asyncsearch.study import trial_dirs
from asyncsearch.study.asked.devices_option import devices_of
from asyncsearch.study.found_workers import FoundWorkers


def worker_config(
    found: FoundWorkers, bundle: bytes, store: Store, worker: WorkerId, epoch: int, endpoint: Endpoint | None
) -> WorkerConfig:
    """Return the configuration of one launch of a worker.

    Args:
        found: all workers, and the study that they train for.
        bundle: the pickled trainable.
        store: of the study.
        worker: which one.
        epoch: number of the launch.
        endpoint: where the driver's server listens; None if the worker is in this process.
    """
    what, devices = found.definition, found.definition.devices or 1.0
    return WorkerConfig(
        study=what.config.study,
        metric=what.config.metric,
        bundle=bundle,
        store=what.shared or store,
        dirs=trial_dirs.place_in(store),
        untrusted="" if what.shared is None or what.is_trusted else what.shared.shown,
        is_shared=what.shared is not None,
        endpoint=endpoint,
        worker=worker,
        epoch=epoch,
        cpu_threads=found.preflight.cpu_threads,
        given_bytes=found.preflight.given_bytes,
        gpus=None if found.devices is None else devices_of(worker, found.devices, devices),
        gpu_share=min(1.0, devices),
        hash_seed=os.environ.get("PYTHONHASHSEED", ""),
        **what.worker,
    )
