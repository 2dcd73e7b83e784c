"""Generators are a function of (seed, purpose, number), and their values never change."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.randomness import below, generator
from asyncsearch.testing.instruction_count import instructions


@pytest.mark.parametrize(
    ("seed", "purpose", "number", "drawn"),
    [
        (0, "searchers.random", 0, [0.12751499974523461, 0.37273698436256897, 0.1274656330380256]),
        (0, "searchers.random", 1, [0.3360917324636211, 0.6738253378462523, 0.5913943231344545]),
        (1, "searchers.random", 0, [0.9826468868694378, 0.8391959659360115, 0.2692156674395063]),
        (2**63 - 1, "", 10**9, [0.27034414557039654, 0.48057874295194514, 0.9128464372008893]),
    ],
)
def test_values_never_change_between_releases(seed: int, purpose: str, number: int, drawn: list[float]) -> None:
    source = generator(seed, purpose, number)
    assert [source.random() for _ in range(3)] == drawn


def test_integers_never_change_between_releases() -> None:
    source = generator(0, "test", 0)
    assert [below(source, 10) for _ in range(12)] == [1, 2, 4, 9, 3, 1, 7, 6, 4, 3, 9, 2]
    assert below(source, 2**64) == 14057860441351661475
    assert below(source, 10**40) == 254077581552595139453843952753874952147


@settings(deadline=None)
@given(st.integers(), st.text(), st.integers())
def test_draw_depends_on_nothing_but_its_key(seed: int, purpose: str, number: int) -> None:
    first = generator(seed, purpose, number)
    generator(seed, purpose, number + 1).random(7)
    assert first.random() == generator(seed, purpose, number).random()


def test_different_keys_have_different_draws() -> None:
    keys = [(seed, purpose, number) for seed in range(12) for purpose in ("a", "1/a", "") for number in range(12)]
    assert len({generator(*key).random() for key in keys}) == len(keys)


def test_numbers_of_numpy_are_the_same_keys() -> None:
    assert generator(np.int64(3), "a", np.int32(4)).random() == generator(3, "a", 4).random()  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.integers(1, 2**70), st.integers(0, 1000))
def test_below_stays_below(count: int, number: int) -> None:
    assert 0 <= below(generator(0, "test", number), count) < count


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 10])
def test_below_reaches_every_integer_alike(count: int) -> None:
    source = generator(0, "test.alike", count)
    drawn = np.bincount([below(source, count) for _ in range(1000 * count)], minlength=count)
    chi_square = ((drawn - 1000) ** 2 / 1000).sum()
    assert chi_square < count - 1 + 4 * (2 * count) ** 0.5


def test_below_reaches_the_low_bits_of_large_ranges() -> None:
    source = generator(0, "test.large", 0)
    drawn = [below(source, 2**64) for _ in range(200)]
    assert {value % 8 for value in drawn} == set(range(8))
    assert {value >> 61 for value in drawn} == set(range(8))


def test_making_a_generator_is_cheap() -> None:
    make = partial(generator, 1, "searchers.random", 2)
    assert make().random() == make().random()
    assert instructions(make) < 300  # 103 with Python 3.11
