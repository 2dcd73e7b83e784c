"""A checkpoint of torch is data: no code in it is run."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.errors import UsageError

torch = pytest.importorskip("torch")


class Code:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("legacy", [False, True])
def test_code_in_a_checkpoint_is_not_run(tmp_path: Path, legacy: bool) -> None:
    from asyncsearch.trainers.state.torch_state import load_without_code

    torch.save({"model": Code(tmp_path / "ran")}, tmp_path / "checkpoint", _use_new_zipfile_serialization=not legacy)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        load_without_code(tmp_path / "checkpoint", "cpu")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("version", ["2.5.1", "2.4.0+cpu", "1.13.1"])
def test_a_version_that_could_run_code_loads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    from asyncsearch.trainers.state.torch_state import load_without_code

    torch.save({"model": torch.zeros(1)}, tmp_path / "checkpoint")
    assert load_without_code(tmp_path / "checkpoint", "cpu")["model"] == 0
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(UsageError, match=r"CVE-2025-32434.*pip install 'torch>=2\.6'"):
        load_without_code(tmp_path / "checkpoint", "cpu")
