"""Who computes: the slots of the cluster, what fills them, and which are free. Pure."""

from __future__ import annotations

import enum
import heapq

import msgspec

from asyncsearch.ids import WorkerId


class SlotState(enum.Enum):
    """Where a worker slot stands."""

    LAUNCHING = "LAUNCHING"
    """A launch was asked for; its worker has not attached yet."""
    IDLE = "IDLE"
    BUSY = "BUSY"
    GONE = "GONE"
    """Nothing runs in it: lost, dismissed, or never launched by this driver."""


class Slot(msgspec.Struct):
    """One worker slot."""

    worker: WorkerId
    epoch: int = 0
    """How many times it was launched."""
    state: SlotState = SlotState.GONE
    lease: int | None = None
    """Number of the lease that trains in it."""
    fruitless: int = 0
    """How many times in a row it was lost without having finished any training."""
    host: str = ""


class Pool:
    """All slots, with the idle ones in order of their number, so that equal facts give equal choices."""

    def __init__(self) -> None:
        self.slots: dict[WorkerId, Slot] = {}
        self._idle: list[WorkerId] = []

    def slot(self, worker: WorkerId) -> Slot:
        """Return a slot, making it if it was never heard of."""
        slot = self.slots.get(worker)
        if slot is None:
            slot = self.slots[worker] = Slot(worker)
        return slot

    def is_current(self, worker: WorkerId, epoch: int) -> bool:
        """Whether this launch of the worker is the present one and not gone."""
        slot = self.slots.get(worker)
        return slot is not None and slot.epoch == epoch and slot.state is not SlotState.GONE

    def launch(self, worker: WorkerId, epoch: int) -> None:
        """A launch was asked for."""
        slot = self.slot(worker)
        slot.epoch, slot.state, slot.lease = epoch, SlotState.LAUNCHING, None

    def free(self, worker: WorkerId) -> None:
        """The worker has nothing to train."""
        slot = self.slots[worker]
        if slot.state is not SlotState.IDLE:
            slot.state, slot.lease = SlotState.IDLE, None
            heapq.heappush(self._idle, worker)

    def occupy(self, worker: WorkerId, lease: int) -> None:
        """The worker got a lease."""
        slot = self.slots[worker]
        slot.state, slot.lease = SlotState.BUSY, lease

    def lose(self, worker: WorkerId) -> None:
        """Nothing runs in the slot any more."""
        slot = self.slot(worker)
        slot.state, slot.lease = SlotState.GONE, None

    def clear(self) -> None:
        """A new driver has no workers; the epochs stay, so that no lease is ever given twice."""
        for slot in self.slots.values():
            slot.state, slot.lease, slot.fruitless = SlotState.GONE, None, 0
        self._idle.clear()

    def first_idle(self) -> WorkerId | None:
        """Return the idle worker with the lowest number, or None."""
        while self._idle and self.slots[self._idle[0]].state is not SlotState.IDLE:
            heapq.heappop(self._idle)
        return self._idle[0] if self._idle else None

    def alive(self) -> list[Slot]:
        """Return the slots that are not gone, by number."""
        return [slot for _, slot in sorted(self.slots.items()) if slot.state is not SlotState.GONE]

    def restore(self, slots: list[Slot]) -> None:
        """Become what a snapshot described."""
        self.slots = {slot.worker: slot for slot in slots}
        self._idle = [slot.worker for slot in slots if slot.state is SlotState.IDLE]
        heapq.heapify(self._idle)
