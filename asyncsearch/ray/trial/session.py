"""The session of a trial on its worker: what a report does, whatever the age of the interface.

A report is one unit: its metrics go to the study as numbers, flattened by "/", its checkpoint to the store first. It is
also where a trial ends: by the scheduler (``TrialStopped``), by ``stop=`` or at its end (``FinishedTrial``).
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.ray.milestones import ITERATION, resource_at
from asyncsearch.ray.trial.checkpoints import DirCheckpoint, KeptCheckpoint, TrialCheckpoints, worst_first
from asyncsearch.ray.trial.messages import DriverCalls, FinishedTrial
from asyncsearch.ray.trial.reported_values import METRIC_TYPES, Number, as_floats, flattened, float_of, number_in
from asyncsearch.ray.trial.settings import TrialSettings

RETURNED = "_metric"
"""The name of a number that a function returns, or reports without a name."""
_NAMED = 8


class MetricMissingError(UsageError):
    """A report lacks the metric by which the trials are compared."""


class TrialSession:
    """One trial, as the functions of ``tune`` see it from within."""

    def __init__(self, context: Any, settings: TrialSettings, calls: DriverCalls | None) -> None:
        """Begin.

        Args:
            context: the trial of this project.
            settings: what the program has asked for.
            calls: asks the driver. None where nothing there takes part.
        """
        self.context, self.settings = context, settings
        self._calls = calls
        self._kept = TrialCheckpoints(settings.store, context.name)
        newest = self._kept.newest()
        self._loaded: DirCheckpoint | None = None if newest is None else newest.checkpoint
        self._loaded_at: int | None = None
        """Number of the report whose checkpoint is the last one. None if it is loaded."""
        self.iteration = 0 if newest is None else newest.iteration
        """How many reports there were, those before the loaded checkpoint included."""
        self.training_iteration = 0
        """Of the last report; from where a population has taken over a checkpoint on, it counts on from that one's."""
        self._before_s = 0.0
        self._since_s = self._last_s = time.monotonic()
        if newest is not None:
            self._count_on(newest)
        self._noted: set[str] = set()
        self._types: dict[str, str] = {}
        """The type of each metric; "float" once two have differed."""
        self._texts: dict[str, str] = {}
        """The last text of each name that is no number."""
        self.pending: DirCheckpoint | None = None
        """A checkpoint that belongs to the next report."""
        self.last: dict[str, Any] = {}
        self._compared = 0.0

    @property
    def total_s(self) -> float:
        """Seconds that it has trained, those before the loaded checkpoint included."""
        return self._before_s + time.monotonic() - self._since_s

    @property
    def loaded(self) -> DirCheckpoint | None:
        """The last checkpoint, from which it goes on. None if there is none."""
        if self._loaded is None and self._loaded_at is not None:
            self._loaded = self._kept.at(self._loaded_at).checkpoint
        return self._loaded

    def repeat_last(self) -> None:
        """Report the metrics of the checkpoint that it goes on from, as it may have been lost before their report.

        Nobody else would: the program goes on behind it. What is known already stays as it is.

        Raises:
            TrialInterrupted: the trial ends with it.
        """
        newest = self._kept.newest()
        if newest is None or newest.iteration != self.iteration:
            return
        needed = {self.settings.time_attr, *self.settings.stop, *filter(None, [self.settings.metric])}
        if needed <= newest.metrics.keys():
            self.last = newest.metrics
            self.context.report(as_floats(newest.metrics), resource=self._resource(newest.metrics))
            if self._is_over(newest.metrics):
                raise FinishedTrial(f"{self.context.name} has ended at iteration {self.iteration}")

    def take_over(self, exploit: Mapping[str, Any]) -> None:
        """Go on from the checkpoint of another trial, unless this one has saved its own since."""
        if self.iteration <= exploit["iteration"]:
            self.iteration = exploit["iteration"]
            donor = TrialCheckpoints(self.settings.store, f"trial-{exploit['donor']}")
            taken = donor.at(exploit["donor_iteration"])
            self._loaded, self._loaded_at = taken.checkpoint, None
            self._count_on(taken)
            self._compared = exploit.get("since", self._compared)
        self.pending = None

    def _count_on(self, kept: KeptCheckpoint) -> None:
        """Count iterations and seconds on from those of a checkpoint, as Ray does."""
        self.training_iteration = int(kept.metrics.get(ITERATION, kept.iteration))
        self._before_s, self._since_s = float(kept.metrics.get("time_total_s", 0.0)), time.monotonic()

    def is_comparison_due(self, result: Mapping[str, Any]) -> bool:
        """Return whether a population compares the trial at this result, so that a class is to be saved there."""
        attribute, interval = self.settings.perturbation
        if not attribute:
            return False
        known = {**result, ITERATION: self.training_iteration + 1, "time_total_s": self.total_s}
        time = known.get(attribute)
        if time is None or time < self.settings.burn_in or time - self._compared < interval:
            return False
        self._compared = time
        return True

    def report(self, metrics: Mapping[str, Any], checkpoint: DirCheckpoint | None = None) -> None:
        """Take a report.

        Raises:
            TrialInterrupted: the trial ends with it.
            UsageError: it lacks the metric, or the value by which trials are compared in time.
        """
        self.iteration += 1
        self.training_iteration += 1
        now = time.monotonic()
        flat = dict(flattened(metrics))
        if flat.get(ITERATION, self.training_iteration) != self.training_iteration:
            self._say_once(ITERATION, f"{ITERATION!r} is counted here, and the one that was reported is not used.")
        result: dict[str, Any] = {
            **flat,
            ITERATION: self.training_iteration,
            "time_total_s": self.total_s,
            "time_this_iter_s": now - self._last_s,
        }
        self._last_s, self.last = now, result
        self._require_metric(flat)
        checkpoint, self.pending = checkpoint or self.pending, None
        kept = {
            name: value for name, value in result.items() if name != "time_this_iter_s"
        }  # results have it of the totals
        numbers = self._numbers(kept)
        if checkpoint is not None:
            self._keep(checkpoint, numbers)
        self._note_types(numbers)
        texts = {name: value for name, value in flat.items() if isinstance(value, str)}
        self._note_texts(texts)
        verdict = None
        if self._calls is not None:
            verdict = self._calls.report(result | texts, self.iteration, has_checkpoint=checkpoint is not None)
        self.context.report(as_floats(numbers), resource=self._resource(result))
        if self._is_over(result):
            raise FinishedTrial(f"{self.context.name} has ended at iteration {self.iteration}")
        if verdict is not None:
            raise verdict

    def _note_texts(self, texts: Mapping[str, str]) -> None:
        """Keep the last text of each name beside the metrics, as far as a note can hold it."""
        for name, text in texts.items():
            if self._texts.get(name) == text:
                continue
            try:
                self.context.note(name, text)
                self._texts[name] = text
            except UsageError as error:
                self._say_once(name, f"the text of {name!r} is not recorded: {error}")

    def _note_types(self, numbers: Mapping[str, Number]) -> None:
        """Note which metrics have been no floats so far, so that results have them as they were reported."""
        before = dict(self._types)
        for name, number in numbers.items():
            kind = type(number).__name__
            self._types[name] = kind if self._types.get(name, kind) == kind else "float"
        if self._types != before and any(kind != "float" for kind in (*before.values(), *self._types.values())):
            others = {name: kind for name, kind in self._types.items() if kind != "float" and name != ITERATION}
            self._note_texts({METRIC_TYPES: json.dumps(others)})

    def _say_once(self, name: str, words: str) -> None:
        if name not in self._noted:
            self._noted.add(name)
            sys.stderr.write(f"asyncsearch: {words}\n")

    def _resource(self, result: Mapping[str, Any]) -> int:
        attribute, end = self.settings.time_attr, self.context.max_resource
        if attribute not in result:
            names = ", ".join(sorted(result)[:_NAMED])
            raise UsageError(f"The report has no {attribute!r}, the time_attr of the scheduler; it has {names}.")
        at: int = max(resource_at(attribute, float(result[attribute])), self.context.resource + 1)
        if attribute == ITERATION:
            at = self.iteration
        return at if end is None else min(at, end)

    def _is_over(self, result: Mapping[str, Any]) -> bool:
        end = self.context.max_resource
        if end is not None and self.context.resource >= end:
            return True
        for name in self.settings.stop:
            if name not in result:
                names = ", ".join(sorted(result))
                raise UsageError(f"stop={{{name!r}: ...}} names what the trial does not report; it reports {names}.")
        reached = [_reached(result[name], bound) for name, bound in self.settings.stop.items()]
        return any(reached) or bool(result.get("done"))

    def _require_metric(self, flat: Mapping[str, Any]) -> None:
        metric = self.settings.metric
        if (
            not metric
            or metric in flat
            or metric in (ITERATION, "time_total_s", "time_this_iter_s")
            or not self.settings.is_strict
        ):
            return
        names = ", ".join(sorted(flat)) or "nothing"
        raise MetricMissingError(
            f"The trial reported {names}, and the metric of the search is {metric!r}: report it each time, "
            "or write one of"
            " these names in metric=."
        )

    def require_reports(self) -> None:
        """Refuse the end of a trial that has reported nothing, where trials are compared.

        Raises:
            MetricMissingError: they are; the trial fails, and the search goes on.
        """
        metric = self.settings.metric
        if metric and metric != ITERATION:
            raise MetricMissingError(
                f"The trial ended without a report, and the metric of the search is {metric!r}: call "
                f"tune.report({{{metric!r}: ...}}), or return that dictionary."
            )

    def _numbers(self, result: Mapping[str, Any]) -> dict[str, Number]:
        return {name: number for name, value in result.items() if (number := self._number(name, value)) is not None}

    def _number(self, name: str, value: Any) -> Number | None:
        """Return a value as a number of Python's. None, and said once, if it is none."""
        found = number_in(value)
        if found is None and value is not None and not isinstance(value, str):
            self._say_once(name, f"{name!r} is a {type(value).__name__}, no number, and is not recorded.")
        return found

    def keep_last(self, checkpoint: DirCheckpoint) -> None:
        """Take a checkpoint that belongs to the last report."""
        self._keep(checkpoint, self._numbers(self.last))

    def _keep(self, checkpoint: DirCheckpoint, numbers: Mapping[str, Number]) -> None:
        if not isinstance(checkpoint, DirCheckpoint):
            raise UsageError(f"checkpoint={checkpoint!r} is no Checkpoint: write Checkpoint.from_directory(folder).")
        finite = {name: value for name, value in numbers.items() if math.isfinite(float_of(value))}
        self._kept.keep(checkpoint, self.iteration, finite)
        self._loaded, self._loaded_at = None, self.iteration  # a program may remove its folder after the report
        most = self.settings.num_to_keep
        if most is not None:
            ranked = worst_first(self._kept.all(), self.settings.score_attribute, self.settings.score_order)
            for one in ranked[: max(0, len(ranked) - most)]:
                if one.iteration != self.iteration:  # a trial that is lost goes on from the newest, beside the best
                    self._kept.delete(one.iteration)


def _reached(value: Any, bound: Any) -> bool:
    try:
        return bool(value >= bound)
    except TypeError:
        return False
