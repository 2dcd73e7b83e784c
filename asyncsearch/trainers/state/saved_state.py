"""The argument of ``trial.epochs(state={...})``: checked at once, saved and loaded as a checkpoint.

The folder of a saved state has these files::

    state.json       the state of each member, and the checksums of the pickles
    arrays.npz       its arrays, written and read without pickle
    tensors.pt       its tensors, read by ``torch.load(weights_only=True)``
    pickle-0 ...     the estimators of scikit-learn
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from asyncsearch.errors import StoreError, UsageError
from asyncsearch.files.plain import read_file
from asyncsearch.sentences import in_sentences
from asyncsearch.trainers.state import global_generators
from asyncsearch.trainers.state.encoding import Decoder, Encoder
from asyncsearch.trainers.state.members import capture, require_saveable, restore


class SavedState:
    """Saves and loads the named objects, and the global generators of the frameworks that are imported.

    The mapping is not copied: an object that the training puts in the place of another is saved from then on.
    """

    def __init__(self, state: Mapping[str, Any], untrusted: str = "") -> None:
        """Check the objects.

        Args:
            state: name -> object.
            untrusted: folder of the checkpoints, if others may write there and the user has not said that it is
                trusted; else empty.

        Raises:
            UsageError: an object cannot be saved, or only ``pickle`` would restore it and the folder is not trusted.
        """
        self._state = state
        for name, value in _checked(state).items():
            if require_saveable(value, f"state[{name!r}]") and untrusted:
                raise UsageError(
                    f"state[{name!r}] is restored by pickle, which runs code from the checkpoint, and its checkpoints "
                    f"are in a folder that studies share. If you trust all who may write there, name it: "
                    f"Sharing(shared={untrusted!r}, trusted={untrusted!r}); else share with nobody: "
                    "Sharing(shared=False)."
                )

    def save(self, path: Path) -> None:
        """Write the state of all objects into a new folder."""
        encoder = Encoder()
        members = {name: capture(encoder, value, f"state[{name!r}]") for name, value in self._state.items()}
        shared = encoder.encode(global_generators.capture(), "the global generators")
        write_state(path, encoder, {"members": members, "generators": shared})

    def load(self, path: Path) -> None:
        """Put a saved state into the objects."""
        found, decoder = read_state(path)
        saved, now = found["members"].keys(), self._state.keys()
        if saved != now:
            raise UsageError(
                f"The checkpoint holds {_names(saved)}, and state= names {_names(now)}: name the same objects, or "
                "start a new study."
            )
        _restore_all(decoder, self._state, found["members"])
        # Last: to build and to fill the objects may have drawn from them.
        global_generators.restore(decoder.decode(found["generators"]))


@in_sentences()
def load_state(path: Path, state: Mapping[str, Any]) -> None:
    """Put the state that ``trial.epochs(state=...)`` saved at a path into objects, some or all of the same names.

    Use it with the path that ``study.checkpoint()`` gives. An estimator of scikit-learn is unpickled, which runs code
    from the file: load checkpoints that you trust.

    Raises:
        UsageError: a name was not saved, or an object is not like the saved one.
        StoreError: there is no such checkpoint, or it is damaged.
    """
    if isinstance(path, Mapping) and not isinstance(state, Mapping):
        raise UsageError("load_state takes the path first: write load_state(path, {'net': net}).")
    _checked(state, "load_state(path, {'net': net})")
    found, decoder = read_state(Path(path))
    missing = _checked(state).keys() - found["members"].keys()
    if missing:
        raise UsageError(f"The checkpoint holds {_names(found['members'])}, and not {_names(missing)}.")
    _restore_all(decoder, state, found["members"])


def _restore_all(decoder: Decoder, state: Mapping[str, Any], members: Mapping[str, Any]) -> None:
    for name, value in state.items():
        restore(decoder, value, members[name], f"state[{name!r}]")


def _checked(state: Any, line: str = 'trial.epochs(state={"net": net, "opt": opt})') -> Mapping[str, Any]:
    if not isinstance(state, Mapping) or not all(isinstance(name, str) for name in state):
        raise UsageError(f"state= is a {type(state).__qualname__}, and must give each object a name: {line}.")
    for name, value in state.items():
        # What an optimizer's state_dict() returns is a copy, which training does not change.
        if isinstance(value, Mapping) and set(value) == {"state", "param_groups"}:
            raise UsageError(
                f"state[{name!r}] is what {name}.state_dict() returned: write the object itself, "
                f"state={{{name!r}: {name}}}."
            )
    return state


def _names(names: Any) -> str:
    return ", ".join(map(repr, sorted(names))) or "nothing"


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
    pickles = [_checked_pickle(path, number, checksum) for number, checksum in enumerate(found["sha256"])]
    return found, Decoder(_arrays(path / "arrays.npz"), _tensors(path / "tensors.pt"), pickles)


def _checked_pickle(path: Path, number: int, checksum: str) -> bytes:
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
