"""Checks of the users' arguments: each error names the argument, its value and the line to write instead."""

from __future__ import annotations

import abc
import difflib
import functools
import inspect
import keyword
import math
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any, ParamSpec, SupportsFloat, SupportsIndex, TypeVar

from asyncsearch.errors import UsageError
from asyncsearch.sentences import in_sentences

P = ParamSpec("P")
T = TypeVar("T")

Replacement = str | Callable[[Any], str]
"""What to write instead of an argument: text, in which ``{value}`` is the value given; or a function of that value."""
Arguments = Mapping[str, Any]
Missing = Callable[[Arguments], str]
"""Returns what is wrong and what to write, from the arguments that were given."""


MOST = 2**53 - 1
"""The largest count: exact in JSON and as a float."""
MOST_WORKERS = 100_000
_LONGEST_S = 30 * 365.25 * 86_400
_SHOWN_BITS = 200

_OF_REPORT = ("self", "metrics", "resource")
"""Names that ``trial.report`` takes as its own arguments, not as metrics."""


def metric_in_call(metric: str, value: object = "...") -> str:
    """Return the argument that reports a metric, ``loss=0.5``, or ``{'val/loss': 0.5}`` where its name is no keyword.

    ``value`` is a text, as it is to stand in the call.
    """
    if metric.isidentifier() and not keyword.iskeyword(metric) and metric not in _OF_REPORT:
        return f"{metric}={value}"
    return metric_in_mapping(metric, value)


def metric_in_mapping(metric: str, value: object = "...") -> str:
    """Return ``{'loss': 0.5}``, as a function returns a metric."""
    return f"{{{metric!r}: {value}}}"


def checked(value: Any, kind: type[Any], name: str) -> Any:
    """Return the value if it is an instance of the class."""
    if isinstance(value, kind):
        return value
    if isinstance(value, type) and issubclass(value, kind):
        hint = f"{value.__name__}(...)"
    elif inspect.isabstract(kind):
        hint = f"an object of a class derived from {kind.__name__}"
    else:
        hint = f"{kind.__name__}(...)"
    raise UsageError(f"{name}={value!r} is not a {kind.__name__}: write {hint}.")


def yes_or_no(name: str, value: object) -> bool:
    """Return True or False; a word such as "no", which would count as True, is refused."""
    if type(value).__name__ in ("bool", "bool_"):  # also numpy's, which runners do not import
        return bool(value)
    raise UsageError(f"{name}={value!r} is neither True nor False: write {name}=True or {name}=False.")


def finite_number(name: str, value: object) -> float:
    """Return a number that is neither NaN nor infinite."""
    if not math.isfinite(number := _number(value)):
        raise UsageError(f"{name}={written(value)} must be a finite number, e.g. {name}=0.5.")
    return number


def not_negative(name: str, value: object) -> float:
    """Return a finite number that is not negative."""
    if not 0 <= (number := _number(value)) < math.inf:
        raise UsageError(f"{name}={written(value)} must be a finite number from 0: write {name}=0 for none.")
    return number


def above_zero(name: str, value: object) -> float:
    """Return a positive, finite number."""
    if not 0 < (number := _number(value)) < math.inf:
        raise UsageError(f"{name}={written(value)} must be a positive, finite number, e.g. {name}=1.0.")
    return number


def weight_of(name: str, value: object) -> float:
    """Return a weight, from 1e-6 to 1e6: with others beyond, sums and parts of all weights lose their last digits."""
    if not 1e-6 <= (number := above_zero(name, value)) <= 1e6:
        raise UsageError(
            f"{name}={written(value)} must be from 1e-6 to 1e6: only their proportion counts, e.g. {name}=2."
        )
    return number


def seconds_of(name: str, value: object) -> float:
    """Return a positive duration in seconds, of 30 years at most: timers take no others."""
    seconds = _number(value.total_seconds() if isinstance(value, timedelta) else value)
    if not 0 < seconds < math.inf:
        raise UsageError(
            f"{name}={written(value)} must be a positive, finite number of seconds, or a timedelta: write {name}=3600."
        )
    if seconds > _LONGEST_S:
        raise UsageError(f"{name}={written(value)} is more than 30 years: write seconds, e.g. {name}=3600.")
    return seconds


def _number(value: object) -> float:
    """Return a number unchanged, NaN for any other value, and infinity for a number beyond the range of floats."""
    try:
        return float(value) if isinstance(value, SupportsFloat) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.inf


def count_of(name: str, value: object) -> int:
    """Return an integer from 0 to 2**53 - 1, which JSON and floats hold exactly."""
    if (number := _integer(value)) < 0:
        raise UsageError(f"{name}={written(value)} must be an integer from 0, e.g. {name}=3.")
    return _at_most(name, number, MOST)


def positive(name: str, value: object, example: object = 4, most: int | None = None) -> int:
    """Return a positive integer of at most ``most``, or 2**53 - 1; ``example`` is one of its size."""
    number = _integer(value)
    if number < 1:
        example = value if isinstance(value, str) and value.isdecimal() and int(value) else example
        raise UsageError(f"{name}={written(value)} must be a positive integer, e.g. {name}={example}.")
    return _at_most(name, number, MOST if most is None else most)


def workers_of(name: str, value: object) -> int:
    """Return a number of workers."""
    return positive(name, value, most=MOST_WORKERS)


def integer_of(name: str, value: object) -> int:
    """Return an integer from -(2**53 - 1) to 2**53 - 1."""
    if not isinstance(value, SupportsIndex) or isinstance(value, bool):
        raise UsageError(f"{name}={value!r} must be an integer, e.g. {name}=1.")
    number = value.__index__()
    _at_most(name, abs(number), MOST)
    return number


def _at_most(name: str, number: int, most: int) -> int:
    if number > most:
        raise UsageError(f"{name}={written(number)} is too large: it must be at most {most:,}.")
    return number


def written(value: object) -> str:
    """Return a value as it is written, but of a very long number how long it is: Python writes out none."""
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"(a number of {value.bit_length():,} bits)"
    return repr(value)


def _integer(value: object) -> int:
    """Return an integer unchanged, and -1 for any other value."""
    return value.__index__() if isinstance(value, SupportsIndex) and not isinstance(value, bool) else -1


def text_of(name: str, value: object) -> str:
    """Return text."""
    if not isinstance(value, str):
        raise UsageError(f"{name}={value!r} must be text: write e.g. {name}={str(value)!r}.")
    if not is_unicode(value):
        raise UsageError(f"{name}={value!r} is not valid Unicode, so it cannot be written to a file: write other text.")
    return value


def is_unicode(text: str) -> bool:
    """Return whether text can be written to a file; the lone surrogates of undecodable bytes cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def enough(parallelism: int | None, num_trials: int | None) -> int | None:
    """Return at most as many workers as there are trials: more would never get work."""
    if parallelism is None or num_trials is None:
        return parallelism
    return min(parallelism, num_trials)


def grouped(**groups: type[Any]) -> dict[str, Replacement]:
    """Return the answers for arguments that belong to a group: what to write is the group with them."""

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
        instead: argument that it does not have -> what to write instead.
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

    A class may have ``_instead(known)``, which returns what to write instead of arguments that it does not take, and
    ``_unnamed``, which says what to write instead of arguments without a name.
    """

    @in_sentences()
    def __call__(cls: type[T], *args: Any, **kwargs: Any) -> T:
        """Make an object.

        Raises:
            UsageError: the arguments do not fit; the message holds the call to write.
        """
        signature = inspect.signature(cls.__init__)
        example = f"{cls.__name__}({_needed(signature, kwargs)})"
        instead_of: Callable[[Collection[str]], Mapping[str, Replacement]] | None = getattr(cls, "_instead", None)
        instead = None if instead_of is None else instead_of(signature.parameters)
        unnamed: str = getattr(cls, "_unnamed", "")
        if args and unnamed:
            answer = unnamed.format(value=shown(args[0]))
            raise UsageError(f"{cls.__name__}({', '.join(map(shown, args))}): {answer}.")
        require_fit(signature, cls.__name__, (None, *args), kwargs, example=example, instead=instead)
        return super().__call__(*args, **kwargs)  # type: ignore[misc, no-any-return]

    @property
    def __signature__(cls) -> inspect.Signature:
        """The arguments of the class for help and completion, which would read those of ``__call__``."""
        signature = inspect.signature(cls.__init__)  # type: ignore[misc]
        return signature.replace(parameters=list(signature.parameters.values())[1:])


_SAMPLES = {"max_resource": 81, "perturbation_interval": 5}
"""Values of arguments that an example has, where they are not given."""


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
    instead: Mapping[str, Replacement] | None = None,
    missing: Mapping[str, Missing] | None = None,
) -> None:
    """Refuse arguments that do not fit a signature, whose first parameter may be ``self``.

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
        raise UsageError(_on_unknown(name, unknown, kwargs[unknown], list(known), instead or {}, example))
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
    answer = instead.get(key)
    if answer is not None:
        return f"{head}: write {answer(value) if callable(answer) else answer.format(value=shown(value))}."
    close = difflib.get_close_matches(key, [*known, *instead], 1, cutoff=0.7)
    if close and close[0] in instead:
        return _on_unknown(name, close[0], value, known, instead, example).replace(repr(close[0]), repr(key), 1)
    if close:
        return f"{head}: write {close[0]}={shown(value)}."
    if not known:
        return f"{head}: it takes none, write {name}()."
    return f"{head}: leave it out, as in {example}."


def _on_positional(name: str, given: tuple[Any, ...], positional: list[str], known: list[str], example: str) -> str:
    """Replacement more arguments without a name than are taken, by their names if these are the next ones."""
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


def shown(value: Any) -> str:
    """Return a value as it would be written, or dots for one that is long."""
    text = written(value)
    return text if len(text) <= 60 and "<" not in text else "..."
