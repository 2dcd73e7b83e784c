"""How both sides set up gRPC: the names, limits, and how a dead connection is found."""

from __future__ import annotations

import msgspec

from asyncsearch.errors import MessageTooLargeError
from asyncsearch.rpc.auth import TARGET_NAME

SERVICE = "asyncsearch.v1.Search"
METHOD = "Attach"
MAX_MESSAGE_BYTES = 4 * 2**20
"""What one message may take; checkpoints and data go to the store instead."""

Options = list[tuple[str, int | str]]


class Keepalive(msgspec.Struct, frozen=True, kw_only=True):
    """When a connection on which nothing moves counts as dead."""

    every_s: float = 20.0
    """Silence after which a ping is sent."""
    timeout_s: float = 10.0
    """How long its answer may take."""


def require_size(size_bytes: int, limit_bytes: int, what: str) -> None:
    """Hold a message to the limit of the contract.

    Raises:
        MessageTooLargeError: it is over the limit.
    """
    if size_bytes > limit_bytes:
        raise MessageTooLargeError(
            f"{what}: {size_bytes} bytes are over the limit of {limit_bytes} bytes for one message; "
            "what is large belongs into a checkpoint, a file or the store."
        )


def server_options(keepalive: Keepalive, max_message_bytes: int) -> Options:
    """Return the options of the driver's side."""
    return [
        *_options(keepalive, max_message_bytes),
        # Else two servers could listen at one port, and each gets half of the workers.
        ("grpc.so_reuseport", 0),
        ("grpc.server_handshake_timeout_ms", 10_000),
        # Else a worker whose pings come early, or one after the other, is sent away as a nuisance.
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 100),
        ("grpc.http2.max_ping_strikes", 0),
    ]


def client_options(keepalive: Keepalive, max_message_bytes: int) -> Options:
    """Return the options of a worker's side."""
    return [
        *_options(keepalive, max_message_bytes),
        ("grpc.ssl_target_name_override", TARGET_NAME),
        # Each attempt to attach makes a connection of its own: a shared one may be the one that is dead.
        ("grpc.use_local_subchannel_pool", 1),
        # The corporate proxy in an executor's environment knows no way to the driver.
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
        ("grpc.service_config_disable_resolution", 1),
    ]


def _options(keepalive: Keepalive, max_message_bytes: int) -> Options:
    return [
        # gRPC does not say which message was too long; the contract's own limit is below this one, and does.
        ("grpc.max_receive_message_length", 4 * max_message_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.keepalive_time_ms", round(keepalive.every_s * 1000)),
        ("grpc.keepalive_timeout_ms", round(keepalive.timeout_s * 1000)),
        # The same again: gRPC 1.85 waits 60 s for the answer to a keepalive's ping unless told so in these words.
        ("grpc.http2.ping_timeout_ms", round(keepalive.timeout_s * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        # Else the pings of an idle stream end after two.
        ("grpc.http2.max_pings_without_data", 0),
        # Measuring the bandwidth costs a ping for many a small message, and there is nothing to fill it with.
        ("grpc.http2.bdp_probe", 0),
    ]
