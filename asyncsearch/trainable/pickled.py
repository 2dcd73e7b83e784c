"""A trainable in its pickled form, with the functions of time that its hyper-parameters name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from asyncsearch.old_pickles import loads
from asyncsearch.trainable.trainer import Trainable


class WithFunctions:
    """A trainable as sent to the workers, with the user's functions of time that its hyper-parameters name.

    Unpickling returns the trainable and registers the functions in that process.
    """

    def __init__(
        self,
        trainable: Trainable | Pickled,
        functions: Mapping[str, Callable[..., Any]],
        versions: Mapping[tuple[str, str], Callable[..., Any]] = MappingProxyType({}),
    ) -> None:
        """Hold the objects to pickle.

        Args:
            trainable: the trainable.
            functions: name -> function.
            versions: (name, digest of the code) -> function: the same ones, and earlier versions of them.
        """
        self.trainable, self.functions, self.versions = trainable, dict(functions), dict(versions)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.trainable, self.functions, self.versions)


class Pickled:
    """An object in its pickled form, which is unpickled together with the object that holds it."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __reduce__(self) -> tuple[Any, ...]:
        return loads, (self.data,)


def _restored(
    trainable: Trainable,
    functions: dict[str, Callable[..., Any]],
    versions: Mapping[tuple[str, str], Callable[..., Any]] = MappingProxyType({}),
) -> Trainable:
    from asyncsearch.sequences.custom_sequences import register, register_versions

    register(functions)
    register_versions(versions)
    return trainable
