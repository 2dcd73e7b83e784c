"""Whole searches of torch models in double precision: packs promote the same trials, by the same values, as none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asyncsearch import SHA, Hyperband, Study, choice, uniform
from asyncsearch.actions import Promote
from asyncsearch.journal.opening import read_records
from tests.packing.test_torch_units import Blobs
from tests.shares import first
from tests.study.test_own_pack_opt import values_in_packs
from tests.study.test_packs import lanes

SPACE = {"lr": uniform(0.01, 0.5), "momentum": uniform(0.0, 0.9), "p": uniform(0.0, 0.3), "batch_size": choice(8, 16)}


class Padded(Blobs):
    """Batches of several sizes are padded, so that they may be in one pack."""

    pack_by = ()


def searched(store: Path, kind: type[Any], scheduler: Any, **options: Any) -> Study:
    settings: dict[str, Any] = {"metric": "loss", "mode": "min", "backend": "inline", "scheduler": scheduler} | options
    return Study(kind, space=SPACE, store=store, **settings).run(17, parallelism=1, display="none")


def promotions(found: Study) -> list[tuple[Any, ...]]:
    actions = [action for record in read_records(found.store) for action in record.actions]
    return sorted((one.trial, one.from_resource, one.to_resource) for one in actions if isinstance(one, Promote))


@pytest.mark.parametrize("kind", first([Blobs, Padded]))
@pytest.mark.parametrize(
    "scheduler", [SHA(max_resource=9), Hyperband(max_resource=9, variant="synchronous")], ids=["sha", "hyperband"]
)
def test_synchronous_searches_promote_the_same_trials_packed_as_alone(
    tmp_path: Path, kind: type[Any], scheduler: Any
) -> None:
    alone = searched(tmp_path / "alone", kind, scheduler)
    packed = searched(tmp_path / "packed", kind, scheduler, pack=4)
    assert max(lanes(packed)) > 2
    assert (max(map(len, values_in_packs(packed, "batch_size"))) == 2) == (kind is Padded)
    assert promotions(packed) == promotions(alone) != []
    for trial, other in zip(packed.trials, alone.trials, strict=True):
        assert [resource for resource, _ in packed.history(trial)] == [resource for resource, _ in alone.history(other)]
        for (_, metrics), (_, expected) in zip(packed.history(trial), alone.history(other), strict=True):
            assert metrics == pytest.approx(expected, abs=1e-9)
