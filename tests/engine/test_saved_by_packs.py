"""What packs have saved: by units that were timed, or by those that one trial happened to train alone."""

from __future__ import annotations

import pytest

from asyncsearch.report.live.status_of import status_of
from asyncsearch.schedulers import ASHA, FIFO
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.simulate import Simulation, TrainingModel
from asyncsearch.sizing.packing import KnownPacks
from tests.engine.test_joins import Even
from tests.engine.tools import packed_state


def packed_words(scheduler: Scheduler, trials: int, speedup: float) -> str:
    """Return what is shown of packs in a search of units of a second on one worker."""
    state = packed_state(scheduler)
    training = TrainingModel(pack_speedup={2: speedup, 4: speedup})
    assert Simulation(state, Even(), workers=1, training=training).run(trials) is not None
    return status_of(state).packed


def test_a_number_of_trials_saves_what_units_of_trials_alone_took_longer() -> None:
    assert packed_words(FIFO(max_resource=9), 5, speedup=4.0).endswith("saved about 27 s of training, as measured")
    assert "that took about 36 s longer than training alone" in packed_words(FIFO(max_resource=9), 5, speedup=0.5)


def test_what_packs_saved_is_not_measured_where_no_trial_trained_alone() -> None:
    words = packed_words(FIFO(max_resource=9), 4, speedup=4.0)
    assert "36 units trained in packs of up to 4; what that saved was not measured" in words
    assert 'pack="auto" measures it' in words


def test_an_asynchronous_search_of_packs_knows_about_what_it_saved() -> None:
    assert "that saved about" in packed_words(ASHA(max_resource=9), 40, speedup=4.0)


def test_times_that_a_pack_measured_count_before_those_that_were_observed() -> None:
    known = KnownPacks(seconds={1: 2.0, 2: 2.0}, units={2: 10}, observed={1: (9.0, 1), 2: (9.0, 1)})
    assert known.saved_s == pytest.approx(10.0)


def test_a_structure_that_only_trained_alone_counts_as_none_packed() -> None:
    known = KnownPacks()
    known.observe(1, 2.0, 3)
    assert (known.saved_s, known.has_been_packed) == (None, False)
