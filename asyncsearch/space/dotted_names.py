"""From nested mappings to dotted names and back.

Rule 1: pure. Rule 2: a dotted name splits at its dots in one way only, since no name of a level has a dot.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from asyncsearch.arguments import is_unicode
from asyncsearch.errors import SpaceError
from asyncsearch.other_libraries.domains import meant_by
from asyncsearch.sequences import Sequence as ValueSequence
from asyncsearch.sequences import from_json, is_sequence
from asyncsearch.space.domains import Constant, Domain
from asyncsearch.space.foreign_domains import taken
from asyncsearch.space.parameter_values import a_type, copy_plain, integer, is_numpy_array, number, plain, show
from asyncsearch.trial import Params

_EXAMPLE = "{'lr': loguniform(1e-4, 1e-1), 'layers': randint(1, 4)}"


def flatten_space(parameters: Any) -> dict[str, Domain | ValueSequence]:
    """Return dotted name -> domain, or sequence with domains in it, in the order of declaration.

    Raises:
        SpaceError: it is not a mapping of names to domains, constants or mappings of the same, or something is empty.
    """
    if getattr(parameters, "conditions", None) or getattr(parameters, "forbidden_clauses", None):
        raise SpaceError(
            f"{type(parameters).__name__} has conditions or forbidden clauses, which are not read: write the space "
            "here, with .when(...) and constraints=[...]."
        )
    if not isinstance(parameters, Mapping):
        raise SpaceError(f"A space is a mapping of names to domains, not {show(parameters)}: write e.g. {_EXAMPLE}.")
    if not parameters:
        raise SpaceError(f"The space is empty: write at least one parameter, e.g. {_EXAMPLE}.")
    return dict(_leaves("", parameters))


def flatten_params(params: Any, names: Collection[str]) -> dict[str, Any]:
    """Return dotted name -> value of nested params; ``names`` are those of the space.

    Raises:
        SpaceError: not a mapping, or a name that the space does not have.
    """
    if not isinstance(params, Mapping):
        raise SpaceError(f"Params are a mapping of names to values, not {show(params)}.")
    groups = {name[:at] for name in names for at, char in enumerate(name) if char == "."}
    return dict(_values("", params, names, groups))


def nest(flat: Mapping[str, Any]) -> Params:
    """Return params nested as their dotted names say, in the order of ``flat``; shares nothing mutable with it."""
    params: Params = {}
    for path, value in flat.items():
        put(params, path, copy_plain(value))
    return params


def put(params: Params, path: str, value: Any) -> None:
    """Put a value where its dotted name says."""
    *groups, name = path.split(".")
    level = params
    for group in groups:
        level = level.setdefault(group, {})
    level[name] = value


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the end of a message on an unknown name: the nearest name, else all of them."""
    known = list(names)
    same_end = [other for other in known if other.rpartition(".")[2] == name]
    close = same_end or difflib.get_close_matches(name, known, 1)
    return f"did you mean {close[0]!r}?" if close else f"the names are {', '.join(map(repr, known))}."


def _leaves(prefix: str, parameters: Mapping[Any, Any]) -> Iterable[tuple[str, Domain | ValueSequence]]:
    for name, value in parameters.items():
        path = prefix + _checked_name(prefix, name)
        if isinstance(value, Mapping) and not is_sequence(value):
            if not value:
                raise SpaceError(f"{path}: {{}} is an empty group: drop it, or write constant({{}}).")
            if meant := meant_by(value):
                raise SpaceError(
                    f"{path}: {show(value)} is no domain: write {meant}; if it is a constant, constant(...)."
                )
            yield from _leaves(f"{path}.", value)
        else:
            domain = _domain(path, value)
            if prefix and name == "sequence":
                _refuse_texts(path, domain)
            yield path, domain


def _refuse_texts(path: str, domain: Domain | ValueSequence) -> None:
    """Refuse a group that would look like a sequence in params."""
    if isinstance(domain, Domain) and any(isinstance(value, str) for value in domain.examples()):
        raise SpaceError(f"{path}: a group with a text named 'sequence' stands for a sequence: choose another name.")


def _checked_name(prefix: str, name: Any) -> str:
    where = f"The name {show(name)} in {prefix[:-1]!r}" if prefix else f"The name {show(name)}"
    if not isinstance(name, str):
        raise SpaceError(f"{where} is {a_type(name)}: names of parameters are strings; write {str(name)!r}.")
    if not name.strip():
        raise SpaceError(f"{where} is empty: give the parameter a name.")
    if not is_unicode(name):
        raise SpaceError(f"{where} is not valid Unicode: it cannot be written to the journal; spell it out.")
    if "." in name:
        first, _, rest = name.partition(".")
        raise SpaceError(f"{where} has a dot: write it nested, {{{first!r}: {{{rest!r}: ...}}}}, or without the dot.")
    return name


def _domain(path: str, value: Any) -> Domain | ValueSequence:
    try:
        value = taken(value)
    except SpaceError as error:
        raise SpaceError(f"{path}: {error}") from None
    if isinstance(value, Domain):
        return value
    if is_sequence(value):
        return _sequence(path, value)
    if isinstance(value, list | tuple | range | set | frozenset) or is_numpy_array(value):
        raise SpaceError(f"{path}: {show(value)} is not a domain: did you mean {_meant(value)}?")
    if hasattr(value, "parameters") and hasattr(value, "sample"):
        raise SpaceError(f"{path}: a Space inside a space: write its plain mapping there instead.")
    if meant := meant_by(value):
        if isinstance(value, str):
            raise SpaceError(
                f"{path}: {show(value)} is text, not a domain: write {meant} without quotes; for this very text, "
                f"constant({show(value)})."
            )
        raise SpaceError(f"{path}: {show(value)} is a domain of another library: write {meant}.")
    try:
        return Constant(plain(value))
    except SpaceError as error:
        name = getattr(value, "__name__", "value")
        raise SpaceError(
            f"{path}: {error} For a range of values write a domain, e.g. uniform(low, high), and for the object itself "
            f"a choice of one, choice({name})."
        ) from None


def _sequence(path: str, value: Any) -> Domain | ValueSequence:
    try:
        sequence = value if isinstance(value, ValueSequence) else from_json(value)
        return sequence if sequence.is_template else Constant(sequence)
    except SpaceError as error:
        raise SpaceError(f"{path}: {error}") from None


def _meant(value: Any) -> str:
    """Return the domain that a bare collection was probably meant to be."""
    if isinstance(value, range):
        both = f"randint({value.start}, {value.stop - 1}) or " if value.step == 1 and len(value) > 1 else ""
        return f"{both}choice(*{value})"
    if is_numpy_array(value):
        return "choice(*array.tolist())"
    items = list(value)
    listed = f"choice({', '.join(map(show, items))})" if len(items) <= 8 else "choice(*values)"
    bounds = _meant_numbers(items) if isinstance(value, list | tuple) else ""
    same = f" or constant({items!r})" if isinstance(value, list) and len(items) <= 8 else ""
    return f"{bounds}{listed}{same}"


def _meant_numbers(items: list[Any]) -> str:
    """Return "uniform(0.1, 1) or ", if the items look like bounds."""
    try:
        low, high = map(number, items)
    except ValueError:
        return ""
    if low >= high:
        return ""
    try:
        return f"randint({integer(items[0])}, {integer(items[1])}) or "
    except SpaceError:
        return f"uniform({items[0]}, {items[1]}) or "


def _values(
    prefix: str, params: Mapping[Any, Any], names: Collection[str], groups: Collection[str]
) -> Iterable[tuple[str, Any]]:
    for name, value in params.items():
        path = f"{prefix}{name}"
        if not isinstance(name, str) or "." in name or (path not in names and path not in groups):
            raise SpaceError(f"{path}: the space has no parameter {show(name)} there; {_unknown(path, names)}")
        if path in names:
            yield path, value
        elif isinstance(value, Mapping):
            yield from _values(f"{path}.", value, names, groups)
        else:
            raise SpaceError(f"{path}: {show(value)} stands for a group: write a mapping of its parameters.")


def _unknown(path: str, names: Collection[str]) -> str:
    if path in names:
        first, _, rest = path.partition(".")
        return f"params are nested: write {{{first!r}: {{{rest!r}: ...}}}}."
    return did_you_mean(path, names)
