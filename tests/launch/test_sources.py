"""A traceback of a worker shows the lines of the code that failed, whatever lies on that machine's disk."""

from __future__ import annotations

import linecache
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import Study, uniform
from asyncsearch.launch import bundle as bundles
from asyncsearch.launch.bundle import Bundle, pack, with_sources
from asyncsearch.old_pickles import loads

LINE = "raise ValueError('of the first version')"
SCRIPT = f"""\
from asyncsearch import Study, uniform

def train(trial):
    {LINE}

if __name__ == "__main__":
    Study(train, space={{"x": uniform(0.0, 1.0)}}, metric="loss", mode="min", store="s", backend="processes").run(
        1, parallelism=1, display="none")
"""


def failure_of(folder: Path) -> str:
    return Study.open(folder / "s").trials[0].reason


def test_resumed_code_fails_with_its_own_lines_after_the_script_changed(tmp_path: Path) -> None:
    script = tmp_path / "search.py"
    script.write_text(SCRIPT)
    first = subprocess.run([sys.executable, "search.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert LINE in first.stderr, "the traceback of the only trial ends the search"
    script.write_text("\n".join(f"# another line {number}" for number in range(40)))
    resumed = f"from asyncsearch import Study; Study.resume({str(tmp_path / 's')!r}).run(2, display='none')"
    again = subprocess.run([sys.executable, "-c", resumed], capture_output=True, text=True, check=False)
    assert LINE in again.stderr
    assert "another line" not in again.stderr


def test_cells_of_a_notebook_are_shown_by_workers(tmp_path: Path) -> None:
    # IPython keeps each cell as a file that is nowhere but in linecache.
    cell, name = "def train(trial):\n    raise KeyError('in a cell')\n", "<ipython-input-1-0123>"
    linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
    space: dict[str, Any] = {}
    exec(compile(cell, name, "exec"), space)
    study = Study(
        space["train"], space={"x": uniform(0, 1)}, metric="loss", mode="min", store=tmp_path / "s", backend="processes"
    )
    with pytest.raises(Exception, match="in a cell") as caught:
        study.run(1, parallelism=1, display="none")
    assert "raise KeyError('in a cell')" in str(caught.value)


def test_only_the_users_files_travel(tmp_path: Path) -> None:
    import json

    bundle = pack(lambda trial: json.dumps(Study))
    assert with_sources(bundle) != bundle.data
    installed = Bundle(b"", (), files=frozenset({json.__file__, bundles.__file__, "<s>", str(tmp_path / "gone")}))
    data = with_sources(installed)
    assert json.__file__.encode() not in data
    assert bundles.__file__.encode() not in data


def test_files_beside_the_package_travel_whatever_their_folder_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "_PACKAGE", bundles._PACKAGE.replace(bundles._PACKAGE.rstrip("/"), f"{tmp_path}/ours"))
    (tmp_path / "ours_studies").mkdir()
    file = tmp_path / "ours_studies" / "search.py"
    file.write_text("1\n")
    assert b"search.py" in with_sources(Bundle(pack(train).data, (), files=frozenset({str(file)})))


def test_files_beyond_the_limit_are_left_out_the_largest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = tmp_path / "small.py", tmp_path / "large.py"
    small.write_text("1\n")
    large.write_text("2\n" * 1000)
    monkeypatch.setattr(bundles, "MAX_CHARS", 1000)
    found = with_sources(Bundle(pack(len).data, (), files=frozenset({str(small), str(large)})))
    assert b"small.py" in found
    assert b"large.py" not in found
    assert loads(found)([1]) == 1


def train(trial: Any) -> Any:
    return trial + 1
