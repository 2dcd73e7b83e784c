"""A connection as both sides set it up: gRPC's settings and limits, the detection of a dead one, and the statuses.

``rpc/README.md`` shows the table of statuses and errors, and a test compares them.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from asyncsearch.errors import (
    DisconnectedError,
    InternalError,
    MessageTooLargeError,
    OtherProtocolError,
    ProtocolError,
    StaleLeaseError,
    UnauthenticatedError,
)
from asyncsearch.rpc.auth import TARGET_NAME
from asyncsearch.rpc.quiet_grpc import grpc
from asyncsearch.rpc.reservation import ConnectionLimits

SERVICE = "asyncsearch.v1.Search"
METHOD = "Attach"
MAX_MESSAGE_BYTES = 4 * 2**20
"""Maximum size of one message; checkpoints and data go to the store instead."""

Options = list[tuple[str, int | str]]


class Keepalive(msgspec.Struct, frozen=True, kw_only=True):
    """When a silent connection counts as dead."""

    every_s: float = 20.0
    """Seconds of silence after which a ping is sent."""
    timeout_s: float = 10.0
    """Seconds to wait for its answer."""


def require_size(size_bytes: int, limit_bytes: int, what: str) -> None:
    """Check a message against the size limit of the contract.

    Raises:
        MessageTooLargeError: it is over the limit.
    """
    if size_bytes > limit_bytes:
        raise MessageTooLargeError(
            f"{what}: {size_bytes} bytes are over the limit of {limit_bytes} bytes for one message; "
            "put large data into a checkpoint, a file or the store."
        )


def server_options(keepalive: Keepalive, max_message_bytes: int, limits: ConnectionLimits) -> Options:
    """Return the options of the driver's side."""
    return [
        *_options(keepalive, max_message_bytes),
        # Otherwise two servers could listen on one port, and each would get half of the workers.
        ("grpc.so_reuseport", 0),
        # A connection above the limit is closed when it is accepted, and holds no descriptor.
        ("grpc.max_allowed_incoming_connections", limits.connections),
        ("grpc.server_handshake_timeout_ms", round(limits.handshake_s * 1000)),
        # A worker opens one stream on each connection, and its metadata is the token.
        ("grpc.max_concurrent_streams", 4),
        ("grpc.max_metadata_size", 8_192),
        ("grpc.absolute_max_metadata_size", 16_384),
        # Otherwise gRPC closes the connection of a worker that sends pings early or in quick succession.
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 100),
        ("grpc.http2.max_ping_strikes", 0),
    ]


def client_options(keepalive: Keepalive, max_message_bytes: int) -> Options:
    """Return the options of a worker's side."""
    return [
        *_options(keepalive, max_message_bytes),
        ("grpc.ssl_target_name_override", TARGET_NAME),
        # Each attempt to attach makes its own connection: a shared one may be dead already.
        ("grpc.use_local_subchannel_pool", 1),
        # The corporate proxy in an executor's environment has no route to the driver.
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
        ("grpc.service_config_disable_resolution", 1),
    ]


def _options(keepalive: Keepalive, max_message_bytes: int) -> Options:
    return [
        # gRPC does not say which message was too long; the check of the contract's own, lower limit does.
        ("grpc.max_receive_message_length", 4 * max_message_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.keepalive_time_ms", round(keepalive.every_s * 1000)),
        ("grpc.keepalive_timeout_ms", round(keepalive.timeout_s * 1000)),
        # The same limit again: gRPC 1.85 waits 60 s for the answer to a keepalive ping unless this option is set.
        ("grpc.http2.ping_timeout_ms", round(keepalive.timeout_s * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        # Otherwise gRPC sends only two pings on an idle stream.
        ("grpc.http2.max_pings_without_data", 0),
        # Measuring the bandwidth costs a ping for many small messages, and they never need the bandwidth.
        ("grpc.http2.bdp_probe", 0),
    ]


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
