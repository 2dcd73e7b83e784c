"""The sentences on the stop rules of a study that goes on: that they have changed, or that it has enough already."""

from __future__ import annotations

from collections.abc import Mapping

from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.stop_decisions import study_answer


def described(config: EngineConfig) -> dict[str, str]:
    """Return the rules of a study as its file has them, by their arguments; what was not given is left out."""
    rules = {"stop_when": config.stop_when, "stop_trial_when": config.stop_trial_when}
    return {name: rule.describe() for name, rule in rules.items() if rule is not None}


def enough_notes(state: StudyState) -> list[str]:
    """Return a sentence if a study that goes on has enough already, by its ``stop_when``."""
    rule = state.config.stop_when
    reason = study_answer(state, state.times.seen_s).reason if state.trials else ""
    if rule is None or not reason:
        return []
    ended = f"The study has ended by its stop_when={rule.describe()}: {reason}. Nothing is trained"
    return [f"{ended}; to go on, run the script again with another stop_when=, or none, and resume=True."]


def change_notes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return sentences on rules that are not those of the last run."""
    return [
        f"{name} was {before.get(name, 'not given')} in the last run, and is {now.get(name, 'not given')} now."
        for name in ("stop_when", "stop_trial_when")
        if before.get(name) != now.get(name)
    ]
