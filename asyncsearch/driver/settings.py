"""The settings of the driver."""

from __future__ import annotations

import msgspec


class DriverSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the driver; those of the engine are in ``EngineConfig``. Times are in seconds."""

    lease_timeout_s: float = 30.0
    """Silence after which a worker loses its leases."""
    trial_timeout_s: float | None = None
    """Time after which an attempt fails; None: none."""
    snapshot_every: int = 50_000
    """Records between two snapshots."""
    stop_timeout_s: float = 60.0
    """Time that a worker has to end what it was told to stop, though it gives signs of life; then it counts as lost."""
    store_timeout_s: float = 600.0
    """Time for which the run waits for a store that it cannot use."""
    store_silent_s: float = 10.0
    """Time after which a write to the journal that has no answer counts as waiting for the store."""
