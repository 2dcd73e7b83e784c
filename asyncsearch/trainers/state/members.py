"""The members of a state: objects of a kind, and collections of them, each restored in place.

Kinds are looked for among those of the frameworks that are imported, then by ``state_dict``.
"""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Callable, MutableMapping, Sequence
from types import ModuleType
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.trainers.state import CannotSaveError, PickledState, StateKind, advice, has_methods, is_of
from asyncsearch.trainers.state.encoding import Decoder, Encoder

_SEQUENCES = (list, deque)
_EMPTY: dict[str, Callable[[], Any]] = {"dict": dict, "list": list, "set": set}
_IMMUTABLE = (bool, int, float, complex, str, bytes, frozenset, type(None))


def require_saveable(value: Any, place: str) -> bool:
    """Check an object before any training, and return whether only ``pickle`` restores a part of it.

    Raises:
        UsageError: it, or a member of it, cannot be saved.
    """
    kind = _kind(value, place)
    if kind is not None:
        return kind.name == "estimator"
    members = _members(value, place)
    if members is None:
        raise UsageError(f"{place} {advice(value)}")
    found = [require_saveable(part, at) for _, part, at in members if not _is_plain(part)]
    return any(found)


def capture(encoder: Encoder, value: Any, place: str) -> Any:
    """Return the state of an object as JSON.

    Raises:
        UsageError: it cannot be saved.
    """
    kind = _kind(value, place)
    if kind is not None:
        try:
            state = kind.get(value)
        except Exception as error:
            raise UsageError(f"{place} cannot be saved: {type(error).__name__}: {error}") from error
        suffix = ".state_dict()" if kind.name == "state_dict" else ""
        return {"kind": kind.name, "class": _class_of(value), "state": encoder.encode(state, place + suffix)}
    members = None if _is_plain(value) else _members(value, place)
    if members is None:
        return {"kind": "value", "state": encoder.encode(value, place)}
    pairs = [[encoder.encode(key, place), capture(encoder, part, at)] for key, part, at in members]
    return {"kind": _collection(value), "members": pairs}


def restore(decoder: Decoder, value: Any, saved: Any, place: str) -> None:
    """Put a saved state into an object.

    Raises:
        UsageError: the object is not like the one that was saved.
    """
    kind = _kind(value, place)
    now = _collection(value) if kind is None else kind.name
    if now != saved["kind"]:
        raise _misfit(place, f"it is of kind {now!r} now, and one of kind {saved['kind']!r} was saved")
    if kind is not None:
        _put(decoder, kind, value, saved, place)
    elif isinstance(value, set):
        value.clear()
        value.update(decoder.decode(key) for key, _ in saved["members"])
    elif isinstance(value, MutableMapping):
        _restore_mapping(decoder, value, saved, place)
    elif isinstance(value, tuple):
        _restore_tuple(decoder, value, saved, place)
    else:
        parts = _restored_parts(decoder, value, saved, place)
        value.clear()
        value.extend(parts)


def _put(decoder: Decoder, kind: StateKind, value: Any, saved: Any, place: str) -> None:
    if saved["class"] != _class_of(value):
        raise _misfit(place, f"it is of type {_class_of(value)} now, and {saved['class']} was saved")
    try:
        kind.put(value, decoder.decode(saved["state"]))
    except Exception as error:
        raise _misfit(place, str(error)) from error


def _restore_mapping(decoder: Decoder, value: Any, saved: Any, place: str) -> None:
    members = {decoder.decode(key): part for key, part in saved["members"]}
    for key in [key for key in value if key not in members]:
        if not _is_plain(value[key]) and _kind(value[key], place) is not None:
            raise _misfit(place, f"{key!r} is in it now, and was not when it was saved")
        del value[key]
    for key, part in members.items():
        value[key] = _renewed(decoder, value.get(key), part, f"{place}[{key!r}]")


def _restored_parts(decoder: Decoder, value: Any, saved: Any, place: str) -> list[Any]:
    now = [*value] + [None] * (len(saved["members"]) - len(value))
    return [
        _renewed(decoder, old, part, f"{place}[{number}]")
        for number, (old, (_, part)) in enumerate(zip(now, saved["members"], strict=False))
    ]


def _restore_tuple(decoder: Decoder, value: Any, saved: Any, place: str) -> None:
    """Restore the objects in a tuple that nothing holds in which another could take its place."""
    parts = _renewed_tuple(decoder, value, saved, place)
    for number, (old, new) in enumerate(zip(value, parts, strict=True)):
        if new is not old and new != old and repr(new) != repr(old):  # NaN equals nothing
            raise _misfit(f"{place}[{number}]", f"it is {old!r:.80} now, {new!r:.80} was saved, and no tuple changes")


def _renewed(decoder: Decoder, old: Any, saved: Any, place: str) -> Any:
    """Return the member of a collection after restoring: the same object if it has a state, else the saved value."""
    if saved["kind"] == "tuple" and isinstance(old, tuple):
        return _renewed_tuple(decoder, old, saved, place)
    if not _is_plain(old):
        restore(decoder, old, saved, place)
        return old
    if saved["kind"] in ("value", "array", "tensor"):
        found = decoder.decode(saved["state"])
        return _like(old, found) if isinstance(found, tuple) else found
    if saved["kind"] in _EMPTY:
        new: Any = _EMPTY[saved["kind"]]()
        restore(decoder, new, saved, place)
        return new
    raise _misfit(place, f"it is {old!r:.80} now, and an object of kind {saved['kind']!r} was saved")


def _renewed_tuple(decoder: Decoder, old: tuple[Any, ...], saved: Any, place: str) -> tuple[Any, ...]:
    """Return a tuple with the same objects, and with the saved values beside them."""
    if len(old) != len(saved["members"]):
        raise _misfit(place, f"it has {len(old)} parts, and {len(saved['members'])} were saved")
    return _like(old, _restored_parts(decoder, old, saved, place))


def _like(old: Any, parts: Sequence[Any]) -> tuple[Any, ...]:
    """Return a tuple of the class of ``old``, which may have names."""
    kind = type(old) if isinstance(old, tuple) else tuple
    return kind._make(parts) if hasattr(kind, "_make") else kind(parts)


def _kind(value: Any, place: str) -> StateKind | None:
    try:
        return kind_of(value)
    except CannotSaveError as error:
        raise UsageError(f"{place} {error}") from None


def _members(value: Any, place: str) -> list[tuple[Any, Any, str]] | None:
    """Return key, part and place of the members of a collection; None if it is not one."""
    if isinstance(value, MutableMapping):
        return [(key, part, f"{place}[{key!r}]") for key, part in value.items()]
    if isinstance(value, (*_SEQUENCES, tuple)):
        return [(number, part, f"{place}[{number}]") for number, part in enumerate(value)]
    if isinstance(value, set):
        return [(part, None, place) for part in sorted(value, key=repr)]
    return None


def _collection(value: Any) -> str:
    if isinstance(value, MutableMapping):
        return "dict"
    if isinstance(value, tuple):
        return "tuple"
    return "set" if isinstance(value, set) else "list" if isinstance(value, _SEQUENCES) else "value"


def _is_plain(value: Any) -> bool:
    """Whether a value is replaced in its collection, not restored in place."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, _IMMUTABLE) or is_of("numpy", "generic", value)


def _class_of(value: Any) -> str:
    return type(value).__qualname__


def _misfit(place: str, why: str) -> UsageError:
    return UsageError(
        f"The checkpoint does not fit {place}: {why}. Build for a trial what was built when it was saved (from "
        "trial.saved_params), or start a new study."
    )


def kind_of(value: Any) -> StateKind | None:
    """Return the kind of an object; None if it is a plain value or a collection, or nothing that is known.

    Raises:
        CannotSaveError: it is known that it cannot be saved.
    """
    if isinstance(value, ModuleType):
        raise CannotSaveError(f"is the module {value.__name__}: global generators are saved without being named.")
    for find in _finders():
        found = find(value)
        if found is not None:
            return found
    if not isinstance(value, type) and has_methods(value, "state_dict", "load_state_dict"):
        return _STATE_DICT
    return None


def _finders() -> list[Callable[[Any], StateKind | None]]:
    """Return the functions that know the objects of the frameworks that are imported, the more special ones first."""
    found: list[Callable[[Any], StateKind | None]] = [find_python]
    if "keras" in sys.modules:  # before torch: on that backend a Keras layer is a torch module, too
        from asyncsearch.trainers.state.keras_state import find_keras

        found.append(find_keras)
    if "torch" in sys.modules:
        from asyncsearch.trainers.state.torch_state import find_torch

        found.append(find_torch)
    if "sklearn.base" in sys.modules:
        found.append(find_sklearn)
    if "numpy" in sys.modules:
        from asyncsearch.trainers.state.numpy_state import find_numpy

        found.append(find_numpy)
    return found


_STATE_DICT = StateKind(
    "state_dict", lambda value: value.state_dict(), lambda value, state: value.load_state_dict(state) and None
)


_RANDOM = StateKind("random.Random", lambda value: value.getstate(), lambda value, state: value.setstate(state))


def find_python(value: Any) -> StateKind | None:
    """Return the kind of a generator."""
    if isinstance(value, random.SystemRandom):
        raise CannotSaveError("is a SystemRandom, which has no state: write random.Random(trial.seed).")
    return _RANDOM if isinstance(value, random.Random) else None


def find_sklearn(value: Any) -> StateKind | None:
    """Return the kind of an estimator."""
    is_estimator = is_of("sklearn.base", "BaseEstimator", value) and hasattr(value, "__dict__")
    return _ESTIMATOR if is_estimator else None


def _get_estimator(estimator: Any) -> PickledState:
    import pickle  # here alone: most states hold no estimator

    return PickledState(pickle.dumps(estimator, protocol=5))


def _put_estimator(estimator: Any, saved: PickledState) -> None:
    import pickle

    # Read in the runner alone, and only where SavedState has compared the checksum and the folder is trusted.
    found = pickle.loads(saved.data)  # noqa: S301
    if type(found) is not type(estimator):
        raise UsageError(f"it is of type {type(estimator).__qualname__}, and {type(found).__qualname__} was saved")
    attributes = vars(estimator)
    attributes.clear()
    attributes.update(vars(found))


_ESTIMATOR = StateKind("estimator", _get_estimator, _put_estimator)
