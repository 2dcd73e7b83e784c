"""Data without some of its columns, or with one value in them. No import of pandas or Spark: data brings its own."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from asyncsearch.ablation import fits
from asyncsearch.errors import UsageError

_SPARK_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def without(data: Any, dropped: Collection[str], filled: Collection[str], constants: dict[str, Any]) -> Any:
    """Return data without columns; see ``TrialAblation.data``.

    Args:
        data: a frame, a mapping of arrays, an array of rows, or a tuple that begins with one of these.
        dropped: columns to leave out, or patterns of their names.
        filled: columns whose values become one constant, or patterns of their names.
        constants: the constants of earlier data, which this adds to.
    """
    if isinstance(data, tuple):
        return (without(data[0], dropped, filled, constants), *data[1:])
    if isinstance(data, Mapping):
        dropped, filled = _chosen([*map(str, data)], dropped, filled)
        kept = {name: part for name, part in data.items() if str(name) not in dropped}
        return kept | {name: _constant(data[name], str(name), constants) for name in kept if str(name) in filled}
    kinds = {base.__module__.partition(".")[0] for base in type(data).__mro__}
    if "pandas" in kinds and hasattr(data, "columns"):
        return _of_pandas(data, dropped, filled, constants)
    if "pyspark" in kinds and hasattr(data, "columns"):
        return _of_spark(data, dropped, filled, constants)
    if kinds & {"numpy", "torch"} and len(data.shape) >= 2:
        return _of_array(data, dropped, filled, constants)
    raise UsageError(
        f"A {type(data).__name__} has no columns that could be left out: data() takes a pandas or Spark DataFrame, a "
        "mapping of names to arrays, an array with rows and columns, or a tuple whose first element is one of these."
    )


def _of_pandas(data: Any, dropped: Collection[str], filled: Collection[str], constants: dict[str, Any]) -> Any:
    """Return a frame without columns, by the texts of their labels, which may be numbers or the tuples of a MultiIndex.

    A column of labels that occur twice, as of a join, is dropped or filled as often.
    """
    texts = [str(label) for label in data.columns]
    dropped, filled = _chosen(texts, dropped, filled)
    found = data.loc[:, [text not in dropped for text in texts]].copy()
    for place, text in enumerate(text for text in texts if text not in dropped):
        if text in filled:
            column = found.iloc[:, place]
            constant = _most_usual(column, text, constants)
            found.isetitem(place, _repeated(column, constant))
    return found


def _repeated(column: Any, constant: Any) -> Any:
    """Return a pandas column of one value: of its kind, such as categories, but of floats where it was of integers."""
    values = type(column)([constant] * len(column), index=column.index)
    return values if column.dtype.kind in "iufc" else values.astype(column.dtype)


def _of_array(data: Any, dropped: Collection[str], filled: Collection[str], constants: dict[str, Any]) -> Any:
    """Return an array, of numpy or torch, without columns, which are numbers along its last axis."""
    width = data.shape[-1]
    names = [str(number) for number in range(width)]
    dropped, filled = _chosen(names, dropped, filled)
    kept = [number for number, name in enumerate(names) if name not in dropped]
    found = data[..., kept]  # a copy, both in numpy and in torch
    for name in filled:
        at = kept.index(int(name))
        if name not in constants:
            column = data[..., int(name)]
            constants[name] = _usual(column.reshape(-1)) if isinstance(data, np.ndarray) else column.double().nanmean()
        found[..., at] = constants[name]
    return found


def _of_spark(data: Any, dropped: Collection[str], filled: Collection[str], constants: dict[str, Any]) -> Any:
    dropped, filled = _chosen(data.columns, dropped, filled)
    types = dict(data.dtypes)
    for name in filled:
        if name not in constants:
            column = data.selectExpr(f"{_quoted(name)} as value").where("value is not null")
            if types[name].startswith(_SPARK_NUMBERS):
                constants[name] = column.where("not isnan(cast(value as double))").selectExpr("avg(value)").first()[0]
            else:
                usual = column.groupBy("value").count().orderBy("count", "value", ascending=False).first()
                constants[name] = None if usual is None else usual[0]
    columns = [
        f"cast({_literal(constants[name])} as {types[name]}) as {_quoted(name)}" if name in filled else _quoted(name)
        for name in data.columns
        if name not in dropped
    ]
    return data.selectExpr(*columns)


def _quoted(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def _literal(value: Any) -> str:
    if value is None:
        return "null"
    text = str(value)
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool) and math.isfinite(value):
        return text
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")  # also of dates, which cast() reads as texts
    return f"'{escaped}'"


def _most_usual(column: Any, name: str, constants: dict[str, Any]) -> Any:
    """Return the mean of a pandas column, or its most frequent value where it has no mean; missing ones apart."""
    if name not in constants:
        is_number = column.dtype.kind in "iufc"
        usual = [column.mean()] if is_number else column.mode().iloc[:1].tolist()
        constants[name] = usual[0] if usual else None
    return constants[name]


def _usual(column: Any) -> Any:
    """Return the mean row of an array, or the most frequent one where there is no mean; missing ones apart."""
    if column.dtype.kind in "iufc":
        missing = np.isnan(column)
        count = (~missing).sum(axis=0)
        return np.where(missing, 0, column).sum(axis=0) / np.where(count, count, np.nan)
    texts, places, counts = np.unique(column.astype(str), axis=0, return_index=True, return_counts=True)
    del texts
    return column[places[counts.argmax()]]


def _constant(part: Any, name: str, constants: dict[str, Any]) -> Any:
    """Return an array in which every row is the mean row, or the most frequent one where there is no mean."""
    array = np.asarray(part)
    if name not in constants:
        constants[name] = _usual(array)
    kind = float if array.dtype.kind in "iu" else array.dtype
    found = np.broadcast_to(np.asarray(constants[name], kind), array.shape).copy()
    return found if isinstance(part, np.ndarray) or not hasattr(part, "new_tensor") else part.new_tensor(found)


def _chosen(
    known: Sequence[str], dropped: Collection[str], filled: Collection[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names of the columns to leave out and to fill."""
    found = _named(known, dropped), _named(known, filled)
    if all(name in found[0] for name in known):
        raise UsageError("Every column of the data would be left out: leave features out one by one, or fill=True.")
    return found


def _named(known: Sequence[str], patterns: Collection[str]) -> Sequence[str]:
    """Return the columns that patterns fit; a pattern that is the name of a column is that column alone."""
    found = dict.fromkeys(
        name for pattern in patterns for name in ([pattern] if pattern in known else known) if fits(name, pattern)
    )
    unknown = next((one for one in patterns if one not in known and not any(fits(name, one) for name in known)), None)
    if unknown is not None:
        shown = ", ".join(map(repr, list(known)[:8])) + (", ..." if len(known) > 8 else "")
        raise UsageError(f"The data has no column {unknown!r}: it has {shown}. Correct Ablation(features=[...]).")
    return [*found]
