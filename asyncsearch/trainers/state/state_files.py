"""The folder of a saved state.

state.json       the state of each member, and the checksums of the pickles
arrays.npz       its arrays, written and read without pickle
tensors.pt       its tensors, read by ``torch.load(weights_only=True)``
pickle-0 ...     the estimators of scikit-learn
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from asyncsearch.errors import StoreError
from asyncsearch.files.plain import read_file
from asyncsearch.trainers.state.encoding import Decoder, Encoder

_FILE: Final = "state.json"
_FORMAT: Final = 1


def write_state(path: Path, encoder: Encoder, found: dict[str, Any]) -> None:
    """Make a folder with a state and all that its encoder has collected."""
    path.mkdir()
    if encoder.arrays:
        import numpy as np

        with (path / "arrays.npz").open("wb") as file:
            np.savez(file, **{str(number): array for number, array in enumerate(encoder.arrays)})
    if encoder.tensors:
        from asyncsearch.trainers.state.torch_state import write_tensors

        write_tensors(path / "tensors.pt", encoder.tensors)
    for number, data in enumerate(encoder.pickles):
        _pickle(path, number).write_bytes(data)
    checksums = [hashlib.sha256(data).hexdigest() for data in encoder.pickles]
    content = {"format": _FORMAT, **found, "sha256": checksums}
    (path / _FILE).write_text(json.dumps(content, allow_nan=False), encoding="utf-8")


def read_state(path: Path) -> tuple[dict[str, Any], Decoder]:
    """Return a state, and a decoder with its arrays, tensors and pickles. Nothing is unpickled.

    Raises:
        StoreError: the checkpoint is of another kind, of a newer version, or damaged.
    """
    try:
        found = json.loads(read_file(path / _FILE))
    except (OSError, ValueError) as error:
        raise StoreError(
            f"{path} holds no state that trial.epochs(state=...) has saved: read it with the load= that fits the save= "
            "which wrote it, or start a new study."
        ) from error
    if found["format"] > _FORMAT:
        raise StoreError(f"{path} was written by a newer version of asyncsearch: update it.")
    pickles = [_checked(path, number, checksum) for number, checksum in enumerate(found["sha256"])]
    return found, Decoder(_arrays(path / "arrays.npz"), _tensors(path / "tensors.pt"), pickles)


def _checked(path: Path, number: int, checksum: str) -> bytes:
    data = read_file(_pickle(path, number))
    if hashlib.sha256(data).hexdigest() != checksum:
        raise StoreError(
            f"{_pickle(path, number)} is not the file that was saved; it is not unpickled. Delete the checkpoint and "
            "resume the study: what is missing is trained again."
        )
    return data


def _pickle(path: Path, number: int) -> Path:
    return path / f"pickle-{number}"


def _arrays(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    import numpy as np

    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def _tensors(path: Path) -> list[Any]:
    if not path.exists():
        return []
    from asyncsearch.trainers.state.torch_state import read_tensors

    return read_tensors(path)
