"""Which rescue files belong to a store."""

from __future__ import annotations

from pathlib import Path

import pytest

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
