"""``Sequence``: a hyper-parameter as a pure function of the logical time of training.

Rule 1: pure and frozen. Rule 2: a kind defines its arguments and its pieces; the rest is here.
Rule 3: a sequence that contains domains is a *template*. It has no values until each domain is decided.
"""

from __future__ import annotations

import abc
import bisect
import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, ClassVar, Self, get_origin, get_type_hints

from asyncsearch.errors import SpaceError
from asyncsearch.sequences import templates
from asyncsearch.sequences.formulas import Formula, Piece, UnknownFunctionError
from asyncsearch.sequences.svg import draw, notebook_html
from asyncsearch.values.json_values import is_numpy_scalar

Parser = Callable[[Any], Any]
"""Returns an argument in its one form.

Raises:
    SpaceError: it is not a valid one; says the rule and what to write.
"""


@dataclass(frozen=True, repr=False)
class Sequence(abc.ABC):
    """A value for each moment of training. Times are units of training done, from 0: epochs by default."""

    _kinds: ClassVar[dict[str, type[Sequence]]] = {}
    """Name of a kind -> its class; filled as the classes are defined."""
    kind: ClassVar[str]
    """Name of the function that makes it, and its tag in JSON."""
    parsers: ClassVar[Mapping[str, Parser]]
    """Argument -> its parser: a field annotated ``Annotated[Any, parser]`` is an argument."""
    marks: ClassVar[frozenset[str]] = frozenset()
    """Names in its JSON form that are not arguments."""
    positional: ClassVar[int] = 1
    """How many arguments ``repr`` writes without their names."""

    def __init_subclass__(cls) -> None:
        if "kind" in cls.__dict__:
            Sequence._kinds[cls.kind] = cls
            hints = get_type_hints(cls, include_extras=True)
            cls.parsers = {name: hint.__metadata__[0] for name, hint in hints.items() if get_origin(hint) is Annotated}

    def __post_init__(self) -> None:
        for name, parse in self.parsers.items():
            try:
                object.__setattr__(self, name, templates.parse(parse, getattr(self, name)))
            except SpaceError as error:
                raise SpaceError(f"{self.kind}({name}=...): {error}") from None
        self._check()
        if not self.is_template:
            self._begin()

    @abc.abstractmethod
    def pieces_from(self, origin: int) -> Iterator[Piece]:
        """Yield the pieces from ``origin`` on, where its phase begins: finitely many, neighbours may be equal."""

    def span(self) -> int:
        """Return how many units a picture of it should show."""
        return 10

    def _check(self) -> None:
        """Refuse arguments that do not fit together; undecided ones fit everything."""

    def _begin(self) -> None:
        """Refuse a sequence that has no first value."""
        # Where functions are not known, e.g. in a report, sequences can still be read and shown.
        with contextlib.suppress(UnknownFunctionError):
            self.first_value(0)

    @property
    def is_template(self) -> bool:
        """Whether it contains domains."""
        return templates.is_open(self)

    def at(self, time: float) -> Any:
        """Return the value at a time, in units of training done: from milestone m on it is the new one.

        Whole numbers are the beginnings of units; numbers between them are moments inside a unit, for values that
        change with each step.

        Raises:
            SpaceError: the time is negative, the value is not finite, or the sequence contains domains.
        """
        starts, formulas = self._timeline
        if is_numpy_scalar(time):
            time = time.item()  # type: ignore[attr-defined]
        if not 0 <= time < math.inf:
            raise SpaceError(f"{self!r} has no value at time {time!r}: times are finite numbers from 0 on.")
        return formulas[bisect.bisect_right(starts, time) - 1].at(time)

    def pieces(self, until: int) -> list[Piece]:
        """Return the maximal pieces that start below ``until``, the first at 0; no neighbours are equal.

        Raises:
            SpaceError: a piece is not finite somewhere below ``until``, or the sequence contains domains.
        """
        found = []
        for piece in self.merged():
            if piece.start >= until:
                break
            found.append(piece)
        stops = [*(piece.start for piece in found[1:]), until]
        for piece, stop in zip(found, stops, strict=True):
            piece.formula.at(piece.start)
            piece.formula.at(stop - 1)
        return found

    def merged(self) -> Iterator[Piece]:
        """Yield the maximal pieces, computed on demand."""
        self._refuse_template()
        last = None
        for piece in self.pieces_from(0):
            text = piece.formula.text
            if text != last:
                yield piece
            last = text

    def first_value(self, origin: int) -> Any:
        """Return the value with which it begins at ``origin``."""
        return next(self.pieces_from(origin)).formula.at(origin)

    def to_json(self) -> dict[str, Any]:
        """Return its form in params, journals and messages: ``{"sequence": kind, argument: value, ...}``.

        Raises:
            SpaceError: it contains domains.
        """
        self._refuse_template()
        return {"sequence": self.kind, **{name: templates.to_json(value) for name, value in self.arguments().items()}}

    def arguments(self) -> dict[str, Any]:
        """Return argument -> its value in plain form."""
        return {name: getattr(self, name) for name in self.parsers}

    def rebuilt(self, arguments: Mapping[str, Any]) -> Self:
        """Return a sequence of this kind with other arguments."""
        return type(self)(**arguments)

    def plot(self, until: int | None = None) -> str:
        """Return a picture of the first ``until`` units as SVG."""
        self._refuse_template()
        return draw(repr(self), self.at, self.span() if until is None else until)

    def call(self) -> str:
        """Return the call that makes it."""
        defaults = {field.name: field.default for field in fields(self) if field.default is not MISSING}
        shown = []
        for place, (name, value) in enumerate(self.arguments().items()):
            if place < self.positional:
                shown.append(templates.show_argument(value))
            elif name not in defaults or value != defaults[name]:
                shown.append(f"{name}={templates.show_argument(value)}")
        return f"{self.kind}({', '.join(shown)})"

    def __repr__(self) -> str:
        return self.call()

    def _repr_svg_(self) -> str | None:
        return None if self.is_template else self.plot()

    def _repr_html_(self) -> str | None:
        return None if self.is_template else notebook_html(self.plot())

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @functools.cached_property
    def _timeline(self) -> tuple[list[int], list[Formula]]:
        pieces = list(self.merged())
        return [piece.start for piece in pieces], [piece.formula for piece in pieces]

    def _refuse_template(self) -> None:
        for slot, domain in templates.slots(self):
            raise SpaceError(
                f"{self!r} has no values yet, {slot} is {domain!r}: put it into the space of a study, which decides "
                "it for each trial, or write a value."
            )
