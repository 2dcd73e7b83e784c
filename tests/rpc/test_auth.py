from __future__ import annotations

import datetime

import pytest
from cryptography import x509

from asyncsearch.errors import UnauthenticatedError
from asyncsearch.rpc.auth import Gate, Identity, make_identity

NOW = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def identity() -> Identity:
    return make_identity(NOW)


def test_the_certificate_is_valid_a_day_before_it_is_made(identity: Identity) -> None:
    certificate = x509.load_pem_x509_certificate(identity.certificate_pem)
    assert certificate.not_valid_before_utc == NOW - datetime.timedelta(days=1)
    assert certificate.not_valid_after_utc > NOW + datetime.timedelta(days=365)


def test_the_token_has_32_random_bytes(identity: Identity) -> None:
    assert len(identity.token) == 43
    assert identity.token != make_identity(NOW).token


def test_secrets_are_not_shown(identity: Identity) -> None:
    endpoint = identity.endpoint("host:1")
    for shown in (repr(identity), str(identity), repr(endpoint), str(endpoint), f"{endpoint}"):
        assert identity.token not in shown
        assert "BEGIN" not in shown


def test_the_key_stays_with_the_driver(identity: Identity) -> None:
    endpoint = identity.endpoint("host:1")
    assert identity.key_pem not in (endpoint.certificate_pem, endpoint.token.encode())


def test_the_right_token_passes(identity: Identity) -> None:
    Gate(identity).check([("user-agent", "x"), ("authorization", f"Bearer {identity.token}")])


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ([], "missing"),
        ([("authorization", "")], "missing"),
        ([("authorization", "Bearer x")], "wrong"),
        ([("authorization", "Bearer é")], "wrong"),
        ([("authorization", b"\xff")], "wrong"),
    ],
)
def test_any_other_token_does_not(identity: Identity, metadata: list[tuple[str, str | bytes]], words: str) -> None:
    with pytest.raises(UnauthenticatedError, match=f"The token is {words}") as error:
        Gate(identity).check(metadata)
    assert identity.token not in str(error.value)
