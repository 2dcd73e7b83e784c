"""``pack="auto"`` begins with what another study of the same code has timed: in a shared folder, or on one cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, Cluster, Study, uniform
from asyncsearch.events import PacksTimed
from asyncsearch.journal.opening import read_records
from tests.study.test_packs import Fixed, lanes, measured, shown


def made(store: Path, trainable: Any = Fixed, **options: Any) -> Study:
    return Study(
        trainable,
        space={"rate": uniform(0.1, 0.9)},
        metric="loss",
        mode="min",
        scheduler=FIFO(max_resource=2),
        store=store,
        pack="auto",
        **options,
    )


def timed(found: Study) -> list[PacksTimed]:
    return [event for record in read_records(found.store) if isinstance(event := record.event, PacksTimed)]


def test_studies_of_one_version_begin_with_the_times_of_the_one_before(tmp_path: Path) -> None:
    def run(name: str, seed: int) -> Study:
        study = made(tmp_path / name, name=name, version="1", seed=seed, backend="processes")
        return study.run(19, parallelism=1, display="none")

    first, second = run("first", 1), run("second", 2)
    assert timed(first) == []
    (told,) = timed(second)
    assert (told.study, dict(told.seconds)) == ("first", dict(measured(first)[0].seconds))
    assert [count for event in measured(second) for count, _ in event.seconds if count <= 8 and count != 8] == []
    story = " ".join(second.explain("trial-0").split())
    assert "study 'first' had timed packs of its structure on" in story
    assert "as measured by 'first'" in shown(second)


def test_studies_on_one_cluster_begin_with_the_times_of_the_one_before(tmp_path: Path) -> None:
    with Cluster(1, backend="processes", display="none") as cluster:
        for name in ("first", "second"):
            cluster.submit(made(tmp_path / name, name=name), num_trials=19).wait()
    first, second = (Study.open(tmp_path / name) for name in ("first", "second"))
    assert [event.study for event in timed(second)] == ["first"]
    assert dict(timed(second)[0].seconds) == dict(measured(first)[0].seconds)
    assert lanes(second)[0] > 1


@pytest.mark.parametrize("options", [{}, {"version": "2"}])
def test_a_study_that_shares_nothing_measures_by_itself(tmp_path: Path, options: dict[str, Any]) -> None:
    made(tmp_path / "a" / "first", backend="inline", version="1").run(19, display="none")
    other = made(tmp_path / ("b" if options else "a") / "second", backend="inline", **options).run(19, display="none")
    assert timed(other) == []
    counts = [count for count, _ in measured(other)[0].seconds]
    assert (counts[0], len(counts) > 1) == (1, True), "it begins with one, however far it leaps from there"
