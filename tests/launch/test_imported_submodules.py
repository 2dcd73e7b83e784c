"""The submodules that a function uses are found by their names: the same as by cloudpickle's look at all modules."""

from __future__ import annotations

import concurrent.futures
import importlib.metadata
import itertools
import logging.handlers
import sys
import types
import xml.etree.ElementTree
from typing import Any

import cloudpickle.cloudpickle
import pytest

from asyncsearch.launch.imported_submodules import found_by_name, imported_submodules

by_looking_at_all: Any = cloudpickle.cloudpickle._find_imported_submodules


def uses_one() -> object:
    return concurrent.futures.Future


def uses_a_module_in_two() -> object:
    return xml.etree.ElementTree.Element


def uses_several() -> object:
    return importlib.metadata, importlib.util, importlib.abc, logging.handlers


def uses_none() -> object:
    return itertools.count, sys.path


@pytest.mark.parametrize("function", [uses_one, uses_a_module_in_two, uses_several, uses_none])
def test_the_same_are_found_in_the_same_order(function: types.FunctionType) -> None:
    used = [value for name in function.__code__.co_names if (value := globals().get(name)) is not None]
    found = imported_submodules(function.__code__, used)
    assert found == by_looking_at_all(function.__code__, used)
    assert bool(found) == (function is not uses_none)


def test_cloudpickle_is_left_as_it_was() -> None:
    with found_by_name():
        assert cloudpickle.cloudpickle._find_imported_submodules is imported_submodules
    assert cloudpickle.cloudpickle._find_imported_submodules is by_looking_at_all
