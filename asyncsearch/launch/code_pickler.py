"""Pickles functions and classes by value, with the file that their code is from."""

from __future__ import annotations

import io
import types
from typing import Any

import cloudpickle

_reduced = cloudpickle.Pickler.dispatch_table[types.CodeType]


def _reduce_code(code: types.CodeType) -> tuple[Any, ...]:
    # cloudpickle from 3.1.3 writes "<dynamic-code>" in place of the file: tracebacks of workers would lack the lines,
    # and a resumed study would describe its functions in other words than the script does.
    make, arguments, *rest = _reduced(code)
    file = next(index for index, argument in enumerate(arguments) if isinstance(argument, str))
    return make, (*arguments[:file], code.co_filename, *arguments[file + 1 :]), *rest


class CodePickler(cloudpickle.Pickler):  # type: ignore[misc]
    """``cloudpickle.Pickler`` that keeps the name of each function's file, in every version of cloudpickle."""

    dispatch_table = cloudpickle.Pickler.dispatch_table.new_child({types.CodeType: _reduce_code})


def dumps(value: object) -> bytes:
    """Pickle a value for ``pickle.loads``, which needs cloudpickle installed."""
    buffer = io.BytesIO()
    CodePickler(buffer).dump(value)
    return buffer.getvalue()
