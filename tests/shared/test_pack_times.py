"""How fast packs train is known to later studies of the same code, structure and device, and to no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncsearch.events import PackSeconds, PacksTimed
from asyncsearch.shared.files import SharedFiles
from asyncsearch.shared.pack_times import PackTimes, TimesInFolder, TimesInProcess, code_key
from asyncsearch.store import LocalStore

TIMED = PacksTimed('{"width": 8}', (PackSeconds(1, 0.5), PackSeconds(2, 0.625)), "x86_64 processor", "first", 12)


class Places:
    """Where studies keep times: opened anew for each study, as each does."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._files = SharedFiles(LocalStore(folder))
        self._files.store.prepare()
        self._process = TimesInProcess() if kind == "process" else None

    def of(self, code: str) -> PackTimes:
        return TimesInFolder(self._files, code) if self._process is None else self._process.of_code(code)


@pytest.fixture(params=["folder", "process"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Places:
    return Places(tmp_path, request.param)


def test_times_of_one_study_are_known_to_the_next_of_its_code_and_device(places: Places) -> None:
    assert list(places.of("a").known_on(TIMED.device)) == []
    places.of("a").keep(TIMED)
    assert list(places.of("a").known_on(TIMED.device)) == [TIMED]
    assert list(places.of("a").known_on("NVIDIA H200")) == []
    assert list(places.of("b").known_on(TIMED.device)) == []


def test_each_structure_and_device_has_its_own_times_and_the_last_count(places: Places) -> None:
    wide = PacksTimed('{"width": 64}', (PackSeconds(1, 2.0),), TIMED.device, "first")
    there = PacksTimed(TIMED.group, TIMED.seconds, "NVIDIA H200", "first")
    again = PacksTimed(TIMED.group, (*TIMED.seconds, PackSeconds(4, 0.75)), TIMED.device, "second")
    for one in (TIMED, wide, there, again):
        places.of("a").keep(one)
    found = sorted(places.of("a").known_on(TIMED.device), key=lambda one: one.group)
    assert found == [wide, again]


def test_a_damaged_file_is_no_times(tmp_path: Path) -> None:
    places = Places(tmp_path, "folder")
    places.of("a").keep(TIMED)
    (file,) = (tmp_path / "packs" / "a").iterdir()
    file.write_text("{")
    assert list(places.of("a").known_on(TIMED.device)) == []


def test_the_code_is_the_trainable_with_its_parts_and_the_constants() -> None:
    keys = [
        code_key("Net", {"Net": "1"}, {}),
        code_key("Net", {"Net": "2"}, {}),
        code_key("Other", {"Net": "1"}, {}),
        code_key("Net", {"Net": "1"}, {"width": 8}),
        code_key("Net", {"Net": "1", "helper": "1"}, {}),
    ]
    assert len(set(keys)) == len(keys)
    assert code_key("Net", {}, {"width": 8}) == "", "unknown code is like no other"
