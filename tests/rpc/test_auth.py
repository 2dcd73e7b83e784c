from __future__ import annotations

import datetime
import hmac

import pytest
from cryptography import x509

from asyncsearch.errors import UnauthenticatedError
from asyncsearch.ids import WorkerId
from asyncsearch.rpc.auth import Gate, Identity, bound, make_identity, require_launch
from asyncsearch.rpc.messages import Hello

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
    assert Gate(identity).check([("user-agent", "x"), ("authorization", f"Bearer {identity.token}")]) is None


def test_the_token_of_a_launch_says_which_launch_it_is(identity: Identity) -> None:
    token = bound(identity.endpoint("host:1"), WorkerId(7), 2).token
    assert Gate(identity).check([("authorization", f"Bearer {token}")]) == (7, 2)
    require_launch((7, 2), Hello(WorkerId(7), 2, "a"))
    for worker, epoch in ((6, 2), (7, 1), (7, 3)):
        with pytest.raises(UnauthenticatedError, match="a worker attaches with the token of its own launch"):
            require_launch((7, 2), Hello(WorkerId(worker), epoch, "a"))


def test_the_token_of_a_launch_cannot_be_made_from_that_of_another(identity: Identity) -> None:
    endpoint = identity.endpoint("host:1")
    token = bound(endpoint, WorkerId(7), 2).token
    assert identity.token not in token
    mac = token.rpartition(".")[2]
    other = make_identity(NOW).endpoint("host:1")
    for forged in (
        f"6.2.{mac}",
        f"7.3.{mac}",
        f"07.2.{mac}",
        f"7.2.{mac[:-1]}",
        "7.2.",
        bound(other, WorkerId(7), 2).token,
    ):
        with pytest.raises(UnauthenticatedError, match="The token is wrong"):
            Gate(identity).check([("authorization", f"Bearer {forged}")])


def test_tokens_are_compared_in_constant_time(identity: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return True

    monkeypatch.setattr(hmac, "compare_digest", compare)
    Gate(identity).check([("authorization", "Bearer x")])
    Gate(identity).check([("authorization", "Bearer 1.1.x")])
    assert compared == [b"Bearer x", b"Bearer 1.1.x"]


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
