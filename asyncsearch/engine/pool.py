"""The slots of the cluster, the workers in them, and the free ones among these. Pure."""

from __future__ import annotations

import enum
import heapq
from collections.abc import Sequence

import msgspec

from asyncsearch.ids import CheckpointRef, WorkerId
from asyncsearch.work import KEPT_CHECKPOINTS


class SlotState(enum.Enum):
    """The state of a worker slot."""

    LAUNCHING = "LAUNCHING"
    """A launch was requested; its worker has not attached yet."""
    IDLE = "IDLE"
    BUSY = "BUSY"
    GONE = "GONE"
    """Nothing runs in it: its worker was lost, dismissed, or never launched by this driver."""


class Slot(msgspec.Struct):
    """One worker slot."""

    worker: WorkerId
    epoch: int = 0
    """How many times it was launched."""
    state: SlotState = SlotState.GONE
    lease: int | None = None
    """Number of the lease that trains in it."""
    fruitless: int = 0
    """How many times in a row its worker was lost without having finished any training or stored a checkpoint."""
    host: str = ""
    lanes: int = 0
    """How many lanes of that lease have not ended."""
    given: int = 0
    """How many lanes that lease got in all."""
    held: list[CheckpointRef] = []
    """The checkpoints that it committed or loaded last in this epoch, the newest last: they need no fetch."""
    followers: list[WorkerId] = []
    """The workers that train its lease together with it."""
    leader: WorkerId | None = None
    """The worker to whose gang it belongs. None if it trains a lease of its own, or nothing."""
    is_released: bool = False
    """Whether its worker had no use and was dismissed until it has one: the slot is another's meanwhile."""


class Pool:
    """All slots, the idle ones ordered by number, so that equal facts give equal choices."""

    def __init__(self) -> None:
        self.slots: dict[WorkerId, Slot] = {}
        self._idle: list[WorkerId] = []
        self._queued: set[WorkerId] = set()
        """The entries of ``_idle``, some of which are busy by now."""
        self._holders: dict[CheckpointRef, set[WorkerId]] = {}
        self.released: set[WorkerId] = set()
        """The slots that were given back and may be taken again."""

    def slot(self, worker: WorkerId) -> Slot:
        """Return a slot; create it if it is missing."""
        if (slot := self.slots.get(worker)) is None:
            slot = self.slots[worker] = Slot(worker)
        return slot

    def epoch(self, worker: WorkerId) -> int:
        """Return how many times a slot was launched."""
        slot = self.slots.get(worker)
        return 0 if slot is None else slot.epoch

    def is_current(self, worker: WorkerId, epoch: int) -> bool:
        """Return whether this launch of the worker is the current one and not gone."""
        slot = self.slots.get(worker)
        return slot is not None and slot.epoch == epoch and slot.state is not SlotState.GONE

    def launch(self, worker: WorkerId, epoch: int) -> None:
        """Note that a launch was requested."""
        slot = self.slot(worker)
        self._empty(slot)
        slot.epoch, slot.state, slot.lease, slot.lanes = epoch, SlotState.LAUNCHING, None, 0
        slot.is_released = False
        self.released.discard(worker)

    def free(self, worker: WorkerId) -> None:
        """Note that the worker has nothing to train."""
        slot = self.slots[worker]
        if slot.followers:
            self._dissolve(slot)
        if slot.state is not SlotState.IDLE:
            slot.state, slot.lease, slot.lanes = SlotState.IDLE, None, 0
            if worker not in self._queued:
                self._queued.add(worker)
                heapq.heappush(self._idle, worker)

    def occupy(self, worker: WorkerId, lease: int, lanes: int = 1, followers: Sequence[WorkerId] = ()) -> None:
        """Note that the worker got a lease for so many lanes, and who trains it together with it."""
        slot = self.slots[worker]
        slot.state, slot.lease, slot.lanes, slot.given = SlotState.BUSY, lease, lanes, lanes
        for follower in followers:
            self.occupy(follower, lease, lanes)
            self.slots[follower].leader = worker
            slot.followers.append(follower)

    def workers_of(self, leader: WorkerId) -> list[WorkerId]:
        """Return a worker and those that train its lease together with it."""
        return [leader, *self.slots[leader].followers]

    def note_work(self, worker: WorkerId) -> None:
        """Note that the worker, and those that train together with it, are of use."""
        for one in self.workers_of(worker):
            self.slots[one].fruitless = 0

    def _dissolve(self, leader: Slot) -> None:
        """Free the workers that trained together with one."""
        followers, leader.followers = leader.followers, []
        for follower in followers:
            self.slots[follower].leader = None
            self.free(follower)

    def add_lane(self, worker: WorkerId) -> None:
        """Note that the worker's lease got one more lane."""
        slot = self.slots[worker]
        slot.lanes, slot.given = slot.lanes + 1, slot.given + 1

    def end_lane(self, worker: WorkerId) -> None:
        """Note that a lane of the worker's lease has ended; with the last one it has nothing to train."""
        slot = self.slots[worker]
        slot.lanes -= 1
        if slot.lanes <= 0:
            self.free(worker)

    def lose(self, worker: WorkerId) -> None:
        """Note that nothing runs in the slot any more."""
        slot = self.slot(worker)
        self._empty(slot)
        if slot.leader is not None:  # the others have no training without it
            leader, slot.leader = slot.leader, None
            self.slots[leader].followers.remove(worker)
            self.free(leader)
        if slot.followers:
            self._dissolve(slot)
        slot.state, slot.lease, slot.lanes = SlotState.GONE, None, 0

    def release(self, worker: WorkerId) -> None:
        """Note that the worker is gone, and that its slot may be taken again."""
        self.lose(worker)
        self.slots[worker].is_released = True
        self.released.add(worker)

    def hold(self, worker: WorkerId, checkpoint: CheckpointRef) -> None:
        """Note that the worker saved or loads a checkpoint, which replaces the least recently used one in its cache."""
        slot = self.slots[worker]
        if checkpoint in slot.held:
            slot.held.remove(checkpoint)
        slot.held.append(checkpoint)
        holders = self._holders.get(checkpoint)
        if holders is None:
            self._holders[checkpoint] = {worker}
        else:
            holders.add(worker)
        while len(slot.held) > KEPT_CHECKPOINTS:
            self._drop(slot.held.pop(0), worker)

    def give_up(self, checkpoint: CheckpointRef) -> None:
        """Forget a checkpoint that is gone or damaged: no worker may load it."""
        for worker in self._holders.pop(checkpoint, ()):
            self.slots[worker].held.remove(checkpoint)

    def _empty(self, slot: Slot) -> None:
        while slot.held:
            self._drop(slot.held.pop(), slot.worker)

    def _drop(self, checkpoint: CheckpointRef, worker: WorkerId) -> None:
        holders = self._holders[checkpoint]
        holders.remove(worker)
        if not holders:
            del self._holders[checkpoint]

    def clear(self) -> None:
        """Forget all workers, as a new driver has none; the epochs stay, so that no lease is ever given twice."""
        for slot in self.slots.values():
            self._empty(slot)
            slot.state, slot.lease, slot.lanes, slot.fruitless = SlotState.GONE, None, 0, 0
            slot.followers, slot.leader, slot.is_released = [], None, False
        self.released.clear()
        self._idle.clear()
        self._queued.clear()

    def first_idle(self) -> WorkerId | None:
        """Return the idle worker with the lowest number, or None."""
        idle = self._idle
        while idle:
            if self.slots[idle[0]].state is SlotState.IDLE:
                return idle[0]
            self._queued.remove(heapq.heappop(idle))
        return None

    def count_idle(self) -> int:
        """Return how many workers are idle."""
        return sum(1 for slot in self.slots.values() if slot.state is SlotState.IDLE)

    def count_alive(self) -> int:
        """Return how many slots are not gone."""
        return sum(1 for slot in self.slots.values() if slot.state is not SlotState.GONE)

    def count_starting(self) -> int:
        """Return how many workers are being launched."""
        return sum(1 for slot in self.slots.values() if slot.state is SlotState.LAUNCHING)

    def count_hungry(self) -> int:
        """Return how many workers are idle or are being launched."""
        return self.count_idle() + self.count_starting()

    def idle_holder(self, checkpoint: CheckpointRef | None) -> WorkerId | None:
        """Return the idle worker with the lowest number that has a checkpoint in its cache, or None."""
        holders = None if checkpoint is None else self._holders.get(checkpoint)
        if holders is None:  # of most assignments: making an iterator for nothing costs 1 % of a decision
            return None
        return min((worker for worker in holders if self.slots[worker].state is SlotState.IDLE), default=None)

    def alive(self) -> list[Slot]:
        """Return the slots that are not gone, ordered by number."""
        return [slot for _, slot in sorted(self.slots.items()) if slot.state is not SlotState.GONE]

    def restore(self, slots: list[Slot]) -> None:
        """Restore the slots of a snapshot."""
        self.slots = {slot.worker: slot for slot in slots}
        self._idle = [slot.worker for slot in slots if slot.state is SlotState.IDLE]
        heapq.heapify(self._idle)
        self._queued = set(self._idle)
        self.released = {slot.worker for slot in slots if slot.is_released}
        self._holders = {}
        for slot in slots:
            for checkpoint in slot.held:
                self._holders.setdefault(checkpoint, set()).add(slot.worker)
