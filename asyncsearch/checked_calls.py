"""Calls that users make: one whose arguments do not fit is answered by the call to write."""

from __future__ import annotations

import abc
import difflib
import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, ParamSpec, TypeVar

from asyncsearch.arguments import shown
from asyncsearch.errors import UsageError
from asyncsearch.other_libraries.names import Replacement, argument_answers, instead_of
from asyncsearch.sentences import in_sentences

P = ParamSpec("P")
T = TypeVar("T")

Arguments = Mapping[str, Any]
Missing = Callable[[Arguments], str]
"""Returns what is wrong and what to write, from the arguments that were given."""
_SAMPLES = {"max_resource": 81, "perturbation_interval": 5}
"""Values of arguments that an example has, where they are not given."""


def grouped(**groups: type[Any]) -> dict[str, Replacement]:
    """Return the answers for arguments that belong to a group: the group with them."""

    def answer(group: str, kind: type[Any], name: str) -> Replacement:
        return lambda value: f"{group}={kind.__name__}({name}={shown(value)})"

    names = {group: inspect.signature(kind).parameters for group, kind in groups.items()}
    return {name: answer(group, groups[group], name) for group in groups for name in names[group]}


def answering(
    name: str,
    example: str,
    *,
    instead: Mapping[str, Replacement] | None = None,
    missing: Mapping[str, Missing] | None = None,
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Have a function, or the ``__init__`` of a class, answer calls that do not fit it by a ``UsageError``.

    Args:
        name: how people call it.
        example: a complete call, shown where no better answer is known.
        instead: argument that it does not have -> what to write instead, besides those of other libraries.
        missing: required argument -> what to say if it alone is not given.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        @in_sentences()
        def answered(*args: P.args, **kwargs: P.kwargs) -> T:
            require_fit(signature, name, args, kwargs, example=example, instead=instead, missing=missing)
            return function(*args, **kwargs)

        return answered

    return decorate


class CheckedCalls(abc.ABCMeta):
    """Metaclass of what users describe in one call: one that does not fit is answered; unpickling makes no call.

    A class may have ``_unnamed``, which says what to write instead of arguments without a name.
    """

    @in_sentences()
    def __call__(cls: type[T], *args: Any, **kwargs: Any) -> T:
        """Make an object.

        Raises:
            UsageError: the arguments do not fit; the message holds the call to write.
        """
        signature = inspect.signature(cls.__init__)
        example = f"{cls.__name__}({_needed(signature, kwargs)})"
        bases = [base.__name__ for base in reversed(cls.__mro__)]
        unnamed: str = getattr(cls, "_unnamed", "")
        if args and unnamed:
            answer = unnamed.format(value=shown(args[0]))
            raise UsageError(f"{cls.__name__}({', '.join(map(shown, args))}): {answer}.")
        require_fit(signature, cls.__name__, (None, *args), kwargs, example=example, places=bases)
        return super().__call__(*args, **kwargs)  # type: ignore[misc, no-any-return]

    @property
    def __signature__(cls) -> inspect.Signature:
        """The arguments of the class for help and completion, which would read those of ``__call__``."""
        signature = inspect.signature(cls.__init__)  # type: ignore[misc]
        return signature.replace(parameters=list(signature.parameters.values())[1:])


def _needed(signature: inspect.Signature, kwargs: Arguments) -> str:
    """Return the arguments of a call: those that must be given or usually are, and those that were."""
    found = []
    for key, one in signature.parameters.items():
        if key == "self" or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        if key in kwargs or key in _SAMPLES:
            found.append(f"{key}={shown(kwargs.get(key, _SAMPLES.get(key)))}")
        elif one.default is one.empty:
            found.append(f"{key}=...")
    return ", ".join(found)


def require_fit(
    signature: inspect.Signature,
    name: str,
    args: tuple[Any, ...],
    kwargs: Arguments,
    *,
    example: str = "",
    places: Collection[str] = (),
    instead: Mapping[str, Replacement] | None = None,
    missing: Mapping[str, Missing] | None = None,
) -> None:
    """Refuse arguments that do not fit a signature, whose first parameter may be ``self``.

    ``places`` are the names under which other libraries' arguments are known, if not ``name`` alone.

    Raises:
        UsageError: they do not fit.
    """
    try:
        signature.bind(*args, **kwargs)
        return
    except TypeError as error:
        misfit = error
    known = {key: one for key, one in signature.parameters.items() if key != "self"}
    given = args[len(signature.parameters) - len(known) :]
    example = example or f"{name}({', '.join(f'{key}=...' for key in known)})"
    unknown = next((key for key in kwargs if key not in known), None)
    if unknown is not None:
        answers = {**(instead or {}), **argument_answers(places or (name,), known)}
        raise UsageError(_on_unknown(name, unknown, kwargs[unknown], list(known), answers, example))
    positional = [key for key, one in known.items() if one.kind is not one.KEYWORD_ONLY]
    if len(given) > len(positional):
        raise UsageError(_on_positional(name, given, positional, [key for key in known if key not in kwargs], example))
    absent = [key for key, one in known.items() if one.default is one.empty and key not in kwargs]
    absent = [key for key in absent if key not in positional[: len(given)]]
    if len(absent) == 1 and missing and absent[0] in missing:
        raise UsageError(missing[absent[0]](kwargs))
    if absent:
        raise UsageError(f"{name}() needs {' and '.join(f'{key}=' for key in absent)}: write {example}.")
    raise UsageError(f"{name}(): {misfit}. Write {example}.")


def _on_unknown(
    name: str, key: str, value: Any, known: list[str], instead: Mapping[str, Replacement], example: str
) -> str:
    head = f"{name}() got an unexpected keyword argument {key!r}"
    if key in instead:
        return f"{head}: write {instead_of(key, value, instead)}."
    if longer := _with_words_of(key, known):
        given = shown(value) if len(longer) == 1 else "..."  # it cannot be meant for all of them
        return f"{head}: write {' or '.join(f'{one}={given}' for one in longer)}{'' if given == '...' else '.'}"
    near = [one for one in (*known, *instead) if not _is_opposite(one, key)]
    close = difflib.get_close_matches(key, near, 1, cutoff=0.7)
    if close and close[0] in instead:
        return _on_unknown(name, close[0], value, known, instead, example).replace(repr(close[0]), repr(key), 1)
    if close:
        return f"{head}: write {close[0]}={shown(value)}."
    if not known:
        return f"{head}: it takes none, write {name}()."
    return f"{head}: leave it out, as in {example}."


def _with_words_of(key: str, known: list[str]) -> list[str]:
    """Return the names that have all the words of another, as ``max_failures`` has those of ``failures``."""
    words = set(key.split("_"))
    return [name for name in known if words < set(name.split("_"))]


def _is_opposite(one: str, other: str) -> bool:
    """Return whether of two names one is the least and the other the most of the same."""
    swapped = {"min": "max", "max": "min"}
    return [swapped.get(word, word) for word in one.split("_")] == other.split("_") and one != other


def _on_positional(name: str, given: tuple[Any, ...], positional: list[str], known: list[str], example: str) -> str:
    """Answer more arguments without a name than are taken, by their names if these are the next ones."""
    if not known:
        return f"{name}({', '.join(map(shown, given))}): it takes no arguments, write {name}()."
    names = known[len(positional) :] if positional else known
    extra = given[len(positional) :]
    if positional:
        return f"{name}() takes {' and '.join(positional)}, and got {len(given)} values: write {example}."
    if len(extra) > len(names):
        return f"{name}() takes its arguments by name: write {example}."
    call = ", ".join(f"{key}={shown(value)}" for key, value in zip(names, extra, strict=False))
    return f"{name}({', '.join(map(shown, given))}): it takes its arguments by name, write {name}({call})."
