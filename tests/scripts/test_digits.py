"""The digits searches: what is paused trains on as if it never had been, and the commands of the README work."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from asyncsearch.cli import main
from asyncsearch.randomness import generator
from asyncsearch.runner.standalone import StandaloneTrial
from asyncsearch.space import Space
from asyncsearch.trainable import as_function
from tests.scripts.tools import SCRIPTS, imported
from tests.shares import seeds, takes_long

pytest.importorskip("sklearn")


def params_of(module: ModuleType, number: int) -> dict[str, Any]:
    return Space(module.SPACE).sample(generator(0, "test", number))


@pytest.mark.parametrize("number", seeds(3))
def test_a_paused_digit_reader_trains_on_bit_by_bit(number: int, tmp_path: Path) -> None:
    script = imported("digits_search")
    train, params = as_function(script.DigitReader), params_of(script, number)
    whole = StandaloneTrial(params, max_resource=3, seed=5, folder=tmp_path / "whole")
    first = StandaloneTrial(params, max_resource=1, seed=5, folder=tmp_path / "parts")
    train(whole)
    train(first)
    second = StandaloneTrial(params, max_resource=3, seed=5, folder=tmp_path / "parts")
    train(second)
    assert whole.reports == first.reports + second.reports
    one, other = (script.joblib.load(tmp_path / name / "3" / "checkpoint") for name in ("whole", "parts"))
    for layer, same in zip(one.coefs_ + one.intercepts_, other.coefs_ + other.intercepts_, strict=True):
        assert np.array_equal(layer, same)


def test_a_paused_torch_network_trains_on_bit_by_bit(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    script = imported("digits_torch")
    torch.set_num_threads(1)  # as a runner does; on a busy machine several threads wait for each other for minutes
    params = params_of(script, 0)
    whole = StandaloneTrial(params, max_resource=3, seed=5, folder=tmp_path / "whole")
    first = StandaloneTrial(params, max_resource=1, seed=5, folder=tmp_path / "parts")
    script.train(whole)
    script.train(first)
    torch.rand(7)
    second = StandaloneTrial(params, max_resource=3, seed=5, folder=tmp_path / "parts")
    script.train(second)
    assert whole.reports == first.reports + second.reports
    one, other = (torch.load(tmp_path / name / "3" / "checkpoint")["network"] for name in ("whole", "parts"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_no_trial_sees_the_test_digits() -> None:
    script = imported("digits_search")
    test_images = {image.tobytes() for image in script.split_digits()[2][0]}
    training, validation = script.load_data()
    seen = {image.tobytes() for image in np.concatenate([training[0], validation[0]])}
    assert len(test_images) == 360
    assert not test_images & seen


def test_the_search_has_six_parameters_one_conditional_and_four_rungs() -> None:
    study = imported("digits_search").make_study()
    assert len(study.space.parameters) >= 6
    assert any(domain.conditions for domain in study.space.parameters.values())
    assert study.scheduler.levels == (1, 3, 9, 27)


@pytest.mark.parametrize("name", ["digits_search", "digits_torch"])
def test_both_scripts_can_be_previewed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preview", str(SCRIPTS / f"{name}.py"), "--num-trials", "64"]) == 0
    assert "89% less than training all 64" in capsys.readouterr().out


STARTING = "starting java and spark on this machine, which takes about 10 seconds"


@pytest.mark.parametrize("name", ["digits_search", "digits_schedules"])
def test_what_is_being_started_is_said_before_java_starts(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(ImportError):
        imported(name).start_spark()
    assert STARTING in capsys.readouterr().out.lower()


def test_the_notebooks_first_cell_says_what_starts_before_java_does() -> None:
    cells = json.loads((SCRIPTS.parent / "notebooks" / "01_first_search.ipynb").read_text(encoding="utf-8"))["cells"]
    code = next("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert 0 < code.lower().index(STARTING) < code.index("getOrCreate")


def run(*command: str, cwd: Path, **environment: str) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_same_command_again_goes_on_where_the_study_stands(tmp_path: Path) -> None:
    script = str(SCRIPTS / "digits_search.py")
    command = [sys.executable, script, "--backend", "processes", "--parallelism", "1", "--store", "study", "--trials"]
    first, second = run(*command, "2", cwd=tmp_path), run(*command, "3", cwd=tmp_path)
    assert re.search(r"accuracy on 360 digits that no trial saw: 0\.[89]\d+", first)
    assert "  2 configurations tried: " in first
    assert "  3 configurations tried: " in second
    assert len(list((tmp_path / "study" / "journal").iterdir())) == 2


@takes_long
@pytest.mark.spark
@pytest.mark.slow
def test_the_search_runs_under_spark_submit(tmp_path: Path) -> None:
    pyspark = pytest.importorskip("pyspark")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [str(submit), "--master", "local[2]", str(SCRIPTS / "digits_search.py"), "--trials", "3"]
    out = run(*command, "--store", "study", cwd=tmp_path, PYSPARK_PYTHON=sys.executable, PYTHONPATH=str(SCRIPTS.parent))
    assert "accuracy on 360 digits that no trial saw: 0." in out
