"""Which rescue files belong to a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncsearch.errors import StoreLostError
from asyncsearch.store.local.store import LocalStore
from asyncsearch.store.rescue import Rescue, rescue_files


@pytest.mark.parametrize("name", ["a*b", "a?b", "a**b", "[ab]", "a[1]b"])
def test_a_store_has_the_rescue_files_of_its_own_name_alone(name: str, tmp_path: Path) -> None:
    for folder in (name, "axb", "a", "a1b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "study.json").write_text("{}")
    for other in ("axb", "a", "a1b"):
        Rescue(tmp_path / other).write()
    assert rescue_files(tmp_path / name) == []
    own = Rescue(tmp_path / name).write()
    assert rescue_files(tmp_path / name) == [own]


@pytest.mark.parametrize("first", ["lock", "journal", "."])
def test_a_folder_that_may_go_is_not_missed_whatever_of_it_goes_first(first: str, tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "store"))
    store.prepare()
    with store.lock():
        segment = store.open_segment()
        segment.append(b"before\n")
        store.let_remove(True)
        (tmp_path / "store" / first).rename(tmp_path / "removed")
        with pytest.raises(StoreLostError) as lost:
            segment.append(b"after\n")
    assert not lost.value.is_missed
    assert rescue_files(tmp_path / "store") == []
