"""What a trainable reaches is read from its code."""

from __future__ import annotations

import dis
import gc
import types

from asyncsearch.launch.reach import _global_names


def names_by_dis(code: types.CodeType) -> set[str]:
    found = {str(one.argval) for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"}
    return found.union(*(names_by_dis(inner) for inner in code.co_consts if isinstance(inner, types.CodeType)))


def function_with_many_globals() -> types.CodeType:
    """Return a code with more names than one byte counts."""
    names = [f"name_{number}" for number in range(600)]
    return compile("def read():\n    return " + ", ".join(names), "many", "exec")


def test_globals_of_a_code_are_those_that_dis_finds() -> None:
    # Not isinstance, which asks objects of frameworks for their class, and they warn.
    functions = [one for one in gc.get_objects() if type(one) is types.FunctionType][::20]
    for code in [function_with_many_globals(), *(function.__code__ for function in functions)]:
        assert _global_names(code) == names_by_dis(code), code
