"""What a real kernel shows of a study: its table once in a cell, whatever the cell ends with."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

pytestmark = [
    pytest.mark.notebook,
    pytest.mark.filterwarnings("default"),  # what starts and talks to the kernel is not ours
]

SETUP = """
from asyncsearch import FIFO, Study, uniform

def train(trial):
    trial.report(loss=trial.params["x"], accuracy=0.5)

def study_named(name):
    return Study(train, space={"x": uniform(0, 1)}, metric="loss", mode="min", store=name, backend="inline")

study, other = study_named("a"), study_named("b")
"""
COMPLETING = """
import json, warnings
warnings.simplefilter("ignore")
from IPython import get_ipython
best, context = study.best_trial, []
answers = {}
for name in ("study", "best"):
    found = {one.text for one in get_ipython().Completer.completions(f"{name}.", len(name) + 1)}
    answers[name] = sorted(one.strip(".").removeprefix(f"{name}.") for one in found)
missing = [f"{name}.{one}" for name in answers for one in answers[name] if not hasattr(globals()[name], one)]
has = {"metrics": "metrics" in answers["best"], "best": "best_trial" in answers["study"]}
print(json.dumps({"missing": missing, **has}))
"""
CELLS: dict[str, list[str]] = {
    "study.run(num_trials=2)": ["a"],
    "study": ["a"],
    "study.run(num_trials=3)\nstudy": ["a"],
    "found = study.run(num_trials=4)": ["a"],
    "found": ["a"],
    "study.run(num_trials=5, display='none')": ["a"],
    "study.run(num_trials=6, display='plain')": [],
    "study.run(num_trials=7)\nother.run(num_trials=2)": ["a", "b"],
    "study.run(num_trials=8).best_trial.name": ["a"],
    "from IPython.display import display\nother.run(num_trials=3)\ndisplay(study)": ["b", "a"],
    "Study.open('a')": ["a"],
}
"""Cells, and of which studies each shows the table."""


def tables(cell: Any) -> list[str]:
    """Return the names of the studies whose table is among the outputs of a cell."""
    pages = [output.data.get("text/html", "") for output in cell.outputs if "data" in output]
    names = [page.partition('font-weight:600">')[2].partition(":")[0] for page in pages if "<table" in page]
    return list(itertools.chain(names))


def test_each_cell_shows_a_studys_table_once_and_completes_it(tmp_path: Path) -> None:
    cells = [SETUP, *CELLS, COMPLETING]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=None, kernel_name="python3", resources=place).execute()
    shown = {cell.source: tables(cell) for cell in notebook.cells[1:-1]}
    assert shown == CELLS
    texts = {
        cell.source: [output.get("data", {}).get("text/plain", "") for output in cell.outputs]
        for cell in notebook.cells
    }
    assert any("trial-" in text for text in texts["study.run(num_trials=8).best_trial.name"]), (
        "results are shown as ever"
    )
    completed = json.loads(notebook.cells[-1].outputs[0].text)
    assert completed == {"missing": [], "metrics": True, "best": True}, "completion offers what there is"
    assert "accuracy" in notebook.cells[2].outputs[0].data["text/html"]
