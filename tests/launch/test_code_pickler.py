"""Code that is sent or stored names its file, whatever version of cloudpickle is installed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from asyncsearch.launch.value_pickler import dumps


def functions() -> list[Callable[..., Any]]:
    def outer() -> Callable[[], int]:
        return lambda: 1

    class Local:
        def method(self) -> None:
            pass

    return [outer, outer(), Local().method, lambda a, /, *b, c=1, **d: (yield a)]


def test_a_copied_function_names_the_file_and_the_line_of_its_original() -> None:
    for function in functions():
        copied = pickle.loads(dumps(function))
        assert copied.__code__ is not function.__code__
        assert copied.__code__ == function.__code__
        assert copied.__code__.co_filename == __file__


def test_functions_within_a_copied_function_name_their_file_too() -> None:
    copied = pickle.loads(dumps(functions()[0]))
    assert copied().__code__.co_filename == __file__
