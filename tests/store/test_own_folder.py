"""A study begins in a folder of its own: what others have laid there stays, and nothing is written beside it."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from asyncsearch import Sharing, Study, uniform
from asyncsearch.errors import StoreError
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store
from asyncsearch.store.layout import OWN
from asyncsearch.store.opening import foreign, require_own_folder


def train(trial: Any) -> float:
    return float(trial.params["x"])


def study(store: Any, **options: Any) -> Study:
    return Study(train, space={"x": uniform(0, 1)}, metric="x", mode="max", store=store, backend="inline", **options)


def run(store: Any, **options: Any) -> Study:
    made = study(store, **options)
    made.run(2, display="none")
    return made


@pytest.fixture(params=["local", "file", "memory"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A folder with another program's checkpoints, which are laid out as those of a store."""
    url = {
        "local": f"{tmp_path}/results",
        "file": f"{tmp_path}/results",
        "memory": f"memory://{uuid.uuid4().hex}/results",
    }[request.param]
    from asyncsearch.store.far.store import FsspecStore

    store: Store = open_store(url) if request.param != "file" else FsspecStore(f"file://{url}")
    store.write("checkpoints/run1/100/model.pt", b"theirs")
    store.remove_tree("journal")
    for name in ("snapshots", "logs"):
        store.remove_tree(name)
    return store


def files(store: Store) -> dict[str, int]:
    return {name: file.size_bytes for name, file in store.walk().items()}


def test_another_programs_checkpoints_are_refused_before_any_write(home: Store) -> None:
    before = files(home)
    with pytest.raises(StoreError, match=r"holds no study and is not empty: 'checkpoints'.*results/train'\.$"):
        run(home)
    assert files(home) == before == {"checkpoints/run1/100/model.pt": 6}


def test_an_evaluation_is_refused_there_too(home: Store) -> None:
    before = files(home)
    with pytest.raises(StoreError, match="holds no study and is not empty"):
        study(home).evaluate({"x": 0.5}, 1)
    assert files(home) == before


def test_a_study_begins_in_the_folder_that_the_message_names(tmp_path: Path) -> None:
    for name in ("data.csv", "notes.txt", "train", "report.html", "old.bin"):
        (tmp_path / name).touch()
    with pytest.raises(StoreError, match=r"'data\.csv', 'notes\.txt', 'old\.bin' and 2 more") as error:
        run(tmp_path)
    proposed = str(error.value).rpartition("store='")[2].removesuffix("'.")
    assert proposed == f"{tmp_path}/train-2"
    assert len(run(proposed).trials) == 2


def test_a_trainable_without_a_plain_name_gets_one(tmp_path: Path) -> None:
    (tmp_path / "data.csv").touch()
    with pytest.raises(StoreError, match=r"write store='.*/study'\.$"):
        require_own_folder(open_store(tmp_path), "make.<locals>.<lambda>")


def test_a_home_folder_of_hidden_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".bashrc").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(StoreError, match=r"'\.bashrc'"):
        run("~")


@pytest.mark.parametrize("is_sharing", [False, True])
def test_a_study_with_files_of_others_beside_it_goes_on(tmp_path: Path, is_sharing: bool) -> None:
    options = {"version": "1"} if is_sharing else {}
    run(tmp_path / "s", **options)
    (tmp_path / "s" / "notes.txt").touch()
    again = study(tmp_path / "s", resume=True, **options)
    again.run(3, display="none")
    assert len(again.trials) == 3
    (tmp_path / "s" / "study.json").unlink()
    once_more = study(tmp_path / "s", resume=True, **options)
    once_more.run(4, display="none")
    assert len(once_more.trials) == 4


@pytest.mark.parametrize("left", [[], [".DS_Store", ".gitignore", ".nfs000123"], [*OWN]])
def test_an_empty_folder_and_one_with_a_cut_off_start_become_a_store(tmp_path: Path, left: list[str]) -> None:
    for name in left:
        if "." in name or name == "lock":
            (tmp_path / name).touch()
        else:
            (tmp_path / name).mkdir()
    (tmp_path / "study.json").unlink(missing_ok=True)
    for name in ("bundle.bin", "head.json", "warm_start.json"):
        (tmp_path / name).unlink(missing_ok=True)
    assert len(run(tmp_path).trials) == 2


@pytest.mark.parametrize(
    ("names", "others"),
    [
        ([], []),
        (OWN, []),
        (["tmp", "lock", "bundle.bin"], []),
        (["checkpoints", "logs"], ["checkpoints"]),
        (["journal", "checkpoints"], []),
        (["journal", "b", "a"], ["a", "b"]),
        ([".git"], [".git"]),
    ],
)
def test_names_that_no_store_makes_are_foreign(names: list[str], others: list[str]) -> None:
    assert foreign(names) == others


def test_a_folder_of_checkpoints_of_another_program_is_not_shared(home: Store, tmp_path: Path) -> None:
    before = files(home)
    with pytest.raises(StoreError, match="has a folder 'checkpoints' that is not of asyncsearch"):
        run(tmp_path / "s", version="1", sharing=Sharing(shared=home.url))
    assert files(home) == before
    assert not (tmp_path / "s").exists()


def test_a_shared_folder_takes_a_second_study(tmp_path: Path) -> None:
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan" / "notes.txt").touch()
    for name in ("a", "b"):
        assert len(run(tmp_path / name, version="1").trials) == 2
    assert (tmp_path / "plan" / "shared.json").exists()


@pytest.fixture(autouse=True)
def no_memory_is_left() -> Any:
    yield
    MemoryFileSystem.store.clear()
