from __future__ import annotations

import re
from pathlib import Path

import pytest
from grpc import StatusCode

from asyncsearch.errors import DisconnectedError, InternalError, ProtocolError, StaleLeaseError, UsageError
from asyncsearch.rpc.channel import TABLE, row_of, status_of

README = Path(__file__).parents[2] / "rpc" / "README.md"


def test_the_readme_shows_the_table() -> None:
    shown = re.findall(r"^\| `([A-Z_]+)` \| `(\w+)` \| (yes|no) \|", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert shown == [(row.status.name, row.error.__name__, "yes" if row.is_final else "no") for row in TABLE]


def test_an_error_goes_over_the_wire_and_comes_out_the_same() -> None:
    for row in TABLE:
        assert row_of(status_of(row.error("x"))) is row


def test_an_error_that_is_not_in_the_table_is_internal() -> None:
    assert status_of(UsageError("x")) is StatusCode.INTERNAL
    assert status_of(InternalError("x")) is StatusCode.INTERNAL


def test_a_derived_error_has_the_status_of_its_base() -> None:
    class DerivedError(StaleLeaseError):
        pass

    class OtherError(ProtocolError):
        pass

    assert status_of(DerivedError("x")) is StatusCode.FAILED_PRECONDITION
    assert status_of(OtherError("x")) is StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("status", [StatusCode.CANCELLED, StatusCode.UNKNOWN, StatusCode.DEADLINE_EXCEEDED])
def test_a_status_that_only_gRPC_itself_makes_is_a_broken_stream(status: StatusCode) -> None:
    assert row_of(status).error is DisconnectedError
    assert not row_of(status).is_final
