"""The one table between gRPC statuses and errors, for both sides; ``rpc/README.md`` shows it, a test compares them."""

from __future__ import annotations

from typing import NamedTuple

from grpc import StatusCode

from asyncsearch.errors import (
    DisconnectedError,
    InternalError,
    MessageTooLargeError,
    OtherProtocolError,
    ProtocolError,
    StaleLeaseError,
    UnauthenticatedError,
)


class StatusRow(NamedTuple):
    """What a status means."""

    status: StatusCode
    error: type[Exception]
    """Raised by the worker's side for this status; closes a stream with it on the driver's."""
    is_final: bool
    """Whether attaching again cannot help."""


TABLE = (
    StatusRow(StatusCode.UNAUTHENTICATED, UnauthenticatedError, is_final=True),
    StatusRow(StatusCode.FAILED_PRECONDITION, StaleLeaseError, is_final=True),
    StatusRow(StatusCode.RESOURCE_EXHAUSTED, MessageTooLargeError, is_final=True),
    StatusRow(StatusCode.UNIMPLEMENTED, OtherProtocolError, is_final=True),
    StatusRow(StatusCode.INVALID_ARGUMENT, ProtocolError, is_final=True),
    StatusRow(StatusCode.INTERNAL, InternalError, is_final=False),
    StatusRow(StatusCode.UNAVAILABLE, DisconnectedError, is_final=False),
)
"""A status that is not here reads as UNAVAILABLE; an error that is not here, nor any base of it, is INTERNAL."""

_ROWS = {row.status: row for row in TABLE}
_STATUSES = {row.error: row.status for row in TABLE}


def status_of(error: Exception) -> StatusCode:
    """Return the status with which the driver closes a stream because of ``error``."""
    return next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), StatusCode.INTERNAL)


def row_of(status: StatusCode) -> StatusRow:
    """Return what a status means to a worker."""
    return _ROWS.get(status, _ROWS[StatusCode.UNAVAILABLE])
