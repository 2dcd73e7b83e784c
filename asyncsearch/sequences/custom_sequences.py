"""Sequences of the user's own: a pure function of time, known in params by its name and the digest of its code.

A process knows the functions of the spaces that it has built or, in a worker, received. Of a function that was edited
it may know several versions: a trial goes on with the one that it began with.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

from asyncsearch.errors import SpaceError
from asyncsearch.sequences import parsing
from asyncsearch.sequences.base_sequence import Sequence
from asyncsearch.sequences.formulas import CustomFormula, Piece, UnknownFunctionError, text_of
from asyncsearch.sequences.templates import Named, Undecided, inner, show_argument, to_json
from asyncsearch.values import function_code
from asyncsearch.values.json_values import INT_MAX, INT_MIN, a_type, is_numpy_scalar, show

ValueFunction = Callable[..., Any]
"""``function(time, **parameters)`` -> a finite number, text, bool or None; ``time`` in units since its beginning."""

Versions = Mapping[tuple[str, str], ValueFunction]
"""(name, digest of the code) -> function."""


class _KnownFunctions:
    """The functions that this process knows: the present one of each name, and every version."""

    def __init__(self) -> None:
        self.present: dict[str, ValueFunction] = {}
        self.versions: dict[tuple[str, str], ValueFunction] = {}

    def add(self, functions: Mapping[str, ValueFunction]) -> None:
        self.present.update(functions)
        self.versions.update({(name, function_code.code_digest(one)): one for name, one in functions.items()})

    def find(self, name: str, code: str) -> ValueFunction | None:
        """Return the version of this code, or the present one if no code is given; None if it is not known."""
        return self.versions.get((name, code)) if code else self.present.get(name)


_known = _KnownFunctions()


@dataclass(frozen=True, repr=False)
class Custom(Sequence):
    """A function of time, with parameters."""

    kind = "custom"
    marks = frozenset({"code"})
    name: Annotated[Any, parsing.text]
    parameters: Annotated[Any, parsing.named] = field(default_factory=Named)
    function: ValueFunction | None = field(default=None, compare=False)
    """The function. None if it is the one that is registered under its name and code."""
    code: str = ""
    """Digest of the function's code. Empty if unknown, as in the records of earlier versions."""

    def pieces_from(self, origin: int) -> Iterator[Piece]:
        parameters = to_json(self.parameters)
        call = functools.partial(self._value, parameters)
        yield Piece(origin, CustomFormula(self.name, text_of(parameters), origin, call, self.code))

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), **({"code": self.code} if self.code else {})}

    def rebuilt(self, arguments: Mapping[str, Any]) -> Custom:
        return Custom(**arguments, function=self.function, code=self.code)

    def call(self) -> str:
        shown = "".join(f", {name}={show_argument(value)}" for name, value in self.parameters.items())
        named = getattr(self.function, "__name__", self.name)
        return f"custom({named}{'' if named == self.name else f', name={self.name!r}'}{shown})"

    def span(self) -> int:
        return 100

    def _check(self) -> None:
        if not isinstance(self.code, str):
            raise SpaceError(
                f"custom(code=...): {show(self.code)} is {a_type(self.code)}: write a text, or leave it out."
            )
        if self.function is not None:
            _check_signature(self.function, self.parameters)

    def _value(self, parameters: dict[str, Any], time: float) -> Any:
        function = self.function or _known_function(self.name, self.code)
        try:
            value = function(time, **parameters)
        except Exception as error:
            raise SpaceError(f"The function {self.name!r} raised {type(error).__name__}: {error} at {time}.") from error
        return _checked(self.name, time, value)


def custom(function: ValueFunction, /, *, name: str | None = None, **parameters: Any) -> Custom:
    """Return a sequence of the user's own.

    Args:
        function: ``function(time, **parameters)`` returns the value, a finite number, text, bool or None. ``time`` is
            in units since the sequence began, fractions inside a unit. It must be pure: its value depends
            on its arguments only, since trials share training by its name, its code and its parameters.
        name: What it is called in params; the function's own name if None.
        parameters: JSON values, or domains of the space.

    Raises:
        SpaceError: it cannot be called with these, or returns another type at time 0.
    """
    if not callable(function):
        raise SpaceError(f"custom({show(function)}) is given {a_type(function)}: write a function of time.")
    found = name or getattr(function, "__name__", "<lambda>")
    if found == "<lambda>":
        raise SpaceError("custom(...) is given a function without a name: write custom(function, name='bump').")
    return Custom(found, Named(parameters), function, function_code.code_digest(function))


def sequence(function: ValueFunction) -> Callable[..., Custom]:
    """Decorate a function of time: called with its parameters only, it returns a sequence.

    Example::

        @sequence
        def sawtooth(time, height):
            return height * (1 - time % 1)

        space = {"lr": sawtooth(height=choice(0.1, 0.2))}
    """

    @functools.wraps(function)
    def make(**parameters: Any) -> Custom:
        return custom(function, **parameters)

    return make


def register(functions: Mapping[str, ValueFunction]) -> None:
    """Make functions known under their names, for sequences that come as JSON.

    A function that is defined again, e.g. in a notebook's cell, replaces the former one.

    Raises:
        SpaceError: a name belongs to another function already.
    """
    for name, function in functions.items():
        known = _known.present.get(name)
        if known is not None and not is_same(known, function) and _home(known) != _home(function):
            raise _two(name, known, function)
    _known.add(functions)


def register_versions(functions: Versions) -> None:
    """Make versions of functions known: (name, digest of the code) -> function."""
    _known.versions.update(functions)


def merge(functions: dict[str, ValueFunction], more: Mapping[str, ValueFunction]) -> None:
    """Add functions to those of a space.

    Raises:
        SpaceError: two different ones have one name.
    """
    for name, function in more.items():
        if not is_same(functions.setdefault(name, function), function):
            raise _two(name, functions[name], function)


def functions_in(value: Any) -> dict[str, ValueFunction]:
    """Return the functions of all of the user's own sequences in any value: name -> function.

    Raises:
        SpaceError: two different ones have one name.
    """
    found: dict[str, ValueFunction] = {}
    if isinstance(value, Custom) and value.function is not None:
        found[value.name] = value.function
    if isinstance(value, Undecided):
        merge(found, value.functions())
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    for item in (*items, *(item for _, item in inner(value))):
        merge(found, functions_in(item))
    return found


def versions_in(value: Any) -> Versions:
    """Return the functions of all of the user's own sequences in any value, by name and digest of the code."""
    found: dict[tuple[str, str], ValueFunction] = {}
    if isinstance(value, Custom) and value.function is not None:
        found[value.name, value.code] = value.function
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    examples = value.examples() if isinstance(value, Undecided) else ()
    for item in (*items, *examples, *(item for _, item in inner(value))):
        found |= versions_in(item)
    return found


class _HasFunctions(Protocol):
    @property
    def custom_functions(self) -> Mapping[str, ValueFunction]: ...


def custom_functions(space: _HasFunctions) -> dict[str, ValueFunction]:
    """Return the user's own functions of time in a space, to be sent to workers and registered there."""
    return dict(space.custom_functions)


def _known_function(name: str, code: str) -> ValueFunction:
    function = _known.find(name, code)
    if function is not None:
        return function
    if name in _known.present:
        raise UnknownFunctionError(
            f"The function {name!r} here has another code than the one that is meant ({code}): it was edited. Write "
            f"custom({name}, ...) for the one that is here, or bring back the former one."
        )
    raise UnknownFunctionError(
        f"There is no function {name!r} here: asyncsearch.sequences.register({{{name!r}: function}}) makes it known; "
        "workers of a study know those of its space."
    )


def is_same(first: ValueFunction, second: ValueFunction) -> bool:
    """Return whether two functions are equal in code, defaults and captured values."""
    return first is second or (_essence(first) is not None and _essence(first) == _essence(second))


def _essence(function: ValueFunction) -> tuple[Any, ...] | None:
    names = ("__code__", "__defaults__", "__kwdefaults__", "__closure__")
    code, defaults, keyword_defaults, cells = (getattr(function, name, None) for name in names)
    return code and (code, defaults, keyword_defaults, [show(cell.cell_contents) for cell in cells or ()])


def _home(function: ValueFunction) -> tuple[str, str]:
    named = function if hasattr(function, "__qualname__") else type(function)
    return named.__module__, named.__qualname__


def _two(name: str, first: ValueFunction, second: ValueFunction) -> SpaceError:
    places = " and ".join(".".join(_home(function)) for function in (first, second))
    return SpaceError(
        f"Two different functions of time are called {name!r} ({places}): trials would share what is not the same. "
        "Give one of them another name, custom(function, name='other')."
    )


def _check_signature(function: ValueFunction, parameters: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(0.0, **parameters)
    except TypeError as error:
        raise SpaceError(
            f"{show(function)} cannot be called as function(time, {', '.join(f'{name}=...' for name in parameters)}): "
            f"{error}."
        ) from None


def _checked(name: str, time: float, value: Any) -> Any:
    """Return the result of a function as a plain scalar."""
    if is_numpy_scalar(value):
        value = value.item()
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int) and INT_MIN <= value <= INT_MAX:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    raise SpaceError(
        f"The function {name!r} returned {show(value)} ({a_type(value)}) at time {time}: it must return a finite "
        "number, a text, True, False or None."
    )
