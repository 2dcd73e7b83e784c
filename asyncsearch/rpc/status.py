"""The table of gRPC statuses and errors, for both sides; ``rpc/README.md`` shows it, and a test compares them."""

from __future__ import annotations

from typing import NamedTuple

from asyncsearch.errors import (
    DisconnectedError,
    InternalError,
    MessageTooLargeError,
    OtherProtocolError,
    ProtocolError,
    StaleLeaseError,
    UnauthenticatedError,
)
from asyncsearch.rpc.quiet_grpc import grpc

StatusCode = grpc.StatusCode


class StatusRow(NamedTuple):
    """Meaning of a status."""

    status: StatusCode
    error: type[Exception]
    """Error that the worker's side raises for this status, and with which the driver's side closes a stream."""
    is_final: bool
    """Whether reattaching cannot help."""


TABLE = (
    StatusRow(StatusCode.UNAUTHENTICATED, UnauthenticatedError, is_final=True),
    StatusRow(StatusCode.FAILED_PRECONDITION, StaleLeaseError, is_final=True),
    StatusRow(StatusCode.RESOURCE_EXHAUSTED, MessageTooLargeError, is_final=True),
    StatusRow(StatusCode.UNIMPLEMENTED, OtherProtocolError, is_final=True),
    StatusRow(StatusCode.INVALID_ARGUMENT, ProtocolError, is_final=True),
    StatusRow(StatusCode.INTERNAL, InternalError, is_final=False),
    StatusRow(StatusCode.UNAVAILABLE, DisconnectedError, is_final=False),
)
"""Any other status reads as UNAVAILABLE; an error that has neither itself nor a base class here is INTERNAL."""

_ROWS = {row.status: row for row in TABLE}
_STATUSES = {row.error: row.status for row in TABLE}


def status_of(error: Exception) -> StatusCode:
    """Return the status with which the driver closes a stream because of ``error``."""
    return next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), StatusCode.INTERNAL)


def row_of(status: StatusCode) -> StatusRow:
    """Return the meaning of a status for a worker."""
    return _ROWS.get(status, _ROWS[StatusCode.UNAVAILABLE])
