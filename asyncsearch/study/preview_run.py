"""The training and the time that a run of a study would take, before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asyncsearch.arguments import positive, workers_of
from asyncsearch.launch import choose
from asyncsearch.report.formatting import many
from asyncsearch.report.live.display import announced
from asyncsearch.report.what_if.expected import cost_of, expected
from asyncsearch.report.what_if.preview import Preview, notes_of, preview, warnings_of, workers_note
from asyncsearch.report.what_if.recorded_units import Speedups
from asyncsearch.report.what_if.scaling import packing_asked, packs_to_simulate, scaling_of
from asyncsearch.simulate.options import TrainingModel
from asyncsearch.study.asked.devices_option import with_devices
from asyncsearch.study.asked.gang_option import gang_notes, gangs_of, workers_for
from asyncsearch.study.asked.options import direction_notes
from asyncsearch.study.results import Results
from asyncsearch.study.runnable import RunnableStudy, require_bounded


def preview_run(
    study: RunnableStudy,
    num_trials: int | None,
    parallelism: int | None,
    seconds_per_unit: float | None,
    like: str | Path | Results | None,
    already: int,
    pack: int | str | None = None,
    pack_speedup: Speedups | None = None,
    gang_speedup: Mapping[int, float] | None = None,
) -> Preview:
    """Simulate the search of a study that has ``already`` so many trials; the rest is as in ``Study.preview``."""
    TrainingModel(pack_speedup={} if pack_speedup is None else pack_speedup)  # checks it
    what = study.definition
    scheduler, config = what.scheduler, what.config
    proposals = study.begin_searcher().length()
    require_bounded(what.searcher, num_trials, proposals, "preview")
    asked = positive("num_trials", proposals if num_trials is None else num_trials)
    known = _workers_here(study) if parallelism is None else workers_of("parallelism", parallelism)
    at_once = gangs_of(what.gang, known or 1)
    workers = workers_for(what.gang, known or 1)
    total = asked if proposals is None else min(asked, proposals)
    warnings = warnings_of(scheduler, None if num_trials is None else asked, proposals)
    cost = cost_of(study.store, seconds_per_unit, like, pack_speedup)
    packing, measured = packing_asked(what.packing, pack, config.pack_by), {} if cost is None else cost.pack_speedup
    packs = packs_to_simulate(packing, what.packing, pack_speedup, measured, f"preview(pack={pack!r})")
    curve = {} if cost is None else cost.gang_speedup
    scaling = scaling_of(what.gang, workers, gang_speedup, curve, f"preview(gang_speedup={gang_speedup!r})")
    is_special = what.space.has_sequences or getattr(scheduler, "branches", False)
    own: dict[str, Any] = {"space": what.space, "searcher": None if proposals is None else what.searcher}
    with announced(f"simulating a search of {many(total, 'trial')} on {many(workers, 'worker')} ..."):
        own = own if is_special else {"space": what.space} if packs.packing is not None else {}
        on = at_once if scaling is None else workers
        simulated = expected(scheduler, total, on, cost, config=config, packs=packs, scaling=scaling, **own)
        is_compared = packs.packing is not None and packs.source
        alone = expected(scheduler, total, at_once, cost, config=config, **own) if is_compared or scaling else None
    warnings += direction_notes(config.metric, config.mode)
    warnings += gang_notes(what.gang, workers)
    if what.space.is_open:
        warnings.append(
            "The parameters are not known before a trial asks for them, so that nothing says what trials would share: "
            "neither stages nor packs are previewed."
        )
    warnings += notes_of(asked, total, already, scheduler.begin(what.space, config.seed))
    return preview(
        scheduler,
        total,
        parallelism=workers,
        cost=cost,
        expected=simulated,
        alone=alone,
        packed=packs.words,
        scaled="" if scaling is None else scaling.words(scheduler.forecast(total), workers),
        warnings=warnings,
        assumption=workers_note(known) if parallelism is None else "",
    )


def _workers_here(study: RunnableStudy) -> int | None:
    """Return how many workers a run would have that leaves it to the cluster; None if it is not known."""
    launcher = choose(study.backend)
    known = launcher.workers_now()
    return None if known is None else with_devices(launcher, study.definition.devices, known, None)[0]
