"""The place of a study whose store was not named: a folder of its own, called after the script and the study."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import ClassVar

from asyncsearch.files.paths import plain_part, working_folder
from asyncsearch.journal.opening import StudyFile, read_study_file
from asyncsearch.store import open_store

HOME = Path("studies")


class DefaultFolder:
    """The folders that this script's studies of one name have had, and the next one."""

    _chosen: ClassVar[set[Path]] = set()
    """Folders of studies of this process that have not run yet, whatever their names."""

    def __init__(self, name: str) -> None:
        self._name = name
        script = script_name()
        self._base = plain_part(name if script in ("", name) else f"{script}-{name}")

    def last(self) -> Path | None:
        """Return the folder of the newest study; None if there is none yet.

        A study that an earlier version made lies in a folder without the script's name.
        """
        found = [(self._study_in(folder), folder) for folder in self._taken()]
        ours = [(file.created_s, folder) for file, folder in found if file is not None]
        if not ours and self._study_in(earlier := HOME / plain_part(self._name)) is not None:
            return earlier
        return max(ours)[1] if ours else None

    def choose(self) -> Path:
        """Return a folder that no study has, nor another study of this process will have."""
        working_folder()
        number = 1
        while (folder := self._numbered(number)).absolute() in self._chosen or folder.exists():
            number += 1
        self._chosen.add(folder.absolute())
        return folder

    def claim(self, folder: Path) -> Path:
        """Make a chosen folder, or the next one if another process has made it meanwhile, and return it."""
        while True:
            try:
                folder.parent.mkdir(parents=True, exist_ok=True)
                folder.mkdir()
            except FileExistsError:
                folder = self.choose()
            except OSError:  # the store says what is wrong with its place
                return folder
            else:
                return folder

    def folders(self) -> list[Path]:
        """Return the folders of this name that are there, whatever they hold, the oldest first."""
        return sorted(self._taken(), key=lambda folder: folder.stat().st_mtime)

    def _numbered(self, number: int) -> Path:
        return HOME / (self._base if number == 1 else f"{self._base}-{number}")

    def _taken(self) -> list[Path]:
        shape = re.compile(re.escape(self._base) + r"(-\d+)?")
        return [folder for folder in HOME.glob("*") if shape.fullmatch(folder.name)]

    def _study_in(self, folder: Path) -> StudyFile | None:
        file = read_study_file(open_store(folder)) if (folder / "study.json").exists() else None
        return file if file is not None and file.name == self._name else None


def script_name() -> str:
    """Return the name of the script or notebook that runs, without its ending; empty if it is typed in."""
    main = sys.modules.get("__main__")
    given = getattr(main, "__file__", None) or getattr(main, "__vsc_ipynb_file__", None)
    path = Path(given or os.environ.get("JPY_SESSION_NAME") or "")
    return path.parent.name if path.stem == "__main__" else path.stem
