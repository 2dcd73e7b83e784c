"""The answers to a trial that runs: each question is a call of its real ``optuna.Trial``, and becomes a fact.

The names of the methods are the kinds of questions; each returns the answer, and the fact, if the journal keeps one.
"""

from __future__ import annotations

from typing import Any

from optuna.distributions import BaseDistribution
from optuna.trial import Trial

from asyncsearch.optuna.choices import KnownChoices
from asyncsearch.optuna.drawn_ahead import DrawnAhead
from asyncsearch.optuna.facts import StudyFacts
from asyncsearch.programs.changes import words_of

Fact = dict[str, Any]
_ADVICE = "trial.set_user_attr(name, value), and read study.trials[number].user_attrs[name]"
"""How a trial gives what it has found."""


class TrialAnswers:
    """Answers the trials of one study."""

    def __init__(self, study: Any, facts: StudyFacts, ahead: DrawnAhead) -> None:
        """Begin; ``ahead``: the values drawn for trials that run."""
        self.was_asked_to_prune = False
        """Whether any trial asked the pruner."""
        self.notice = ""
        """A sentence to say with the next answer."""
        self._study, self._facts, self._ahead = study, facts, ahead
        self._choices = KnownChoices(study)
        self._named: set[str] = set()
        """What was said to have been changed on workers."""

    def suggest(self, trial: Trial, name: str, distribution: BaseDistribution) -> tuple[Any, Fact]:
        """Return the answer by which the worker knows the value, and all values that were drawn together with it."""
        knew_relative = trial._relative_params is not None
        self._ahead.drop(trial)
        self._ahead.note_draw()
        known = self._choices.known(name, distribution)
        internal = known.to_internal_repr(trial._suggest(name, known))
        drawn = trial._relative_params
        together = {}
        if drawn and not knew_relative:
            space = trial.relative_search_space or {}
            together = {
                one: (space[one], space[one].to_internal_repr(value)) for one, value in drawn.items() if one in space
            }
        value = self._choices.index_in(distribution, known, internal)
        drawn_ahead = [(one, *pair) for one, pair in together.items() if one != name]
        return (value, together), self._facts.suggested(name, known, internal, drawn_ahead)

    def suggested(self, trial: Trial, name: str, distribution: BaseDistribution) -> tuple[None, Fact]:
        """Take note that the worker has taken a value that it knew already."""
        internal = distribution.to_internal_repr(trial._suggest(name, distribution))
        return None, self._facts.suggested(name, distribution, internal)

    def used(self, trial: Trial, count: int) -> tuple[None, Fact]:
        """Take note that the worker has taken the next values that were drawn for it when it began."""
        return None, self._facts.used(self._ahead.use(trial, count))

    def report(self, trial: Trial, step: int, value: float) -> tuple[None, Fact]:
        trial.report(value, step)
        return None, self._facts.reported(step, value)

    def prune(self, trial: Trial) -> tuple[bool, Fact]:
        self.was_asked_to_prune = True
        verdict = bool(trial.should_prune())
        return verdict, self._facts.judged(verdict)

    def user_attr(self, trial: Trial, key: str, value: Any) -> tuple[None, Fact]:
        trial.set_user_attr(key, value)
        return None, self._facts.attribute("user_attr", key, value)

    def system_attr(self, trial: Trial, key: str, value: Any) -> tuple[None, Fact]:
        trial.storage.set_trial_system_attr(trial._trial_id, key, value)
        trial._cached_frozen_trial.system_attrs[key] = value
        return None, self._facts.attribute("system_attr", key, value)

    def storage(self, _trial: Trial, method: str, arguments: tuple[Any, ...]) -> tuple[Any, None]:
        """Call a method of the storage for the worker's copy of it."""
        return getattr(self._study._storage, method)(*arguments), None

    def changed(self, _trial: Trial, names: list[str]) -> tuple[None, None]:
        """Say, once for each name, what the program will look for in vain."""
        new = [name for name in names if name not in self._named]
        self._named.update(new)
        self.notice = words_of(new, _ADVICE) if new else ""
        return None, None

    def stop(self, _trial: Trial) -> tuple[None, None]:
        self._study.stop()
        return None, None
