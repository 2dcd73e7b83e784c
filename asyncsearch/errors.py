"""Every error that asyncsearch raises on purpose, in one tree.

    AsyncSearchError
    ├── UsageError                 the caller asked for something that cannot be (also a ValueError)
    │   ├── SpaceError             a search space, domain, constraint or initial point is malformed
    │   ├── ResourceError          resources, rungs or the number of trials do not fit together
    │   ├── StudyExistsError       the store already holds a study; suggests ``resume``
    │   ├── StudyNotFoundError     the store holds no study
    │   ├── NotPicklableError      the trainable, or something it captures, cannot be sent to a worker
    │   ├── CannotPauseError       the scheduler pauses trials, and the trainable cannot be paused
    │   ├── MetricNotReportedError the trial finished and never reported the study's metric
    │   └── NoTrialsError          asked for the best of no finished trials
    ├── TrialsFailedError          every trial failed; holds the traceback of the last one
    ├── ClusterError               the cluster cannot run the search as asked
    │   ├── NotEnoughSlotsError    fewer task slots than workers
    │   ├── UnsupportedSparkError  this kind of Spark session cannot be used
    │   ├── PackagesDifferError    executors run another Python or other packages than the driver
    │   ├── RankLostError          another worker of the same trial is gone, or cannot be reached
    │   └── WorkersLostError       workers were lost more often than the study allows
    ├── StoreError                 the store cannot be read or written
    │   ├── StoreLockedError       another driver has the study open
    │   ├── StoreLostError         the lock, or a file of the store, was removed or replaced while it was in use
    │   ├── BeingWrittenError      the end of a journal segment cannot be read while a driver writes it
    │   ├── NotAFileError          something else lies in the place of a file, such as a folder or a pipe
    │   ├── StoreAwayError         servers of the store are away, or take nothing now; that passes by itself
    │   │   └── ContentAwayError   the file system lists a file, and cannot give its content now
    │   ├── SegmentOverError       a journal segment was closed so that others can read it; a new one goes on
    │   ├── CheckpointError        a checkpoint is damaged, missing, or cannot be one; the store itself works
    │   └── JournalDamagedError    the journal is damaged elsewhere than at its end
    ├── ProtocolError              a message broke the contract in ``rpc/``
    │   ├── MessageTooLargeError   a message is over the size limit
    │   ├── OtherProtocolError     driver and worker speak different versions of the contract
    │   ├── StaleLeaseError        the lease no longer permits this work
    │   ├── UnauthenticatedError   wrong or missing token
    │   └── DisconnectedError      the server cannot be reached any more
    └── InternalError              our own bug
        └── InvalidTransitionError a trial was moved along an edge that the transition table does not have

Every message names the event, the id that it concerns, and the next step.
"""

from __future__ import annotations


class AsyncSearchError(Exception):
    """Base of all errors raised on purpose by asyncsearch."""


class UsageError(AsyncSearchError, ValueError):
    """The caller asked for something that cannot be."""


class SpaceError(UsageError):
    """A search space, domain, constraint or initial point is malformed."""


class ResourceError(UsageError):
    """Resources, rungs or the number of trials do not fit together."""


class StudyExistsError(UsageError):
    """The store already holds a study."""


class StudyNotFoundError(UsageError):
    """The store holds no study."""


class NotPicklableError(UsageError):
    """The trainable, or something that it captures, cannot be sent to a worker."""


class CannotPauseError(UsageError):
    """The scheduler pauses trials and the trainable cannot be paused."""


class MetricNotReportedError(UsageError):
    """A trial finished and never reported the study's metric."""


class NoTrialsError(UsageError):
    """The requested result does not exist yet, as no trial has finished."""


class TrialsFailedError(AsyncSearchError):
    """All trials failed, or all that went on from a first pause or judgement, or several in the same way at the start.

    In the last case none had finished, and the run ended early.
    """


class ClusterError(AsyncSearchError):
    """The cluster cannot run the search as asked."""


class NotEnoughSlotsError(ClusterError):
    """The cluster has fewer task slots than the study wants workers."""


class UnsupportedSparkError(ClusterError):
    """This kind of Spark session cannot be used."""


class PackagesDifferError(ClusterError):
    """Executors run another Python or other packages than the driver."""


class RankLostError(ClusterError):
    """Another worker that trains the same trial is gone, or cannot be reached: the attempt is over, not the trial."""


class WorkersLostError(ClusterError):
    """Workers were lost more often than the study allows."""


class StoreError(AsyncSearchError):
    """The store cannot be read or written."""


class StoreLockedError(StoreError):
    """Another driver has the study open."""


class StoreLostError(StoreError):
    """The lock, or a file of the store, was removed or replaced while it was in use; waiting does not bring it back."""

    def __init__(self, words: str, *, is_missed: bool = True) -> None:
        super().__init__(words)
        self.is_missed = is_missed
        """Whether anybody is to be told: a program may remove the folder of a search that it has no use for."""


class BeingWrittenError(StoreError):
    """The end of a journal segment cannot be read while a driver has it open."""


class NotAFileError(StoreError):
    """Something else lies in the place of a file, such as a folder, a pipe or a link; waiting does not change that."""


class StoreAwayError(StoreError):
    """Servers of the store do not answer, or take nothing now; that passes by itself."""


class ContentAwayError(StoreAwayError):
    """The file system lists a file, and none of its servers can give its content now."""


class SegmentOverError(StoreError):
    """A journal segment takes no more, since it was closed so that others can read it; a new one goes on."""


class CheckpointError(StoreError):
    """A checkpoint is damaged, missing, or cannot be one; the store itself works."""


class JournalDamagedError(StoreError):
    """The journal is damaged elsewhere than at its end."""


def may_pass(error: BaseException) -> bool:
    """Return whether it is worth waiting after a failure of the store: nothing is lost, nobody else has taken it."""
    lasting = (StoreLockedError, StoreLostError, CheckpointError, JournalDamagedError, NotAFileError)
    return isinstance(error, StoreError | OSError) and not isinstance(error, lasting)


def is_bug(error: BaseException) -> bool:
    """Return whether people need the traceback of an error: no sentence was written for it, or it is our own bug."""
    return isinstance(error, InternalError) or not isinstance(error, AsyncSearchError)


class ProtocolError(AsyncSearchError):
    """A message broke the contract in ``rpc/``."""


class MessageTooLargeError(ProtocolError):
    """A message is over the size limit."""


class OtherProtocolError(ProtocolError):
    """Driver and worker speak different versions of the contract."""


class StaleLeaseError(ProtocolError):
    """The lease no longer permits this work."""


class UnauthenticatedError(ProtocolError):
    """The token is wrong or missing."""


class DisconnectedError(ProtocolError):
    """The server cannot be reached any more."""


class InternalError(AsyncSearchError):
    """A bug in asyncsearch itself."""


class InvalidTransitionError(InternalError):
    """A trial was moved along an edge that the transition table does not have."""


def in_a_line(error: BaseException) -> str:
    """Return the kind of an error and the first line of its text, without a final period."""
    first, _, _ = str(error).strip().partition("\n")  # Azure's also quotes the answer, with its XML
    return f"{type(error).__name__}: {first.rstrip('.')}" if first else type(error).__name__
