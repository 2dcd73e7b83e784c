"""Errors that are sentences are shown without a traceback where nobody catches them; bugs and users' errors are not."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import asyncsearch
from asyncsearch import Study, uniform
from asyncsearch.errors import AsyncSearchError, InternalError, StoreError, UsageError
from asyncsearch.sentences import in_sentences, words_of

SCRIPT = """\
import asyncsearch
from asyncsearch import errors
from asyncsearch.sentences import in_sentences

@in_sentences()
def call():
    try:
        raise OSError("the disk is full")
    except OSError as error:
        raise {error} from error

call()
"""


def shown(error: str, folder: Path) -> str:
    """Run a script in which an error is raised and not caught; return what it writes to standard error."""
    (folder / "search.py").write_text(SCRIPT.format(error=error))
    done = subprocess.run([sys.executable, "search.py"], cwd=folder, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize("kind", ["StoreError", "StoreLockedError", "WorkersLostError", "UsageError"])
def test_an_error_that_is_a_sentence_is_shown_as_one_with_the_users_line(kind: str, tmp_path: Path) -> None:
    text = shown(f"errors.{kind}('mend the store')", tmp_path)
    assert text.splitlines()[0] == f"{kind}: mend the store"
    assert "Traceback" not in text
    assert "disk is full" not in text
    assert 'search.py", line ' in text.splitlines()[1]
    assert len(text.splitlines()) == 2


@pytest.mark.parametrize(
    "line",
    [
        "loguniform(1, 1e-4)",
        "ASHA(max_t=9)",
        "ASHA(max_resource=0)",
        "StandaloneTrial()",
        "Study.open('nowhere').best_trial",
        "what_if(Study.open('nowhere'))",
    ],
)
def test_a_mistake_at_the_top_of_a_script_is_two_lines(line: str, tmp_path: Path) -> None:
    (tmp_path / "search.py").write_text(f"from asyncsearch import *\n{line}\n")
    done = subprocess.run([sys.executable, "search.py"], cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f'at "{tmp_path}/search.py", line 2: {line}'
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("error", ["errors.InternalError('ours')", "ValueError('of the user')"])
def test_a_bug_keeps_its_traceback(error: str, tmp_path: Path) -> None:
    text = shown(error, tmp_path)
    assert "Traceback (most recent call last)" in text
    assert "disk is full" in text


def test_refused_arguments_of_a_study_are_shown_as_a_sentence_in_notebooks() -> None:
    with pytest.raises(UsageError) as caught:
        Study(lambda trial: None, space={"x": uniform(0, 1)}, metric="loss", mode="sideways")
    lines = caught.value._render_traceback_()  # type: ignore[attr-defined]  # what IPython calls
    assert lines[0].startswith("UsageError: mode='sideways' is not a direction")
    assert "test_sentences.py" in lines[1]


def test_notes_are_shown_below_the_sentence() -> None:
    error = StoreError("it is full")
    error.add_note("This happened in the study 'digits'.")
    assert words_of(error) == ["StoreError: it is full", "This happened in the study 'digits'."]


def test_no_error_is_changed_for_those_who_catch_it() -> None:
    for error in (StoreError("full"), InternalError("ours")):
        with pytest.raises(AsyncSearchError) as caught, in_sentences():
            raise error
        assert caught.value is error
        assert hasattr(error, "_render_traceback_") == isinstance(error, StoreError)


def test_a_script_in_a_folder_whose_name_begins_as_ours_is_the_users(tmp_path: Path) -> None:
    code = Path(asyncsearch.__file__).parent
    (tmp_path / "asyncsearch").symlink_to(code)
    folder = tmp_path / "asyncsearch_studies"
    folder.mkdir()
    (folder / "search.py").write_text(
        f"import sys\nsys.path[:0] = [{str(tmp_path)!r}]\nfrom asyncsearch import *\nloguniform(1, 1e-4)\n"
    )
    command = [sys.executable, "search.py"]
    done = subprocess.run(command, cwd=folder, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr.splitlines()[-1] == f'at "{folder}/search.py", line 4: loguniform(1, 1e-4)'


def test_an_error_in_words_goes_to_another_process_in_the_same_words() -> None:
    with pytest.raises(UsageError) as caught, in_sentences():
        raise UsageError("write it otherwise")
    there = pickle.loads(pickle.dumps(caught.value))
    assert (type(there), str(there)) == (UsageError, "write it otherwise")
    assert there._render_traceback_() == ["UsageError: write it otherwise"]
