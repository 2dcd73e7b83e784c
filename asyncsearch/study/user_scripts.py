"""Imports a script or a module of the user's, and finds the study or the trainable that it defines."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from asyncsearch.checking.resume_proof import SCRIPT_PREFIX
from asyncsearch.errors import AsyncSearchError, UsageError
from asyncsearch.files.paths import working_folder
from asyncsearch.files.plain import read_text
from asyncsearch.report.live.display import announced
from asyncsearch.study.script_runs import ScriptRun, read_only
from asyncsearch.study.study import Study


def trainable_of(place: str) -> tuple[Any, Study | None]:
    """Return the trainable that ``place`` names, and the study defined in the same module."""
    where, _, name = place.rpartition(":") if ":" in place else (place, "", "")
    if not name:
        if not where.endswith(".py"):
            raise UsageError(f"{place!r} names no trainable: write script.py:Class, package.module:Class or script.py.")
        study, _ = study_of_script(where)
        return study.trainable, study
    if where.endswith(".py") or Path(where).exists() or os.sep in where:
        module, _ = _module_of_script(where)
    else:
        sys.path.insert(0, working_folder())
        with _words_of_import(where):
            module = importlib.import_module(where)
    if not hasattr(module, name):
        raise UsageError(f"{where!r} has no {name}. Name a class derived from Trainer, or a function of a trial.")
    return getattr(module, name), _study_in(module, where)


def study_of_script(script: str, *, to_run: bool = False) -> tuple[Study, ScriptRun]:
    """Run a script's top level, as an import does, up to its search, and return the study that it defines.

    Args:
        script: path of the script.
        to_run: whether the run of that study is wanted too, which usually stands under ``__main__``.
    """
    module, run = _module_of_script(script)
    study: Study | None = run.study or _study_in(module, script)
    is_guarded = "__main__" in read_text(script, errors="replace")
    if is_guarded and (study is None or (to_run and run.study is None)):
        # What stands under `if __name__ == "__main__":` is reached as the script itself would reach it.
        try:
            module, run = _module_of_script(script, name="__main__")
        except UsageError:
            if study is None:
                raise
        else:
            study = run.study or _study_in(module, script)
    if study is None:
        raise UsageError(
            f"{script!r} makes no study: write `study = Study(...)` there, or a function make_study() that returns "
            f"one; for `check`, its trainable is enough: asyncsearch check {script}:train --params '{{\"lr\": 0.1}}'."
        )
    return study, run


def _module_of_script(script: str, name: str = "") -> tuple[ModuleType, ScriptRun]:
    """Run a script up to its search; ``name``: that of its module, if it is not to be one that is imported."""
    path = Path(script)
    if not path.is_file():
        raise UsageError(f"{script!r} is not a file. Name a Python script.")
    spec = importlib.util.spec_from_file_location(name or f"{SCRIPT_PREFIX}{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{script!r} is not a Python script: its name must end in .py.")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.argv = [script]
    words = f"running the top level of {script} up to its search ..."
    with _words_of_import(script), announced(words), read_only() as run:
        spec.loader.exec_module(module)
    return module, run


def _study_in(module: ModuleType, where: str) -> Study | None:
    """Return the variable ``study``, else what ``make_study()`` returns, else the only study there is."""
    study = getattr(module, "study", None)
    if not isinstance(study, Study) and callable(getattr(module, "make_study", None)):
        with _words_of_import(where):
            study = module.make_study()
    if isinstance(study, Study):
        return study
    studies = {name: value for name, value in vars(module).items() if isinstance(value, Study)}
    if len(studies) > 1:
        raise UsageError(f"{where!r} makes {' and '.join(studies)}: call the one to look at `study`.")
    return next(iter(studies.values()), None)


@contextlib.contextmanager
def _words_of_import(where: str) -> Iterator[None]:
    try:
        yield
    except AsyncSearchError:
        raise
    except (Exception, SystemExit) as error:
        words = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"{where!r} cannot be imported: {words}. Put the code that starts a run under if __name__ == '__main__'."
        ) from error
