"""Studies side by side in cells of a real kernel: what is printed and trained, and a cell that is interrupted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebooks.kernel import Kernel
from tests.system.test_several import wait_until

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

pytestmark = [
    pytest.mark.notebook,
    pytest.mark.slow,
    # What starts and talks to the kernel is not ours.
    pytest.mark.filterwarnings("default"),
]

SETUP = """
import time
from pathlib import Path
from asyncsearch import FIFO, GridSearch, Study, WorkerOptions, choice, run_together
from asyncsearch.sequences import multistep

here = Path.cwd()

def train(trial):
    done = []
    save = lambda path: path.write_text(str(len(done)))
    load = lambda path: done.extend(range(int(path.read_text())))
    for epoch in trial.epochs(save=save, load=load):
        if (here / "hold").exists():
            (here / "held").touch()
        while (here / "hold").exists():
            time.sleep(0.01)
        done.append(epoch)
        assert len(done) == epoch
        with (here / "units").open("a") as file:
            file.write(f"{epoch}\\n")
        trial.report(loss=trial.params["lr"] / epoch)

def study(name, *milestones):
    space = {"lr": multistep(0.1, milestones=choice(*milestones))}
    return Study(train, space=space, metric="loss", mode="min", searcher=GridSearch(), scheduler=FIFO(max_resource=6),
                 version="v1", store=f"studies/{name}", backend="processes", resume=True,
                 workers=WorkerOptions(stop_grace=0.5))

one, other = study("one", [4], [5]), study("other", [5], [4])
"""
RUN = "run_together([one, other], parallelism=2);"
UNITS = 6 + 2
"""Of one course all, and of the other one what comes after their ways have parted."""
VALUES = "[[trial.value for trial in study.trials] for study in (one, other)]"
LOSSES = [[0.01 / 6, 0.01 / 6], [0.01 / 6, 0.01 / 6]]


def units(folder: Path) -> int:
    return len((folder / "units").read_text().splitlines())


def test_studies_run_together_in_a_cell_which_prints_the_lines_of_both(tmp_path: Path) -> None:
    cells = [SETUP, RUN, f"print({VALUES})", "one.tree()"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=None, kernel_name="python3", resources=place).execute()
    _, ran, told, drawn = notebook.cells
    lines = "".join(output.text for output in ran.outputs).splitlines()
    assert {line.partition(":")[0] for line in lines} - {"note"} == {"one", "other"}
    assert all(
        any(line.startswith(f"{name}: ") and "2 trained to the end | best loss" in line for line in lines)
        for name in ("one", "other")
    )
    assert told.outputs[0].text.strip() == str(LOSSES)
    assert units(tmp_path) == UNITS
    assert "<svg" in drawn.outputs[0].data["text/html"]


def test_interrupting_the_cell_ends_both_studies_and_the_next_cell_goes_on(kernel: Kernel, tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    assert kernel.end(kernel.begin(SETUP))["status"] == "ok"
    request = kernel.begin(RUN)
    wait_until((tmp_path / "held").exists)
    kernel.manager.interrupt_kernel()
    answer = kernel.end(request)
    assert (answer["status"], answer["ename"]) == ("error", "KeyboardInterrupt")
    assert not (tmp_path / "units").exists()
    hold.unlink()
    assert kernel.end(kernel.begin(RUN))["status"] == "ok"
    assert kernel.value(VALUES) == LOSSES
    assert units(tmp_path) == UNITS
