"""The gangs that train: passes what their ranks tell each other, and ends the ranks of one that is over.

No decision is made here, and nothing of it is in the journal: a gang ends with its lease, which the engine decides.
"""

from __future__ import annotations

from typing import Protocol

from asyncsearch.actions import StopTraining
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, Outcome, TrainingEnded, TrialTimedOut, WorkerLost, WorkRefused
from asyncsearch.ids import Lease, WorkerId
from asyncsearch.rpc.messages import GangNote, RankFailed, Refused
from asyncsearch.work import GangMember, Work

_ENDING = (TrainingEnded, WorkerLost, TrialTimedOut, WorkRefused)
_OVER = "the training of its gang has ended"


class Send(Protocol):
    """Sends a message to a launch of a worker."""

    def __call__(self, worker: WorkerId, epoch: int, message: GangNote | Refused | StopTraining) -> None: ...


class Gangs:
    """The members of each lease that several workers hold. Called in the driver's thread."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._open: dict[Lease, tuple[GangMember, ...]] = {}

    def begin(self, work: Work) -> None:
        """Note that the workers of a gang get work."""
        if isinstance(work.gang, tuple):
            self._open[work.lease] = work.gang

    def rank_of(self, lease: Lease, worker: tuple[WorkerId, int]) -> int | None:
        """Return the rank of a launch of a worker in the gang of a lease; None: it is no member."""
        places = {(member.worker, member.epoch): rank for rank, member in enumerate(self._open.get(lease, ()))}
        return places.get(worker)

    def pass_on(self, worker: tuple[WorkerId, int], note: GangNote) -> None:
        """Pass on what a rank tells the others; a note of a gang that is over is dropped."""
        if self.rank_of(note.lease, worker) != note.rank:
            return
        for member in self._open[note.lease]:
            if (member.worker, member.epoch) != worker:
                self._send(member.worker, member.epoch, note)

    def end_of(self, worker: tuple[WorkerId, int], failed: RankFailed, attempt: Attempt | None) -> TrainingEnded | None:
        """Return the end of a training of which one rank has failed; None: it has none, or the worker no part in it."""
        rank = self.rank_of(failed.lease, worker)
        if not rank or attempt is None or attempt.end is not None:
            return None
        error = f"In rank {rank} of a gang of {len(self._open[failed.lease])} workers:\n{failed.error}"
        return TrainingEnded(failed.lease, Outcome.FAILED, attempt.resource, error=error, error_kind=failed.error_kind)

    def end_those_over(self, state: StudyState, event: AnyEvent) -> None:
        """End what the ranks train of leases that are over since an event."""
        if not self._open or not isinstance(event, _ENDING):
            return
        for lease in [lease for lease in self._open if not _goes_on(state.attempt(lease))]:
            members = [one for one in self._open.pop(lease) if state.pool.is_current(one.worker, one.epoch)]
            is_in_order = isinstance(event, TrainingEnded) and event.outcome is not Outcome.FAILED
            for member in members:
                if not is_in_order:  # they wait for one that is gone: their processes are ended at once
                    self._send(member.worker, member.epoch, Refused(lease, _OVER))
                elif member.worker != lease.worker:  # they come to their end by themselves, or are made to
                    self._send(member.worker, member.epoch, StopTraining(lease, _OVER))


def _goes_on(attempt: Attempt | None) -> bool:
    return attempt is not None and attempt.end is None and not attempt.is_lost
