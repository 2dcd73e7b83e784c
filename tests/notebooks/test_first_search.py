"""The first notebook in a real kernel on a local Spark session, and a cell that is interrupted in mid-run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.notebooks.kernel import Kernel, printed

pytest.importorskip("pyspark")
pytest.importorskip("sklearn")
nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "01_first_search.ipynb"
LINE = re.compile(r"^trial-\d+  \d\d:\d\d:\d\d  epoch \d+: loss ", re.MULTILINE)

pytestmark = [
    pytest.mark.notebook,
    pytest.mark.spark,
    pytest.mark.slow,
    # What starts and talks to the kernel is not ours.
    pytest.mark.filterwarnings("default"),
]


def shown(notebook: Any, kind: str) -> list[str]:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output.data[kind] for output in outputs if kind in output.get("data", {})]


def test_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=None, kernel_name="python3", resources=place).execute()
    tables = [page for page in shown(notebook, "text/html") if "<table" in page]
    assert len(tables) == 1, "one table, updated in place"
    assert "12 configurations" in tables[0]
    assert LINE.search(printed(notebook)), "lines that trials printed on their workers"
    assert float(re.findall(r"unseen digits: ([\d.]+)", printed(notebook))[0]) > 0.94
    assert shown(notebook, "image/svg+xml")
    assert (tmp_path / "studies" / "first-search" / "study.json").is_file()


def test_saved_notebook_shows_table_and_trial_lines_in_present_words() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    (table,) = [page for page in shown(notebook, "text/html") if "<table" in page]
    assert re.search(r"12 configurations tried: \d+ stopped early, \d+ trained to the end", table)
    assert "finished in" in table
    assert NOTEBOOK.stat().st_size < 96_000
    assert LINE.search(printed(notebook))
    assert not any(output.output_type == "error" for cell in notebook.cells for output in cell.get("outputs", []))


SETUP = """
import time
from pyspark.sql import SparkSession
from asyncsearch import Study, uniform
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()

def jobs_left():
    deadline = time.monotonic() + 60
    while (left := list(spark.sparkContext.statusTracker().getActiveJobsIds())) and time.monotonic() < deadline:
        time.sleep(0.02)  # Spark learns of an end by a bus of events
    return left

def endless(trial):
    while True:
        time.sleep(0.02)
        trial.report(loss=trial.params["x"])

study = Study(endless, space={"x": uniform(0, 1)}, metric="loss", mode="min", store="study")
"""


def test_interrupting_the_cell_keeps_the_results_and_leaves_no_spark_job(kernel: Kernel) -> None:
    assert kernel.end(kernel.begin(SETUP))["status"] == "ok"
    request = kernel.begin("study.run(num_trials=2, parallelism=2)")
    kernel.await_output("2 running")
    kernel.await_output("best loss")
    kernel.manager.interrupt_kernel()
    answer = kernel.end(request)
    assert (answer["status"], answer["ename"]) == ("error", "KeyboardInterrupt")
    assert kernel.value("any(trial.resource > 0 for trial in study.trials)"), "what was shown is kept"
    assert kernel.value("[trial.state.value for trial in study.trials]") == ["WAITING", "WAITING"]
    assert kernel.value("jobs_left()") == []
    assert kernel.value("spark.range(3).count()") == 3, "the session that it joined is still there"
