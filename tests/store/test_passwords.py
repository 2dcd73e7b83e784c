"""The password in a store's URL is hidden from people, and from other studies."""

from __future__ import annotations

import pickle
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, GridSearch, Sharing, Study, choice
from asyncsearch.errors import StoreError, StudyNotFoundError
from asyncsearch.ids import CheckpointRef
from asyncsearch.store import open_store
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.store.passwords import lacks_password, without_password
from tests.shared.tools import NODE, plan_at

DAY_S = 86400.0


def train(trial: Any) -> None:
    for epoch in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
        trial.report(loss=epoch)


def make(folder: Path, password: str, **options: Any) -> Study:
    defaults: dict[str, Any] = {
        "store": f"memory://ann:{password}@{folder.name}/studies/{uuid.uuid4().hex}",
        "sharing": Sharing(shared=folder / "plan"),
    }
    return Study(
        train,
        space={"a": choice(1, 2)},
        metric="loss",
        mode="min",
        searcher=GridSearch(),
        scheduler=FIFO(max_resource=2),
        version="v1",
        backend="inline",
        **defaults | options,
    )


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sftp://ann:secret@host:22/studies", "sftp://ann:***@host:22/studies"),
        ("sftp://ann:se@cr:et@host/studies", "sftp://ann:***@host/studies"),
        ("sftp://:secret@host", "sftp://:***@host"),
        ("sftp://ann@host:22/studies", "sftp://ann@host:22/studies"),
        ("hdfs://host:8020/ann:b@c", "hdfs://host:8020/ann:b@c"),
        ("abfs://container@account/studies", "abfs://container@account/studies"),
        ("/mnt/ann:b@c/studies", "/mnt/ann:b@c/studies"),
    ],
)
def test_only_the_password_is_taken_out_of_a_url_and_once(url: str, shown: str) -> None:
    assert without_password(url) == without_password(shown) == shown
    assert lacks_password(shown) == (url != shown)
    assert not lacks_password(url)


def test_a_password_is_in_no_file_of_the_shared_folder_and_never_shown(tmp_path: Path) -> None:
    password, seen = uuid.uuid4().hex, list[str]()
    study = make(tmp_path, password)
    study.run(display="none")
    opened = Study.open(study.store.url)
    for one in (study, opened):
        seen += [repr(one), one.name, one.summary(), one._repr_html_(), repr(one._status())]
    with pytest.raises(StudyNotFoundError) as raised:
        Study.open(f"{study.store.url}/elsewhere")
    seen += [str(raised.value)]
    files = [path for path in (tmp_path / "plan").rglob("*") if path.is_file()]
    names = [str(path.relative_to(tmp_path)) for path in files]
    assert any(name.startswith("plan/holds/") for name in names)
    assert any(name.startswith("plan/parameters/") for name in names)
    assert any(name.startswith("plan/claims/") for name in names)
    seen += names + [path.read_text() for path in files]
    assert [text for text in seen if password in text] == []


def test_a_studys_files_hold_no_secret_of_its_stores_and_it_can_resume(
    tmp_path: Path,
) -> None:
    password, key = uuid.uuid4().hex, uuid.uuid4().hex
    options = {"secret": key, "client_kwargs": {"aws_session_token": key, "endpoint_url": "http://here"}}
    store = FsspecStore(f"memory://ann:{password}@{tmp_path.name}/studies/{uuid.uuid4().hex}", options)
    make(tmp_path, "", store=store, sharing=Sharing()).run(1, display="none")
    for name in store.walk():
        data = store._remote.read(name) or b""
        assert not [one for one in (password, key) if one.encode() in data], name
    again = Study.resume(store.url)
    assert isinstance(again.shared, FsspecStore)
    assert again.shared.url.startswith(f"memory://ann:{password}@{tmp_path.name}/studies/")
    again.run(2, display="none")


def test_a_store_without_its_keys_says_where_they_come_from(tmp_path: Path) -> None:
    named = FsspecStore("memory://ann:secret@host/plan", {"key": "secret", "anon": False})
    kept = pickle.loads(pickle.dumps(named.without_keys()))
    assert (kept.url, kept._remote.options) == ("memory://ann@host/plan", {"anon": False})
    assert kept.with_keys_of(FsspecStore("memory://bob:secret@host/studies")) is kept
    given = kept.with_keys_of(named)
    for store, words in ((kept, "keeps no passwords and keys.*AWS_SECRET_ACCESS_KEY"), (given, "the credentials")):
        with pytest.raises(StoreError, match=words), store._remote.explained("read", "a"):
            raise ConnectionError("403")


def test_what_a_file_system_says_is_passed_on_without_the_password() -> None:
    password = uuid.uuid4().hex
    store = FsspecStore(f"memory://ann:{password}@host/{uuid.uuid4().hex}")
    with pytest.raises(StoreError, match=r"and /ann:\*\*\*@host") as raised, store._remote.explained("look", "a"):
        raise PermissionError(f"{store.url}/a and /ann:{password}@host/a")
    assert password not in str(raised.value)


@pytest.mark.parametrize(
    "place",
    ["file://ann:secret@host/a", "zip::sftp://ann:secret@host/a", "sftp:/ann:secret@host/a", "no://ann:secret@h"],
)
def test_a_place_that_is_refused_is_named_without_its_password(place: str) -> None:
    with pytest.raises(StoreError) as raised:
        open_store(place)
    assert "secret" not in str(raised.value)


def test_a_hold_whose_home_needs_a_password_counts_at_any_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, ref = plan_at(f"{tmp_path}/plan"), CheckpointRef(NODE, 3)
    plan.hold("digits", [ref], home=f"memory://ann:***@{uuid.uuid4().hex}/digits")
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 100 * DAY_S)
    assert plan.holds() == {ref}
