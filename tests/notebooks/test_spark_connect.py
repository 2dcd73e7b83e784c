"""The notebook of Spark Connect in a real kernel, with a server of its own."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from asyncsearch.study.study import Study
from tests.notebooks.kernel import printed
from tests.shares import takes_long

pytest.importorskip("grpc_status")
pytest.importorskip("sklearn")
nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "03_spark_connect.ipynb"
_SERVER = ("spark.ui.enabled=false", "spark.log.level=ERROR", "spark.connect.grpc.binding.address=127.0.0.1")


@takes_long  # searches by Connect without a kernel: tests/spark/test_connect.py
@pytest.mark.notebook
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # what starts and talks to the kernel is not ours
def test_notebook_of_connect_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = [part for setting in _SERVER for part in ("--conf", setting)]
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", shlex.join([*options, "pyspark-shell"]))
    monkeypatch.setenv("SPARK_TESTING", "1")  # any free port
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=None, kernel_name="python3", resources=place).execute()
    said = printed(notebook)
    assert "pyspark.sql.connect.session" in said
    assert "epoch 1: loss " in said, "lines that trials printed on their workers"
    assert "\n3\n" in said, "the session is still there"
    study = Study.open(tmp_path / "studies" / "connect")
    assert len(study.trials) == 9
    assert (study.best_trial.value or 0.0) > 0.9


def test_saved_notebook_of_connect_shows_a_search_without_errors() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("9 configurations tried" in output.get("data", {}).get("text/html", "") for output in outputs)
    assert not any(output.output_type == "error" for output in outputs)
    assert NOTEBOOK.stat().st_size < 96_000
