"""The digest of a function changes with what it does, and with nothing else."""

from __future__ import annotations

import functools
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np
import pytest

from asyncsearch.values.function_code import code_digest, parts_digests

MODULE = """
import functools, math
import numpy as np

PEAK = 0.5
NAMES = {"b", "a", "c"}

def helper(x):
    return x * PEAK

class Shape:
    low = 1
    def at(self, x):
        return helper(x) + self.low

def make(height):
    table = np.arange(3)
    def captured(time):
        return height * table[0]
    return captured

def rate(time, height=2):
    'A rate.'
    # A comment.
    if height in ("x", "y"):
        return Shape().at(time)
    return [math.sin(t) for t in (time, len(NAMES))][0] * make(3)(time)

closure = make(3)
"""


def digest_of(source: str, name: str = "rate") -> str:
    namespace: dict[str, Any] = {"__name__": "user_code"}
    exec(source, namespace)
    return code_digest(namespace[name])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("* PEAK", "+ PEAK"),
        ("PEAK = 0.5", "PEAK = 0.25"),
        ('"b", "a", "c"', '"b", "a"'),
        ("low = 1", "low = 2"),
        ("+ self.low", "- self.low"),
        ("height=2", "height=3"),
        ('("x", "y")', '("x", "z")'),
        ("math.sin", "math.cos"),
        ("np.arange(3)", "np.arange(4)"),
        ("make(3)(time)", "make(4)(time)"),
        ("in (time,", "in (-time,"),
    ],
)
def test_an_edit_changes_the_digest(old: str, new: str) -> None:
    assert MODULE.count(old) == 1
    assert digest_of(MODULE) != digest_of(MODULE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# A comment.", "# Another comment.\n\n"),
        ("'A rate.'", "'The rate of learning.'"),
        ("PEAK = 0.5", "UNUSED = 3\nPEAK = 0.5"),
        ('"b", "a", "c"', '"c", "b", "a"'),
        ("def make(height):", "def unused():\n    return 1\n\ndef make(height):"),
    ],
)
def test_what_has_no_effect_leaves_the_digest(old: str, new: str) -> None:
    assert MODULE.count(old) == 1
    assert digest_of(MODULE) == digest_of(MODULE.replace(old, new))


@pytest.mark.parametrize(("old", "new"), [("closure = make(3)", "closure = make(4)"), ("arange(3)", "ones(3)")])
def test_captured_values_count(old: str, new: str) -> None:
    assert digest_of(MODULE, "closure") != digest_of(MODULE.replace(old, new), "closure")
    assert digest_of(MODULE, "closure") == digest_of(MODULE + "\n", "closure")


def test_another_process_and_a_pickled_copy_have_the_same_digest() -> None:
    mine = digest_of(MODULE)
    code = f"""
from asyncsearch.values.function_code import code_digest
namespace = {{"__name__": "user_code"}}
exec({MODULE!r}, namespace)
print(code_digest(namespace["rate"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == mine
    namespace: dict[str, Any] = {"__name__": "user_code"}
    exec(MODULE, namespace)
    assert code_digest(pickle.loads(cloudpickle.dumps(namespace["closure"]))) == digest_of(MODULE, "closure")


class Bump:
    def __init__(self, height: float) -> None:
        self.height = height
        self.me = self

    def __call__(self, time: float) -> float:
        return self.height

    def at(self, time: float) -> float:
        return self.height


def power(time: float, exponent: float) -> float:
    return time**exponent if exponent else power(time, 1)


@pytest.mark.parametrize(
    "make",
    [
        Bump,
        lambda height: Bump(height).at,
        lambda height: functools.partial(power, exponent=height),
        lambda height: functools.lru_cache(lambda time: height),
        lambda height: lambda time: [Bump(height)],
        lambda height: lambda time, given=np.float32(height): given,  # noqa: B008
        lambda height: lambda time, *, given=np.array([height, None], dtype=object): given,  # noqa: B008
    ],
)
def test_every_kind_of_callable_counts_with_what_it_holds(make: Callable[[float], Callable[..., Any]]) -> None:
    assert code_digest(make(1)) == code_digest(make(1)) != code_digest(make(2))


def test_a_function_that_is_installed_counts_by_its_name() -> None:
    assert code_digest(math.sin) == code_digest(math.sin) != code_digest(math.cos)
    assert code_digest(np.sin) == code_digest(np.sin) != code_digest(np.cos)


def test_the_parts_of_a_trainable_are_its_own_helpers_and_constants() -> None:
    namespace: dict[str, Any] = {"__name__": "user_code"}
    exec(MODULE, namespace)
    before = parts_digests(namespace["rate"])
    assert set(before) == {"PEAK", "Shape", "helper", "make", "rate"}
    exec(MODULE.replace("x * PEAK", "x / PEAK"), namespace)
    after = parts_digests(namespace["rate"])
    assert {name for name in before if before[name] != after[name]} == {"helper"}


def test_data_that_a_trainable_captures_is_not_read() -> None:
    def over(data: object) -> dict[str, str]:
        return parts_digests(lambda trial: data)

    assert over(np.arange(3)) == over(np.arange(4))
    assert over([[0] * 1000] * 1000)
