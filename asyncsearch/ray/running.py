"""One search: a study whose trials run a program's trainable."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from asyncsearch.programs.endless_run import ENDLESS
from asyncsearch.programs.same_line import of_program, outlives_failures
from asyncsearch.ray.folders import base_folder, is_cut_off, run_folders
from asyncsearch.ray.milestones import ITERATION
from asyncsearch.ray.program_search import ProgramSearch
from asyncsearch.ray.proposals import ConfigSpace, Variants
from asyncsearch.ray.recorded_trials import RecordedTrial
from asyncsearch.ray.requests import SearchRequest
from asyncsearch.ray.resources import gpus_of
from asyncsearch.ray.trial.objective import RayObjective
from asyncsearch.ray.workers import present
from asyncsearch.report.live.display import Display
from asyncsearch.study import study as searches
from asyncsearch.study.asked.options import Checkpoints

_MOST_BYTES = 10**12


def search(trainable: Any, request: SearchRequest) -> tuple[searches.Study, ProgramSearch]:
    """Run what a program asks for, and return the study.

    Raises:
        UsageError: an argument is not known, or two do not go together.
    """
    plan, choice = ProgramSearch(trainable, request), present()
    display = plan.display
    base = base_folder(request.run.name, request.run.storage_path or request.run.local_dir or choice.store, plan.label)
    runs = run_folders(base)
    goes_on = bool(runs) and (bool(request.resume) or is_cut_off(runs[-1]))
    folder = runs[-1] if goes_on else f"{base}/{len(runs) + 1}"
    if goes_on:
        plan.notes.append(f"An earlier run of {base} goes on.")
    study = study_of(plan, folder, os.path.basename(base), resume=goes_on)
    display.warn(plan.notes)
    run(study, plan, display)
    return study, plan


def study_of(plan: ProgramSearch, folder: str, name: str, *, resume: bool) -> searches.Study:
    """Return the study of a search."""
    settings = plan.settings(folder, name)
    study = searches.Study(
        RayObjective(plan.trainable, plan.param_space, settings),
        # Without names a study is a run of a program, which alone has the objects that answer its trials.
        space=ConfigSpace(() if plan.asks_driver else plan.varying),
        metric=plan.metric or ITERATION,
        mode=plan.mode,
        searcher=Variants(
            param_space=plan.param_space,
            settings=settings,
            learner=plan.learner,
            program=plan.request.packed(plan.resources),
        ),
        scheduler=plan.scheduler.rule(),
        seed=plan.algorithm.seed,
        share=False,
        store=folder,
        name=name,
        resume=resume,
        backend=present().backend,
        max_failures=plan.request.max_failures,
        devices_per_trial=gpus_of(plan.resources),
        checkpoints=Checkpoints(dir_bytes=_MOST_BYTES),
    )
    of_program(study, plan.trainable, plan.label, None)
    outlives_failures(study)
    return study


def run(study: searches.Study, plan: ProgramSearch, display: Display) -> None:
    """Run a study to its end."""
    answerer, count = plan.answerer(study), plan.param_space.length()
    for one in plan.callbacks:
        one.setup(stop=plan.request.run.stop, num_samples=plan.param_space.num_samples, total_num_samples=count)
    try:
        budget_s = plan.request.time_budget_s
        most = ENDLESS if count is None else count  # then the time is the end
        searches.run_shown(study, most, plan.parallelism, budget_s, display, answerer=answerer)
    finally:
        if answerer is not None:
            answerer.finish()


def without_effect(plan: ProgramSearch, trials: Sequence[RecordedTrial]) -> list[str]:
    """Return sentences on what of the program could not act, seen at the end."""
    scheduler = plan.scheduler
    ended = [trial.results for trial in trials if trial.status == "TERMINATED" and trial.results]
    if not scheduler.compares or not ended:
        return []
    if all(len(its) == 1 for its in ended):
        words = (
            f"Each trial reported once, so that {scheduler.name} had nothing to decide: report after each "
            "epoch, inside the "
            "loop of training."
        )
        return [words]
    attribute = scheduler.time_attr
    longest = max(float(result.get(attribute, 0)) for its in ended for result in its)
    if longest < scheduler.needed_reports:
        words = (
            f"No trial came to {scheduler.needed_reports:g} in {attribute!r}, where {scheduler.name} "
            "decides first: the "
            f"longest came to {longest:g}."
        )
        return [words]
    if scheduler.end is not None and longest < scheduler.end:
        words = (
            f"No trial came to max_t={scheduler.end:g} in {attribute!r}: the longest came to {longest:g}, "
            "and rungs beyond"
            f" that compared nothing. max_t={longest:g} says the same."
        )
        return [words]
    return []
