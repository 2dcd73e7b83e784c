"""Files of delegation tokens, and how a process comes by them. The recorded file was written by Hadoop 3.5."""

from __future__ import annotations

import base64
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsearch.errors import StoreError
from asyncsearch.store.hdfs import tokens
from asyncsearch.store.hdfs.addresses import Address

RECORDED = base64.b64decode(
    "SERUUwABDzEyNy4wLjAuMToyNjEzMysAFGFubkBBU1lOQ1NFQVJDSC5URVNUA2FubgCKAaIGaiIgigGiKnamIA8CFJqFb1DRRHT188bDXVkx8mfxRrr2"
    "FUhERlNfREVMRUdBVElPTl9UT0tFTg8xMjcuMC4wLjE6MjYxMzMA"
)
HOSTS = {"localhost": "127.0.0.1", "other": "10.0.0.1"}


@pytest.fixture(autouse=True)
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process without tokens, with a temporary folder of its own."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.delenv(tokens.LOCATION, raising=False)
    monkeypatch.setattr(tokens, "_mine", tokens._Tokens())
    monkeypatch.setattr(tokens, "_number_of", HOSTS.__getitem__)
    yield
    tokens.drop()


def present() -> bytes:
    return Path(os.environ[tokens.LOCATION]).read_bytes()


def services(data: bytes) -> list[bytes]:
    return [token.service for token in tokens.read_tokens(data)]


def test_a_file_of_hadoop_is_read_and_written_byte_for_byte() -> None:
    (token,) = tokens.read_tokens(RECORDED)
    assert (token.kind, token.service) == (b"HDFS_DELEGATION_TOKEN", b"127.0.0.1:26133")
    assert b"ann@ASYNCSEARCH.TEST" in token.identifier
    assert len(token.password) == 20
    assert tokens.token_file([token]) == RECORDED
    long = token._replace(identifier=b"x" * 70_000, password=b"y" * 200)
    assert tokens.read_tokens(tokens.token_file([long, token])) == [long, token]


@pytest.mark.parametrize("data", [b"", b"HDTS\1\0", RECORDED[:-2], RECORDED[:40], b"HDTS\0\x80"])
def test_what_is_no_whole_file_of_tokens_is_refused_in_words(data: bytes) -> None:
    with pytest.raises(StoreError, match="file of delegation tokens"):
        tokens.read_tokens(data)


def test_a_token_is_found_under_each_name_of_its_namenode_and_no_other() -> None:
    found = tokens.named(RECORDED, ["localhost:26133", "other:26133", "localhost:1"], HOSTS.__getitem__)
    assert services(found) == [b"127.0.0.1:26133", b"localhost:26133"]
    assert tokens.named(found, ["localhost:26133"], HOSTS.__getitem__) == found
    assert len({token.password for token in tokens.read_tokens(found)}) == 1


def test_tokens_that_a_process_is_sent_are_its_own_until_it_drops_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tokens.LOCATION, "/of/the/container")
    tokens.use(RECORDED)
    path = Path(os.environ[tokens.LOCATION])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert present() == RECORDED
    tokens.drop()
    tokens.drop()
    assert os.environ[tokens.LOCATION] == "/of/the/container"
    assert not path.exists()


def test_renewed_tokens_are_in_the_same_file_under_the_needed_names() -> None:
    tokens.use(RECORDED)
    first = os.environ[tokens.LOCATION]
    tokens.use_at(Address("hdfs://localhost:26133", (("dfs.client.x", "other:26133"),)))
    assert services(present()) == [b"127.0.0.1:26133", b"localhost:26133"]
    token = tokens.read_tokens(RECORDED)[0]._replace(password=b"renewed")
    tokens.use(tokens.token_file([token]))
    assert os.environ[tokens.LOCATION] == first
    assert [token.password for token in tokens.read_tokens(present())] == [b"renewed"] * 2


def test_tokens_of_the_container_get_the_names_that_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = tmp_path / "container_tokens"
    given.write_bytes(RECORDED)
    monkeypatch.setenv(tokens.LOCATION, str(given))
    tokens.use_at(Address("viewfs://team", (("fs.viewfs.mounttable.team.link./x", "hdfs://localhost:26133/x"),)))
    assert services(present()) == [b"127.0.0.1:26133", b"localhost:26133"]
    assert given.read_bytes() == RECORDED


def test_webhdfs_takes_a_token_as_text_without_its_name_in_the_file() -> None:
    assert tokens.for_http() is None
    tokens.use(RECORDED)
    text = tokens.for_http()
    assert text is not None
    assert base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)) == RECORDED[22:-1]


def test_without_tokens_an_address_changes_nothing() -> None:
    tokens.use_at(Address("hdfs://localhost:26133"))
    assert tokens.LOCATION not in os.environ
