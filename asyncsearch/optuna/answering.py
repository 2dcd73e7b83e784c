"""The driver's half: the program's own study, sampler and pruner, which answer the trials on the workers.

Rule 1: one thread calls everything here, one question after another: samplers and pruners keep their state, and
callbacks come one at a time. Rule 2: a trial on a worker has its real ``optuna.Trial`` here, and each question is a
call of it, so that with one worker the sampler is asked what Optuna itself asks it, in the same order.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import optuna
from optuna.storages._heartbeat import is_heartbeat_enabled
from optuna.trial import FrozenTrial, Trial

from asyncsearch.actions import AnyAction, MoveTrial
from asyncsearch.driver.questions import Response, Unasked
from asyncsearch.errors import TrialsFailedError
from asyncsearch.events import AnyEvent
from asyncsearch.ids import Lease, TrialId
from asyncsearch.optuna.beginnings import Beginnings
from asyncsearch.optuna.drawn_ahead import NOTHING, Ahead, DrawnAhead
from asyncsearch.optuna.facts import StudyAttributes, StudyFacts
from asyncsearch.optuna.messages import ValueCodec
from asyncsearch.optuna.returned import ObjectiveEnd
from asyncsearch.optuna.study_runs import OpenRun
from asyncsearch.optuna.trial_answers import TrialAnswers
from asyncsearch.optuna.trial_ends import ALL_BEGUN, OpenTrial, OptimizeOptions, TrialEnds
from asyncsearch.trial import TrialState as State


class StudyAnswerer:
    """Answers the questions of the trials of one ``optimize``."""

    def __init__(
        self,
        study: Any,
        codec: ValueCodec,
        options: OptimizeOptions,
        *,
        is_scheduled: bool = False,
        is_kept: bool = False,
        earlier: OpenRun | None = None,
    ) -> None:
        """Begin.

        Args:
            study: the program's own.
            codec: of questions and answers.
            options: the arguments of ``optimize``.
            is_scheduled: whether a scheduler of asyncsearch judges the trials, and may pause them.
            is_kept: whether the run serves other calls of ``optimize`` too: the journal must tell them apart then, and
                the run says when a trial begins.
            earlier: the run of a former process that goes on.
        """
        self._study, self._codec, self._options = study, codec, options
        self._facts = StudyFacts()
        self._attributes = StudyAttributes(study)
        self._ahead = DrawnAhead(study)
        self._answers = TrialAnswers(study, self._facts, self._ahead)
        self._ends = TrialEnds(study, options, self._ahead)
        self._open: dict[int, OpenTrial] = {}
        """By the number of its lease."""
        self._is_scheduled, self._is_kept = is_scheduled, is_kept
        self.beginnings = Beginnings()
        """Of the run."""
        self._given: dict[int, tuple[FrozenTrial, Ahead]] = {}
        """What open trials have got at their beginning, by the numbers of their leases."""
        self._waiting: dict[TrialId, OpenTrial] = {}
        """Trials that a scheduler has paused, or that wait for another worker: they go on under another lease."""
        self._paused: dict[TrialId, str] = {}
        """Why they were paused."""
        self._begun = 0
        self._has_written_asked = False
        """Whether the journal knows how many trials were asked for."""
        self._known: set[TrialId] = set()
        """The trials of asyncsearch that have asked to begin."""
        self._last = -1
        """The lease that was answered last."""
        if earlier is not None:
            self._begun, self._known = len(earlier.begun), set(earlier.begun)
            for trial, number in earlier.trials.items():
                self._waiting[trial] = OpenTrial.begun(study, Trial(study, number), trial)

    @property
    def error(self) -> BaseException | None:
        """The error that ``optimize`` raises: the exception of a trial that nothing catches, or of a callback."""
        return self._ends.error

    @property
    def n_trials(self) -> int | None:
        """How many trials are to begin. None means until something else ends them."""
        return self._options.n_trials

    @property
    def wants_more(self) -> bool:
        """Whether a further trial may begin."""
        return not self._ends.enough() and (self.n_trials is None or self._begun < self.n_trials)

    @property
    def is_done(self) -> bool:
        """Whether no trial may begin any more, and all have ended."""
        return not self._open and not self._waiting and not self.wants_more

    # driver.questions.Answerer

    def answer(self, trial: TrialId, lease: Lease, content: bytes) -> Response:
        kind, *arguments = self._codec.loads(content)
        self._study._thread_local.in_optimize_loop = True  # it is of each thread, and ``stop`` asks for it
        if lease.number != self._last:  # what Optuna keeps for the time of one trial is not of this one
            self._study._thread_local.cached_all_trials = None
        self._last = lease.number
        if kind == "begin":
            return self._begin(trial, lease, *arguments)
        opened = self._open.get(lease.number)
        if opened is None:
            return self._error(RuntimeError("This trial has failed: its worker seemed lost."))
        *noted, (kind, *arguments) = arguments if kind == "several" else [(kind, *arguments)]
        if kind == "refuse":
            return self._give_up(arguments[0])
        try:
            known = [getattr(self._answers, one)(opened.trial, *rest)[1] for one, *rest in noted]
            value, facts = (self._tell if kind == "tell" else getattr(self._answers, kind))(opened.trial, *arguments)
        except Exception as error:
            # As in Optuna the objective gets it, unless it has gone on meanwhile, or has ended.
            return self._give_up(error) if kind in ("report", "tell") else self._error(error)
        if kind == "tell" and self._is_kept and self.is_done:
            facts["done"] = True
        consulted = [*known, *([] if facts is None else [facts]), *self._attributes.changed()]
        facts = {"several": consulted} if len(consulted) > 1 else next(iter(consulted), None)
        notice, self._answers.notice = self._answers.notice, ""
        return Response(self._codec.dumps(["ok", value]), facts, kind == "tell", self._ends.enough(), notice)

    def followed(self, event: AnyEvent, actions: Sequence[AnyAction]) -> Response:
        for action in actions:
            if isinstance(action, MoveTrial):
                if action.to is State.FAILED and action.trial not in self._known and not self._ends.over:
                    words = f"The objective could not be run on a worker: {action.detail or action.reason}"
                    self._ends.break_off(TrialsFailedError(words), "no trial can begin")
                self._move(action)
        own = [] if self._is_kept else self.beginnings.questions(actions)
        unasked = [Unasked(trial, lease, self.answer(trial, lease, content)) for trial, lease, content in own]
        return Response(enough=self._ends.enough(), unasked=unasked)

    def _move(self, action: MoveTrial) -> None:
        """Follow what the engine has decided of a trial that has begun and not ended here."""
        lease = next((one for one, opened in self._open.items() if opened.asyncsearch_trial == action.trial), None)
        opened = self._waiting.pop(action.trial, None) if lease is None else self._closed(lease)
        if opened is None:
            return
        if self._is_scheduled and action.to in (State.PAUSED, State.WAITING, State.RUNNING):
            self._waiting[action.trial], self._paused[action.trial] = opened, action.reason
        elif self._is_scheduled and action.to in (State.STOPPED, State.COMPLETED):
            self._ends.prune(opened, action.reason)
        else:
            self._begun -= self._ends.lose(opened, action.reason)

    def finish(self) -> None:
        """End the trials that are still open: those that are paused are pruned, those that an interrupt left fail."""
        self._study._thread_local.in_optimize_loop = True
        try:
            for trial, opened in self._waiting.items():
                self._ends.prune(opened, self._paused.get(trial, "it was paused before"))
            for opened in self._open.values():
                self._ends.lose(opened, "the run was ended", is_retried=False)
        finally:
            self._study._thread_local.in_optimize_loop = False
            self._waiting.clear()
            self._open.clear()
            self._ends.close()

    def notes(self) -> list[str]:
        """Return sentences for the end of the run: that the pruner was given for nothing."""
        pruner = self._study.pruner
        is_given = not isinstance(pruner, optuna.pruners.NopPruner | optuna.pruners.MedianPruner)
        if not is_given or self._answers.was_asked_to_prune or not self._begun:
            return []
        missing = "trial.should_prune() after trial.report(value, step)"
        return [f"No trial asked {type(pruner).__name__} whether to go on: call {missing} in the objective."]

    # Questions

    def _begin(self, trial: TrialId, lease: Lease, order: int) -> Response:
        """Let a trial begin; ``order``: the last one that its process has got."""
        options, study = self._options, self._study
        if lease.number in self._open:  # it was told, and its process has died before it had begun
            return self._beginning(lease, order)
        if trial in self._waiting:
            return self._go_on(trial, lease, order)
        if trial in self._known and not options.retries_lost:
            return Response(self._codec.dumps(["over", "it was lost with its worker, and has failed"]))
        self._ends.note_begin()
        if not self._ends.enough() and options.n_trials is not None and self._begun >= options.n_trials:
            self._ends.over = ALL_BEGUN
        if over := self._ends.over:
            self._known.add(trial)
            return Response(self._codec.dumps(["unwanted", over]), enough=over)
        try:
            if is_heartbeat_enabled(study._storage):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                    optuna.storages.fail_stale_trials(study)
            asked = study.ask()
            opened = OpenTrial.begun(study, asked, trial)
        except Exception as error:
            return self._give_up(error)
        self._begun += 1
        self._known.add(trial)
        self._ends.note_begun(asked)
        self._open[lease.number] = opened
        frozen, ahead = self._given[lease.number] = asked._cached_frozen_trial, self._ahead.draw(asked)
        facts = self._facts.begun(frozen, ahead)
        if self._is_kept and not self._has_written_asked:
            self._has_written_asked = True
            facts["asked"] = options.n_trials or 0
        return self._beginning(lease, order)._replace(facts=facts)

    def _beginning(self, lease: Lease, order: int) -> Response:
        """Return the answer to the beginning of a trial; ``order``: the last one that its process was told."""
        frozen, ahead = self._given[lease.number]
        names = None if ahead.order.number == order else [*ahead.order.names]
        if not self._is_scheduled:
            self.beginnings.note(lease, ahead.order.number)
        return Response(self._codec.dumps(["ok", [frozen, ahead.order.number, names, ahead.internals]]))

    def _go_on(self, trial: TrialId, lease: Lease, order: int) -> Response:
        """Let a trial go on that was paused, or whose worker was lost; none does once the run was told to end."""
        opened = self._waiting.pop(trial)
        if (over := self._ends.enough()) not in ("", ALL_BEGUN):
            self._ends.prune(opened, over)
            return Response(self._codec.dumps(["over", over]), enough=over)
        self._open[lease.number] = opened
        frozen = self._study._storage.get_trial(opened.trial._trial_id)
        self._given[lease.number] = frozen, NOTHING
        return self._beginning(lease, order)._replace(facts=self._facts.resumed(frozen.number))

    def _tell(self, _trial: Trial, *fields: Any) -> tuple[str, dict[str, Any]]:
        """End the trial, as its worker saw it."""
        frozen = self._ends.tell(self._closed(self._last), ObjectiveEnd(*fields))
        return frozen.state.name, self._facts.ended(frozen)

    def _closed(self, lease: int) -> OpenTrial:
        """Return the trial of a lease, which is open no more."""
        del self._given[lease]
        return self._open.pop(lease)

    def _error(self, error: Exception) -> Response:
        try:
            content = self._codec.dumps(["error", error])
        except Exception:  # it holds what cannot be pickled
            content = self._codec.dumps(["error", RuntimeError(f"{type(error).__name__}: {error}")])
        return Response(content)

    def _give_up(self, error: Exception) -> Response:
        """End the run by an exception of the study itself."""
        self._ends.break_off(error, f"the study has raised {type(error).__name__}")
        return Response(self._codec.dumps(["over", self._ends.over]), enough=self._ends.over)
