"""A bundle that cannot be read is refused in words that say how to go on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, RandomSearch, Study, uniform
from asyncsearch.errors import StoreError
from asyncsearch.study.kept import definition


def train(trial: Any) -> None:
    trial.report(loss=trial.params["x"])


def study(store: Path, **options: Any) -> Study:
    return Study(train, space={"x": uniform(0, 1)}, metric="loss", mode="min", store=store, backend="inline", **options)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    study(tmp_path / "s").run(1, display="none")
    return tmp_path / "s"


def rewrite(store: Path, bundle: bytes) -> None:
    """Change the bundle, and its checksum with it."""
    (store / "bundle.bin").write_bytes(bundle)
    file = json.loads((store / "study.json").read_text())
    file["bundle_sha256"] = hashlib.sha256(bundle).hexdigest()
    del file["sealed"]
    (store / "study.json").write_text(json.dumps(file))


def change(store: Path, old: bytes, new: bytes) -> None:
    bundle = (store / "bundle.bin").read_bytes()
    assert old in bundle
    rewrite(store, bundle.replace(old, new))


def require_refused(store: Path, words: str) -> None:
    with pytest.raises(StoreError, match=words) as raised:
        Study.resume(store)
    assert "resume from the script that made the study, with resume=True" in str(raised.value)
    study(store, resume=True).run(2, display="none")
    assert len(Study.open(store).trials) == 2


def test_a_name_that_this_version_does_not_have_is_refused_with_the_name(store: Path) -> None:
    name = FIFO.__module__.encode()
    change(store, name, name[:-1] + b"x")
    require_refused(store, r"cannot be unpickled here \(ModuleNotFoundError: .*asyncsearch\.schedulers\.fifx")


def test_a_class_that_this_version_does_not_have_is_refused_with_its_name(store: Path) -> None:
    name = RandomSearch.__name__.encode()
    change(store, name, name[:-1] + b"x")
    require_refused(store, r"cannot be unpickled here \(AttributeError: .*RandomSearcx")


def test_the_bytecode_of_another_python_is_refused_and_not_run(store: Path) -> None:
    change(store, definition._THIS_PYTHON, b"Python 2.7")
    require_refused(store, r"holds bytecode of Python 2\.7, and this is Python 3")


@pytest.mark.parametrize("bundle", [b"", b"\x80\x04damaged", b"Python"])
def test_a_damaged_pickle_is_refused(store: Path, bundle: bytes) -> None:
    rewrite(store, bundle)
    require_refused(store, "cannot be unpickled here")


def test_a_pickle_of_something_else_is_refused(store: Path) -> None:
    rewrite(store, b"\x80\x04K\x01.")
    require_refused(store, "holds a int instead of a study")
