"""When compiling the step of a pack pays."""

from __future__ import annotations

import math

import pytest

from asyncsearch.trainers.compile_rule import MARGIN, CompileTimes, is_faster, pays, steps_to_break_even

KNOWN = CompileTimes(eager_s=0.001, compiled_s=0.0005, cost_s=10.0)


def test_it_pays_once_what_is_saved_is_a_multiple_of_what_it_takes() -> None:
    even = steps_to_break_even(KNOWN)
    assert even == pytest.approx(20_000)
    assert not pays(KNOWN, MARGIN * even)
    assert pays(KNOWN, MARGIN * even * 1.001)


def test_a_short_search_of_small_models_never_compiles() -> None:
    epochs, batches_an_epoch = 81, 45
    assert not pays(CompileTimes(eager_s=0.001), epochs * batches_an_epoch)
    assert pays(CompileTimes(eager_s=0.001), 200_000)


def test_what_is_slower_compiled_never_pays_and_is_not_used() -> None:
    slower = CompileTimes(eager_s=0.001, compiled_s=0.002, cost_s=0.0)
    assert not pays(slower, math.inf)
    assert not is_faster(slower)
    assert steps_to_break_even(slower) == math.inf
    assert not is_faster(CompileTimes(eager_s=0.001, compiled_s=0.00095))
    assert is_faster(KNOWN)
