"""The driver's half of a search in which objects of the program take part: stoppers, callbacks, populations.

Rule: one thread calls everything here, one question after another, so that these objects keep their state. What a
population decided is a fact of the journal; a search that goes on takes it from there.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from asyncsearch.actions import AnyAction, CreateTrial, MoveTrial
from asyncsearch.driver.questions import Response
from asyncsearch.errors import UsageError
from asyncsearch.events import AnyEvent, Consulted
from asyncsearch.ids import Lease, TrialId, trial_name
from asyncsearch.journal.format import Record
from asyncsearch.journal.projection import reports
from asyncsearch.ray.callbacks.driver import DriverCallback, LiveTrial, flat_params
from asyncsearch.ray.flat_result import FlatResult
from asyncsearch.ray.population import ComparedTrial, Exploit, PopulationBasedTraining, TrialPopulation
from asyncsearch.ray.space.configurations import ParamSpace, is_plain, with_changes
from asyncsearch.ray.stoppers import Stopper
from asyncsearch.trial import TrialState
from asyncsearch.values import unspell


class ProgramAnswerer:
    """Answers the reports of trials."""

    def __init__(
        self,
        param_space: ParamSpace,
        *,
        stopper: Stopper | None = None,
        callbacks: Sequence[DriverCallback] = (),
        population: PopulationBasedTraining | None = None,
        metric: str = "",
        seed: int = 0,
        experiment: str = "",
        folder: str = "",
        fails_fast: bool = False,
        records: Iterable[Record] = (),
    ) -> None:
        """Begin, or go on where the records of an earlier run end."""
        self._param_space, self._stopper, self._callbacks = param_space, stopper, callbacks
        self._rules, self._metric, self._fails_fast = population, metric, fails_fast
        self._population = None if population is None else TrialPopulation(population, seed)
        self._experiment, self._folder = experiment, folder
        self._live: dict[TrialId, LiveTrial] = {}
        self._params: dict[TrialId, dict[str, Any]] = {}
        self._exploits: dict[TrialId, dict[str, Any]] = {}
        """The last one of each trial, as the journal has it."""
        self._over = ""
        self._reports = 0
        self._has_noted = False
        self._kept: dict[int, tuple[int, int]] = {}
        """Trial -> trial and iteration of the checkpoint that it would go on from."""
        known = list(records)
        for record in known:
            self._replay(record)
        for report in reports(known) if stopper is not None else ():
            self._let_stopper_know(report.trial, report.resource, report.metrics)

    def answer(self, trial: TrialId, lease: Lease, content: bytes) -> Response:
        kind, *arguments = json.loads(content)
        answer, facts = getattr(self, f"_{kind}")(trial, *arguments)
        notice = answer.pop("notice", "")
        return Response(json.dumps(answer).encode(), facts, facts is not None, self._over, notice)

    def followed(self, event: AnyEvent, actions: Sequence[AnyAction]) -> Response:
        for action in actions:
            self._leave_population(action)
            if isinstance(action, MoveTrial) and action.to is TrialState.WAITING and action.trial in self._live:
                self._live[action.trial].status = "PENDING"
                self._call("on_trial_recover", trial=self._live[action.trial])
            if isinstance(action, MoveTrial) and action.to.is_finished and action.trial in self._live:
                live = self._live[action.trial]
                has_failed = action.to is TrialState.FAILED
                live.status = "ERROR" if has_failed else "TERMINATED"
                self._call("on_trial_error" if has_failed else "on_trial_complete", trial=live)
            if isinstance(action, MoveTrial) and action.to is TrialState.FAILED and self._fails_fast and not self._over:
                self._over = f"fail_fast: {trial_name(action.trial)} has failed"
        return Response(enough=self._over)

    def finish(self) -> None:
        """Tell the callbacks that the search is over."""
        for one in self._callbacks:
            one.on_experiment_end(list(self._live.values()))

    # Questions

    def _begin(self, trial: TrialId, params: dict[str, Any], goes_on: bool = False) -> tuple[dict[str, Any], None]:
        """Return how a trial goes on, if it has taken over the checkpoint of another one; ``goes_on``: it has one."""
        self._params[trial] = params
        config = self._config(trial)
        if self._population is not None:
            member = self._population.members.setdefault(trial, ComparedTrial(config))
            member.config, member.is_finished = config, False
        live = self._live.setdefault(trial, LiveTrial(trial_name(trial), config, self._experiment, self._folder))
        live.config, live.status, live.evaluated_params = config, "RUNNING", params
        self._call("on_trial_start", trial=live)
        if goes_on or trial in self._exploits:
            self._call("on_trial_restore", trial=live)
        return {"exploit": self._exploits.get(trial)}, None

    def _report(
        self, trial: TrialId, result: dict[str, Any], has_checkpoint: bool, number: int
    ) -> tuple[dict[str, Any], Any]:
        """Take the report with this number of a trial; in a population its iterations are others."""
        live = self._live[trial]
        self._call("on_step_begin")
        self._reports += 1
        live.last_result = self._shown(trial, result, number)
        self._call("on_trial_result", trial=live, result=live.last_result)
        if has_checkpoint:
            self._call("on_trial_save", trial=live)
            self._call("on_checkpoint", trial=live, checkpoint=None)
        answer: dict[str, Any] = {}
        if self._stopper is not None:
            if self._stopper(live.trial_id, live.last_result):
                answer = {"stop": True, "reason": f"{live.trial_id} was ended by stop="}
            if self._stopper.stop_all():
                answer = {"stop": True, "reason": "all trials were ended by stop="}
                self._over = self._over or "stop= has ended all trials"
        if self._over and self._fails_fast:
            answer = {"stop": True, "reason": self._over}
        facts = None
        if self._population is not None and not answer:
            answer, facts = self._compare(trial, result, has_checkpoint, number)
        if "exploit" in answer:
            self._call("on_trial_restore", trial=live)
        self._call("on_step_end")
        return answer, facts

    def _shown(self, trial: TrialId, result: Mapping[str, Any], number: int) -> FlatResult:
        made = FlatResult({**result, "trial_id": trial_name(trial), "config": self._config(trial)})
        made.number = number
        return made

    def _compare(
        self, trial: TrialId, result: dict[str, Any], has_checkpoint: bool, number: int
    ) -> tuple[dict[str, Any], Any]:
        population, rules = self._population, self._rules
        assert population is not None
        assert rules is not None
        if rules.time_attr not in result:
            if not rules.require_attrs:
                return {}, None
            names = ", ".join(sorted(result))
            raise UsageError(f"The report has no {rules.time_attr!r}, the time_attr of {rules.name}; it has {names}.")
        time = float(result[rules.time_attr])
        if has_checkpoint:
            self._kept[trial] = trial, number
        if not population.is_due(trial, time) or self._metric not in result:
            return {}, None
        kept = self._kept.get(trial)
        exploit = population.compare(trial, time, float(result[self._metric]), kept)
        facts: dict[str, Any] = {"compared": [trial, time, float(result[self._metric]), kept]}
        if exploit is None:
            return self._note_missing(trial, kept), facts
        fact = self._fact_of(exploit, number)
        facts["exploit"] = [trial, fact]
        self._note_exploit(trial, fact)
        return {"exploit": fact}, facts

    def _note_missing(self, trial: TrialId, kept: tuple[int, int] | None) -> dict[str, Any]:
        """Say once that a population without checkpoints has nothing to take over."""
        if kept is not None or self._has_noted:
            return {}
        self._has_noted = True
        return {
            "notice": f"{trial_name(trial)} has reported no checkpoint, so that no other trial can go on "
            "from it: report "
            "one, tune.report(metrics, checkpoint=Checkpoint.from_directory(folder))."
        }

    # Populations

    def _leave_population(self, action: AnyAction) -> None:
        if self._population is not None and isinstance(action, MoveTrial) and action.trial in self._population.members:
            self._population.members[action.trial].is_finished = action.to.is_finished

    def _fact_of(self, exploit: Exploit, number: int) -> dict[str, Any]:
        """Return an exploit as JSON: the params of the donor, and the values that are others than they say."""
        params = self._params[TrialId(exploit.donor)]
        base, made = flat_params(self._param_space.config(params)), flat_params(exploit.config)
        changed = {name: value for name, value in made.items() if not _is_kept(base, name, value)}
        bad = next((name for name, value in changed.items() if not is_plain(value)), None)
        if bad is not None:
            raise UsageError(
                f"{bad!r} became {changed[bad]!r}, which no journal can hold: let it be a number or a text."
            )
        return {
            "donor": exploit.donor,
            "donor_iteration": exploit.iteration,
            "iteration": number,
            "since": exploit.since,
            "params": params,
            "changed": changed,
        }

    def _note_exploit(self, trial: TrialId, fact: dict[str, Any]) -> None:
        assert self._population is not None
        self._exploits[trial] = fact
        member = self._population.members[trial]
        member.config, member.since = self._config(trial), fact.get("since", member.since)
        self._kept[trial] = (fact["donor"], fact["donor_iteration"])
        if trial in self._live:
            self._live[trial].config = self._population.members[trial].config

    def _config(self, trial: TrialId) -> Any:
        fact = self._exploits.get(trial)
        if fact is None:
            return self._param_space.config(self._params[trial])
        return with_changes(self._param_space.config(fact["params"]), fact["changed"])

    def _replay(self, record: Record) -> None:
        """Take the decisions of an earlier run."""
        for action in record.actions:
            if isinstance(action, CreateTrial):
                self._params[action.trial] = action.params
                if self._population is not None:
                    self._population.members[action.trial] = ComparedTrial(self._config(action.trial))
            self._leave_population(action)
        if self._population is None or not isinstance(record.event, Consulted) or "compared" not in record.event.facts:
            return
        facts = record.event.facts
        trial, time, value, kept = facts["compared"]
        if kept is not None:
            self._kept[trial] = kept[0], kept[1]
        self._population.compare(trial, time, value, self._kept.get(trial))
        if "exploit" in facts:
            self._note_exploit(*facts["exploit"])

    def _let_stopper_know(self, trial: TrialId, resource: int, metrics: Mapping[str, Any]) -> None:
        """Let a stopper see what an earlier driver has shown it, so that it counts on; what is no number is lost."""
        values = {name: unspell(value) for name, value in metrics.items()}
        values["training_iteration"] = iteration = int(values.get("training_iteration", 0))
        number = iteration if self._population is None else resource
        assert self._stopper is not None
        if iteration:
            with contextlib.suppress(KeyError):
                self._stopper(trial_name(trial), self._shown(trial, values, number))

    def _call(self, hook: str, **given: Any) -> None:
        for one in self._callbacks:
            method: Callable[..., None] = getattr(one, hook)
            method(iteration=self._reports, trials=list(self._live.values()), **given)


def _is_kept(base: Mapping[str, Any], name: str, value: Any) -> bool:
    mine = base.get(name, _MISSING)
    return mine is value or (
        type(mine) is type(value) and (is_plain(value) or type(value) in _PLAIN_PARTS) and mine == value
    )


_MISSING = object()
_PLAIN_PARTS = (list, tuple)
