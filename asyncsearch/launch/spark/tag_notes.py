"""Notes by which another process ends the queries of Spark Connect that this one leaves behind if it dies.

A server lets the queries of a dead client run on for minutes. They belong to its session, which the same user may join
at the same server, where they have a tag that nobody else's queries have.
"""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import msgspec


class TagNote(msgspec.Struct, frozen=True):
    """Which queries are those of a run, for who may join its session: the same user, at the same server."""

    endpoint: str
    user: str
    session: str
    tag: str


_NOTE = msgspec.json.Decoder(TagNote)


def endpoint_of(session: Any) -> str:
    """Return the address of the server of a session; empty if its client does not say."""
    return str(getattr(getattr(session.client, "_builder", None), "endpoint", ""))


def tag_note(session: Any, tag: str) -> bytes:
    """Return a note on the queries of a session that have a tag; empty if there can be none."""
    client, endpoint = session.client, endpoint_of(session)
    note = TagNote(endpoint, str(client._user_id or ""), str(client._session_id), tag)
    return msgspec.json.encode(note) if endpoint else b""


def end_tag_of(session: Any, note: bytes) -> None:
    """End the queries of a note, if they are those of the same user at the server of this session."""
    from pyspark.sql.connect.client import SparkConnectClient

    client = session.client
    with contextlib.suppress(Exception):  # it is another server by now, or the session is gone, and its queries too
        found = _NOTE.decode(note)
        if (found.endpoint, found.user) == (endpoint_of(session), str(client._user_id or "")):
            builder = copy.copy(client._builder)
            builder._params = {**builder._params, builder.PARAM_SESSION_ID: found.session}
            other = SparkConnectClient(connection=builder, user_id=client._user_id)
            try:
                other.interrupt_tag(found.tag)
            finally:
                other.close()
