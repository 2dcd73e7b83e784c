"""Commands on studies with names that the encoding of the terminal or of file names lacks."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest

from asyncsearch import choice, cli, uniform
from asyncsearch.study.study import Study
from asyncsearch.trainable import TrialContext


@pytest.fixture(scope="module")
def chinese_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A study in which everything that a user can name has a name that no 8-bit encoding has."""
    place = tmp_path_factory.mktemp("名") / "研究"

    def train(trial: TrialContext) -> None:
        sys.stdout.write("损失 \U0001f600\n")
        trial.report(损失=trial.params["学习率"], loss=1.0)

    space = {"学习率": uniform(0, 1), "é": choice("ü", "\U0001f600")}
    study = Study(train, space=space, metric="损失", mode="min", store=place, backend="inline")
    study.run(num_trials=2, display="none")
    return str(place)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
@pytest.mark.parametrize(
    "command",
    [
        ["show", "STORE"],
        ["trials", "STORE"],
        ["trials", "STORE", "--format", "csv"],
        ["trials", "STORE", "--format", "json"],
        ["explain", "STORE", "0"],
        ["logs", "STORE", "0"],
        ["tree", "STORE"],
        ["clean", "STORE", "--dry-run"],
        ["show", "STORE-不"],
        ["explain", "STORE", "不"],
        ["不"],
    ],
    ids=" ".join,
)
def test_what_the_encoding_of_the_output_lacks_is_escaped(
    chinese_store: str, command: list[str], encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(encoding: str) -> tuple[object, str, str]:
        streams = {name: io.TextIOWrapper(io.BytesIO(), encoding, "strict") for name in ("stdout", "stderr")}
        for name, stream in streams.items():
            monkeypatch.setattr(sys, name, stream)
        try:
            code: object = cli.main([part.replace("STORE", chinese_store) for part in command])
        except SystemExit as error:
            code = error.code
        for stream in streams.values():
            stream.flush()
        out, err = (stream.buffer.getvalue().decode(encoding) for stream in streams.values())
        return code, out, err

    code, out, err = run(encoding)
    there, plain, _ = run("utf-8")
    assert code == there
    assert out + err
    if "json" in command:
        assert json.loads(out) == json.loads(plain)
        assert "学习率" in str(json.loads(out))


@pytest.mark.skipif(not sys.prefix.isascii(), reason="this Python itself does not start there, by its own path")
def test_where_file_names_are_ascii_other_names_are_refused_with_a_remedy(chinese_store: str) -> None:
    ascii_names = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "asyncsearch", "show", chinese_store]
    ended = subprocess.run(command, env=ascii_names, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "start it with PYTHONUTF8=1" in ended.stderr
    assert "Traceback" not in ended.stderr
