"""The folder of a search that a program of another library begins: the same line of a program that runs again goes on.

A driver that was killed leaves a journal without the end of its run. The program that runs again comes to the same
call, finds that journal by the search's name, and goes on there instead of beginning anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec

from asyncsearch.actions import EndRun
from asyncsearch.events import RunRequested
from asyncsearch.files.paths import plain_part
from asyncsearch.journal.opening import StudyFile, read_records, read_study_file
from asyncsearch.store import open_store
from asyncsearch.study.kept.default_store import DefaultFolder
from asyncsearch.study.kept.definition import Code
from asyncsearch.study.study import Study


class SearchFolder(NamedTuple):
    """The folder of a search."""

    path: str
    goes_on: bool
    """Whether it holds the search already."""


class SearchFolders:
    """The folders of the searches of one library in this process."""

    _begun: ClassVar[Counter[tuple[str, str]]] = Counter()
    """How many searches of a name have begun, in each store."""

    @classmethod
    def next(cls, label: str, store: str | None, function: Any, is_same: Callable[[StudyFile], bool]) -> SearchFolder:
        """Return the folder of the next search of a name.

        Args:
            label: the name.
            store: folder of all searches of the program: the n-th one of a name has its own there, and goes on if it
                is there. None means in ``studies``, a new folder, unless the last one holds the same search, cut off.
            function: what the program trains with. A folder that it has not named goes on with the same source alone:
                two lambdas have one name, and what an edited function finds is not to be mixed with what it found.
            is_same: whether a study is the one that the program describes now.
        """
        if store is not None:
            base = f"{store.rstrip('/')}/{plain_part(label)}"
            cls._begun[base, label] += 1
            number = cls._begun[base, label]
            path = base if number == 1 else f"{base}-{number}"
            return SearchFolder(path, read_study_file(open_store(path)) is not None)
        folders, source = DefaultFolder(label), Code.of(function).fingerprint
        for folder in reversed(folders.folders()):
            place = open_store(folder)
            file = read_study_file(place)
            is_found = file is not None and file.fingerprint == source and is_same(file)
            if is_found and not place.is_locked() and is_cut_off(str(folder)):
                return SearchFolder(str(folder), goes_on=True)
        return SearchFolder(str(folders.claim(folders.choose())), goes_on=False)


def of_program(study: Study, function: Any, name: str, store: str | None) -> None:
    """Let a study speak of a program's own function, and not of what calls it on a worker.

    Then an edit of it is said where the same line goes on with what the former one has found, and an error of it says
    what to write in such a program.
    """
    runnable = study._described("run")
    runnable.code = msgspec.structs.replace(Code.of(function), name=name)
    runnable.advice = "Correct it and run the program again" + (
        "" if store is None else f", with another store= than {store!r}, where failed trials count"
    )


def outlives_failures(search: Study) -> None:
    """Let a search go on whatever fails: what a failure means is the program's to say.

    A trial that is lost before it has begun is given to another worker.
    """
    search.config = msgspec.structs.replace(search.config, ends_on_failures=False)
    runnable = search._described("run")
    runnable.definition = msgspec.structs.replace(runnable.definition, config=search.config)


def numbered_folders(base: str) -> Iterator[str]:
    """Yield the folders below a base, ``1``, ``2`` and so on, that hold a study, up to the first that holds none."""
    number = 1
    while read_study_file(open_store(f"{base}/{number}")) is not None:
        yield f"{base}/{number}"
        number += 1


def is_cut_off(path: str | Path) -> bool:
    """Return whether the last run of a study was killed or interrupted before it was done."""
    cut_off = True
    for record in read_records(open_store(path)):
        cut_off = cut_off or isinstance(record.event, RunRequested)
        for action in record.actions:
            if isinstance(action, EndRun):
                cut_off = not action.is_complete
    return cut_off
