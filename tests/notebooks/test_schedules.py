"""The notebook of schedules in a real kernel: what is trained, what is saved, and the tree of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from asyncsearch.study.study import Study
from tests.shares import takes_long

pytest.importorskip("sklearn")
nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

# Not imported from test_first_search, which needs Spark.
NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "02_schedules_trained_once.ipynb"
SAVING = "36 trials, 864 units of training asked for, 396 trained: each unit serves 2.18 trials"


def shown(notebook: object, kind: str) -> list[str]:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]  # type: ignore[attr-defined]
    found = [output.data[kind] for output in outputs if kind in output.get("data", {})]
    printed = [output.text for output in outputs if output.output_type == "stream" and output.name == "stdout"]
    return found + printed


@takes_long  # what it saved is read below; the same search as a script: tests/scripts/test_digits_schedules.py
@pytest.mark.notebook
@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # what starts and talks to the kernel is not ours
def test_notebook_of_schedules_runs_from_top_to_bottom(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=None, kernel_name="python3", resources=place).execute()
    assert any(SAVING in html and "<svg" in html for html in shown(notebook, "text/html"))
    assert shown(notebook, "image/svg+xml"), "a schedule as a picture"
    said = "".join(shown(notebook, "text/plain"))
    assert "864 passes over the digits asked for, 396 trained: 54% saved" in said
    assert float(re.findall(r"unseen digits: ([\d.]+)", said)[0]) > 0.94
    assert len(Study.open(tmp_path / "studies" / "schedules").trials) == 36


def test_saved_notebook_has_five_cells_of_code_and_shows_the_tree() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert len([cell for cell in notebook.cells if cell.cell_type == "code"]) == 5
    assert any(SAVING in html and "<svg" in html for html in shown(notebook, "text/html"))
    assert any("36 configurations tried: 36 trained to the end" in html for html in shown(notebook, "text/html"))
    assert not any(output.output_type == "error" for cell in notebook.cells for output in cell.get("outputs", []))


def test_the_notebook_and_the_script_search_the_same_space() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    script = (NOTEBOOK.parents[1] / "scripts" / "digits_schedules.py").read_text(encoding="utf-8")
    inside = re.compile(r'^ *"lr": choice\($.*?^ *"batch_size":[^\n]*$', re.MULTILINE | re.DOTALL)
    one, other = inside.search(code), inside.search(script)
    assert one is not None
    assert other is not None
    assert one[0].replace("drops", "DROPS") == other[0]
