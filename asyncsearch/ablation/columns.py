"""Data without some of its columns, or with one value in them. No import of pandas or Spark: data brings its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from asyncsearch.errors import UsageError


def without(data: Any, dropped: Collection[str], filled: Collection[str], constants: dict[str, Any]) -> Any:
    """Return data without columns; see ``TrialAblation.data``.

    Args:
        data: a frame, a mapping of arrays, an array of rows, or a tuple that begins with one of these.
        dropped: columns to leave out.
        filled: columns whose values become one constant.
        constants: the constants of earlier data, which this adds to.
    """
    if isinstance(data, tuple):
        return (without(data[0], dropped, filled, constants), *data[1:])
    if isinstance(data, Mapping):
        _require(data, [*dropped, *filled])
        kept = {name: part for name, part in data.items() if name not in dropped}
        return kept | {name: _constant(data[name], name, constants) for name in filled}
    kind = type(data).__module__.partition(".")[0]
    if kind == "pandas":
        _require(list(data.columns), [*dropped, *filled])
        return data.drop(columns=list(dropped)).assign(
            **{name: _most_usual(data[name], name, constants) for name in filled}
        )
    if kind == "pyspark":
        return _of_spark(data, dropped, filled, constants)
    if hasattr(data, "shape") and len(data.shape) >= 2:
        return _of_array(data, dropped, filled, constants)
    raise UsageError(
        f"A {type(data).__name__} has no columns that could be left out: data() takes a pandas or Spark DataFrame, a "
        "mapping of names to arrays, an array with rows and columns, or a tuple whose first element is one of these."
    )


def _of_array(data: Any, dropped: Collection[str], filled: Collection[str], constants: dict[str, Any]) -> Any:
    """Return an array, of numpy or torch, without columns, which are numbers along its last axis."""
    width = data.shape[-1]
    names = [str(number) for number in range(width)]
    _require(names, [*dropped, *filled])
    kept = [number for number, name in enumerate(names) if name not in dropped]
    if not kept:
        raise UsageError("Every column of the data would be left out: leave features out one by one, or fill=True.")
    found = data[..., kept]  # a copy, both in numpy and in torch
    for name in filled:
        at = kept.index(int(name))
        found[..., at] = constants.setdefault(
            name,
            data[..., int(name)].astype(float).mean()
            if isinstance(data, np.ndarray)
            else data[..., int(name)].double().mean(),
        )
    return found


def _of_spark(data: Any, dropped: Collection[str], filled: Collection[str], constants: dict[str, Any]) -> Any:
    _require(data.columns, [*dropped, *filled])
    types = dict(data.dtypes)
    for name in filled:
        if name not in constants:
            quoted = _quoted(name)
            if types[name] in ("string", "boolean"):
                usual = data.groupBy(name).count().orderBy("count", name, ascending=False).first()
                constants[name] = None if usual is None else usual[0]
            else:
                constants[name] = data.selectExpr(f"avg({quoted})").first()[0]
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
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    return "null" if value is None else str(value)


def _most_usual(column: Any, name: str, constants: dict[str, Any]) -> Any:
    """Return the mean of a pandas column, or its most frequent value where it has no mean."""
    if name not in constants:
        constants[name] = column.mean() if column.dtype.kind in "iufc" else column.mode().iloc[0]
    return constants[name]


def _constant(part: Any, name: str, constants: dict[str, Any]) -> Any:
    """Return an array in which every row is the mean row, or the most frequent one where there is no mean."""
    array = np.asarray(part)
    if name not in constants:
        if array.dtype.kind in "iufc":
            constants[name] = array.mean(axis=0)
        else:
            values, counts = np.unique(array, axis=0, return_counts=True)
            constants[name] = values[counts.argmax()]
    kind = float if array.dtype.kind in "iu" else array.dtype
    found = np.broadcast_to(np.asarray(constants[name], kind), array.shape).copy()
    return found if isinstance(part, np.ndarray) or not hasattr(part, "new_tensor") else part.new_tensor(found)


def _require(known: Collection[str], names: Collection[str]) -> None:
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        shown = ", ".join(map(repr, list(known)[:8])) + (", ..." if len(known) > 8 else "")
        raise UsageError(f"The data has no column {unknown!r}: it has {shown}. Correct Ablation(features=[...]).")
