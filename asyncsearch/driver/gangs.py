"""The gangs that train: passes the notes of their ranks to each other, and ends the ranks of one that is over.

No decision is made here, and nothing of it is in the journal: a gang ends with its lease, which the engine decides.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec

from asyncsearch.actions import ExtendWork, StopTraining
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import ProtocolError
from asyncsearch.events import AnyEvent, Outcome, TrainingEnded, WorkerLost, WorkRefused
from asyncsearch.ids import Lease, TrialId, WorkerId
from asyncsearch.rpc.messages import GangNote, RankFailed, Refused
from asyncsearch.work import GangMember, Work

_ENDING = (TrainingEnded, WorkerLost, WorkRefused)
_KEPT = 16
_OVER = "the training of its gang has ended"


class Send(Protocol):
    """Sends a message to a launch of a worker."""

    def __call__(
        self, worker: WorkerId, epoch: int, message: ExtendWork | GangNote | Refused | StopTraining
    ) -> None: ...


class GangLog(NamedTuple):
    """The log to which the output of a gang's ranks belongs."""

    members: tuple[GangMember, ...]
    trial: TrialId
    start: int
    """Resource at which its training began."""


class Gangs:
    """The members of each lease that several workers hold. Called in the driver's thread."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._open: dict[Lease, tuple[GangMember, ...]] = {}
        self._kept: dict[Lease, GangLog] = {}
        """Of these and of the last ones that are over, whose last lines may follow."""
        self._new: list[Lease] = []
        """Those whose workers have just got their work."""
        self._failed: set[Lease] = set()
        """Those that ended since a rank above 0 failed, which rank 0 does not know."""
        self._stopped: dict[Lease, str] = {}
        """Those that a rank above 0 has stopped by its own code, with its reason, until rank 0 has ended."""

    def begin(self, work: Work) -> None:
        """Note that the workers of a gang get work."""
        if isinstance(work.gang, tuple):
            self._open[work.lease] = work.gang
            first = work.lanes[0].stages[0]
            self._kept[work.lease] = GangLog(work.gang, first.trials[0], first.start)
            self._new.append(work.lease)
            for lease in [lease for lease in self._kept if lease not in self._open][:-_KEPT]:
                del self._kept[lease]

    def rank_of(self, lease: Lease, worker: tuple[WorkerId, int]) -> int | None:
        """Return the rank of a launch of a worker in the gang of a lease; None if it is no member."""
        places = {(member.worker, member.epoch): rank for rank, member in enumerate(self._open.get(lease, ()))}
        return places.get(worker)

    def log_of(self, lease: Lease, worker: tuple[WorkerId, int]) -> tuple[int, GangLog] | None:
        """Return the rank, above 0, of a launch of a worker, and the log of its lines; None if it has none."""
        if (kept := self._kept.get(lease)) is None or GangMember(*worker) not in kept.members[1:]:
            return None
        return kept.members.index(GangMember(*worker)), kept

    def pass_on(self, worker: tuple[WorkerId, int], note: GangNote) -> str:
        """Pass a rank's note on to the others; a note of a gang that is over is dropped.

        Returns:
            Why the sender tells too much; empty if it does not.
        """
        if self.rank_of(note.lease, worker) != note.rank:
            return ""
        for member in self._open[note.lease]:
            if (member.worker, member.epoch) != worker:
                try:
                    self._send(member.worker, member.epoch, note)
                except ProtocolError as error:
                    return f"its notes are more than the other ranks read: {error}"
        return ""

    def extend(self, extension: ExtendWork) -> None:
        """Tell the workers above rank 0 of further stages, whose checkpoints they are to know; rank 0 tells when."""
        for member in self._open.get(extension.lease, ())[1:]:
            self._send(member.worker, member.epoch, extension)

    def end_of(self, worker: tuple[WorkerId, int], failed: RankFailed, attempt: Attempt | None) -> TrainingEnded | None:
        """Return the end of a training of which one rank has failed; None if it is over, or not that worker's.

        Where that rank has stopped itself, rank 0 ends it: it may have reports to make of the unit before.
        """
        rank = self.rank_of(failed.lease, worker)
        if not rank or attempt is None or attempt.end is not None:
            return None
        if failed.has_stopped:
            first = self._open[failed.lease][0]
            if self._stopped.setdefault(failed.lease, failed.error) == failed.error:
                self._send(first.worker, first.epoch, StopTraining(failed.lease, failed.error))
            return None
        self._failed.add(failed.lease)
        error = f"In rank {rank} of a gang of {len(self._open[failed.lease])} workers:\n{failed.error}"
        done = max(attempt.resource, attempt.committed or 0)
        return TrainingEnded(failed.lease, Outcome.FAILED, done, error=error, error_kind=failed.error_kind)

    def end_by_rank(self, end: TrainingEnded) -> TrainingEnded:
        """Return the end of rank 0, as that of a trial that another rank has stopped where this is why it ended."""
        reason = self._stopped.pop(end.lease, None)
        if reason is None or end.outcome in (Outcome.RETURNED, Outcome.REACHED):
            return end
        return msgspec.structs.replace(end, outcome=Outcome.RETURNED, error=reason, error_kind="")

    def end_those_over(self, state: StudyState, event: AnyEvent) -> None:
        """End the training of ranks whose leases are over since an event."""
        if not self._open or not isinstance(event, _ENDING):
            return
        for lease in [lease for lease in self._open if not _goes_on(state.attempt(lease))]:
            self._end(lease, state, event)

    def end_those_late(self, state: StudyState) -> None:
        """End those whose leases were over before their workers got the work: no later event is about them."""
        while self._new:
            lease = self._new.pop()
            if lease in self._open and not _goes_on(state.attempt(lease)):
                self._end(lease, state, None)

    def _end(self, lease: Lease, state: StudyState, event: AnyEvent | None) -> None:
        members = [one for one in self._open.pop(lease) if state.pool.is_current(one.worker, one.epoch)]
        is_known = isinstance(event, TrainingEnded) and lease not in self._failed
        is_in_order = isinstance(event, TrainingEnded) and event.outcome is not Outcome.FAILED
        self._failed.discard(lease)
        self._stopped.pop(lease, None)
        for member in members:
            if is_known and member.worker == lease.worker:  # rank 0 itself ended it; its last commits may follow
                continue
            # Without rank 0 the others wait for ever: their processes are ended at once, or come to their own end.
            word = StopTraining(lease, _OVER) if is_in_order else Refused(lease, _OVER)
            self._send(member.worker, member.epoch, word)


def _goes_on(attempt: Attempt | None) -> bool:
    return attempt is not None and attempt.end is None and not attempt.is_lost
