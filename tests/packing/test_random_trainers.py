"""Trainers of a grammar of what users write report the same in packs as alone, whatever their hooks do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.packing.trainer_grammar import PIECES, Drawn, drawn, histories, with_piece
from tests.packing.trainer_hooks import CHANGES
from tests.shares import IS_ALL

SEEDS = range(300 if IS_ALL else 3)
HOOKS = ("evaluate", "update", "save")
SOME = [
    *(piece for piece in PIECES if piece[0] not in HOOKS or piece[1] not in CHANGES),
    *((HOOKS[number % len(HOOKS)], name) for number, name in enumerate(CHANGES)),
]
"""Each piece once; the test command runs every eighteenth."""
NEAR = 1e-7
"""Rounding grows with the steps, and most where an optimizer divides by the size of a gradient."""
Reports = Sequence[tuple[int, Mapping[str, float]]]


def gap(one: Reports, other: Reports) -> float:
    """Return the largest difference, as a share of a value; infinite where not the same is reported."""
    if [(at, list(metrics)) for at, metrics in one] != [(at, list(metrics)) for at, metrics in other]:
        return math.inf
    pairs = [
        (a, b)
        for mine, its in zip(one, other, strict=True)
        for a, b in zip(mine[1].values(), its[1].values(), strict=True)
    ]
    gaps = [abs(a - b) / max(1e-3, abs(a)) for a, b in pairs if a != b and not (math.isnan(a) and math.isnan(b))]
    return math.inf if any(map(math.isnan, gaps)) else max(gaps, default=0.0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_drawn_trainer_reports_the_same_in_a_pack_as_alone(seed: int, tmp_path: Path) -> None:
    require_same(drawn(seed), tmp_path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("what", "name"), PIECES if IS_ALL else SOME[::18])
def test_each_piece_of_the_grammar_means_the_same_in_a_pack_as_alone(what: str, name: str, tmp_path: Path) -> None:
    require_same(with_piece(what, name), tmp_path)


def require_same(one: Drawn, tmp_path: Path) -> None:
    (fails_alone, alone), (fails_packed, packed) = (
        histories(one, tmp_path / str(where), is_packed=where) for where in (False, True)
    )
    assert fails_alone == fails_packed, one.words
    assert alone, one.words
    if fails_alone:  # The search ends at its third failure, wherever other lanes of a pack are by then.
        begun = [(mine, its) for mine, its in zip(alone, packed, strict=False) if mine and its]
        assert gap(alone[0], packed[0]) < NEAR, one.words
        alone, packed = ([mine[: len(its)] for mine, its in begun], [its[: len(mine)] for mine, its in begun])
    assert len(alone) == len(packed), one.words
    assert max(map(gap, alone, packed), default=0.0) < NEAR, one.words
