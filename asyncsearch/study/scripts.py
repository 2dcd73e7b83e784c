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

from asyncsearch.errors import AsyncSearchError, UsageError
from asyncsearch.report.live.progress import announced
from asyncsearch.study.study import Study


def trainable_of(place: str) -> tuple[Any, Study | None]:
    """Return the trainable that ``place`` names, and the study defined in the same module."""
    where, _, name = place.rpartition(":") if ":" in place else (place, "", "")
    if not name:
        if not where.endswith(".py"):
            raise UsageError(f"{place!r} names no trainable: write script.py:Class, package.module:Class or script.py.")
        study = study_of_script(where)
        return study.trainable, study
    if where.endswith(".py") or Path(where).exists() or os.sep in where:
        module = _module_of_script(where)
    else:
        sys.path.insert(0, os.getcwd())
        with _words_of_import(where):
            module = importlib.import_module(where)
    if not hasattr(module, name):
        raise UsageError(f"{where!r} has no {name}. Name a class derived from Trainer, or a function of a trial.")
    return getattr(module, name), _study_in(module, where)


def study_of_script(script: str) -> Study:
    """Run a script's top level, as an import does, and return the study that it defines."""
    study = _study_in(_module_of_script(script), script)
    if study is None:
        raise UsageError(f"{script!r} defines neither a Study `study` nor a function make_study() that returns one.")
    return study


def _module_of_script(script: str) -> ModuleType:
    path = Path(script)
    if not path.is_file():
        raise UsageError(f"{script!r} is not a file. Name a Python script.")
    # Prefixed: a script called json.py must not replace the module.
    spec = importlib.util.spec_from_file_location(f"asyncsearch_script_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{script!r} is not a Python script: its name must end in .py.")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.argv = [script]
    with _words_of_import(script), announced(f"running the top level of {script} ..."):
        spec.loader.exec_module(module)
    return module


def _study_in(module: ModuleType, where: str) -> Study | None:
    study = getattr(module, "study", None)
    if not isinstance(study, Study) and callable(getattr(module, "make_study", None)):
        with _words_of_import(where):
            study = module.make_study()
    return study if isinstance(study, Study) else None


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
