"""The lanes of the present work: how they begin once their checkpoints are here, are stopped, and end.

Pseudocode of a lane's life::

    waiting -> current -> its checkpoint is here -> sent -> reports, saves ... -> ended, or its runner died -> told
                                                        stop requested: flag, SIGTERM, SIGKILL ---^

The lanes of new work are sent at once, but those of gangs: their process sets each up while its checkpoint is fetched,
and loads that when it is here.

The driver gets its reports, output and saves before its end; commits may follow the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from msgspec import UNSET, UnsetType

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.agent.lane_run import LaneRun, RunnerHandle, all_stopped
from asyncsearch.agent.runner_deaths import Death, charge
from asyncsearch.agent.transfers import Fetched, Transferred
from asyncsearch.agent.work_queue import WorkQueue
from asyncsearch.agent.worker_checkpoints import WorkerCheckpoints
from asyncsearch.events import Outcome, Spent
from asyncsearch.rpc.messages import WorkerMessage
from asyncsearch.runner.protocol import Join, Loadable, Train, TrainPack


class WorkStart:
    """The time from the coming of work until its process begins it: a fetch, and the start of a process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._came_s = self._ready_s = clock()
        self._has_load = False
        self._could_begin_s: float | None = None
        """None: it waits for its checkpoint."""

    def begin(self, *, has_load: bool) -> None:
        """Note that work has come; ``has_load``: it begins with a checkpoint, which is to be fetched."""
        self._came_s, self._has_load, self._could_begin_s = self._clock(), has_load, None

    def could_begin(self) -> None:
        """Note that nothing is missing but a process; a call again, for the next process, changes nothing."""
        if self._could_begin_s is None:
            self._could_begin_s = self._clock()

    def process_ready(self) -> None:
        """Note that a process waits for work, or for the work that it was given already."""
        self._ready_s = self._clock()

    def added_to(self, spent: Spent) -> Spent:
        """Return the times of the process with those of this worker before it."""
        could_begin_s = self._clock() if self._could_begin_s is None else self._could_begin_s
        fetched_s = could_begin_s - self._came_s if self._has_load else 0.0
        starting_s = max(0.0, self._ready_s - could_begin_s)
        return spent._replace(starting=int(1000 * starting_s), loading=spent.loading + int(1000 * fetched_s))


class TrainingLanes:
    """Gives lanes to the runner, those of one lease together, and tells the driver of their ends."""

    def __init__(
        self,
        config: WorkerConfig,
        runner: RunnerHandle,
        checkpoints: WorkerCheckpoints,
        send: Callable[[WorkerMessage], None],
    ) -> None:
        """Begin without work; the arguments are those of ``Workbench``."""
        self._config, self._runner, self._checkpoints, self._send = config, runner, checkpoints, send
        self.queue = WorkQueue(config)
        self.work_start = WorkStart()

    def sent(self, number: int) -> LaneRun | None:
        """Return a lane that the runner trains. None if it has ended or was dropped."""
        return next((run for run in self.queue.sent if run.number == number), None)

    def go_on(self) -> None:
        """Start the lanes that can start: those of new work together. They wait for no joiner."""
        if begun := self.queue.begin_next():
            self.work_start.begin(has_load=any(run.lane.load is not None for run in begun))
        for run in begun:
            self._checkpoints.fetch(run)
        ready = [run for run in self.queue.current if run.can_start or self._may_load_beside(run)]
        if sent := self.queue.sent:
            for run in ready if self._runner.can_take_more and not all_stopped(sent) else ():
                sent.append(run)
                _mark_sent(sent)
                self._runner.join(run, Join(_train(run, copies=self._runner.may_copy)))
        elif ready and all(run in ready for run in self.queue.current if not run.has_joined):
            self._begin(ready)

    def _may_load_beside(self, run: LaneRun) -> bool:
        """Whether a lane may be set up, in a process of its own, before its checkpoint is here.

        The lanes that a joiner joins would wait for it. Of a gang the other ranks would: they stop together, at the end
        of a unit, and one that waits for its checkpoint comes to none.
        """
        is_new = not (run.is_sent or run.has_joined or self.queue.sent)
        return is_new and run.seat is None and self._runner.loads_beside

    def _begin(self, runs: list[LaneRun]) -> None:
        trains = tuple([_train(run, copies=self._runner.may_copy) for run in runs])
        self.work_start.could_begin()
        is_pack = len(trains) > 1 or runs[0].is_open
        if self._runner.begin(runs, TrainPack(trains, runs[0].measured) if is_pack else trains[0]):
            _mark_sent(runs)
            for answer in [one for run in runs for one in run.unasked]:
                self._runner.tell(answer)

    def stop(self, run: LaneRun, reason: str) -> None:
        """Stop a lane. One that the runner trains ends when the runner says so."""
        if run.stop_reason is not None:
            return
        run.stop_reason = reason
        run.gives_up.set()
        if not run.is_sent:
            self.finish(run, Outcome.STOPPED)
            return
        self._checkpoints.give_up(run)
        self._runner.stop(run, reason)

    def finish(
        self,
        run: LaneRun,
        outcome: Outcome,
        error: str = "",
        error_kind: str = "",
        unreported: Mapping[str, float] = {},
        spent: Spent | None = None,
    ) -> None:
        """Send all remaining events of a run, its end last."""
        if not run.is_sent or run.is_awaiting_load:
            run.gives_up.set()  # a fetch is of no use any more
        if run in self.queue.current:
            self._checkpoints.give_up(run)
            self._runner.lane_ended(run)
        self.queue.drop(run)
        self._checkpoints.forget(run)
        for event in run.end(outcome, error, error_kind, unreported, self._spent(run, spent)):
            self._send(event)

    def _spent(self, run: LaneRun, spent: Spent | None) -> Spent | UnsetType:
        """Return the times of a lane. UNSET if a process has trained it, and has not told at its end."""
        if spent is None and run.is_sent:
            return UNSET
        return self.work_start.added_to(spent or Spent())

    # Events of this machine

    def on_transfer(self, done: Transferred) -> None:
        """Handle the result of a transfer; a fetched checkpoint starts the run that waited, if it was not stopped."""
        if not isinstance(done, Fetched):
            self._checkpoints.transferred(done)
            return
        if done.run not in self.queue.current:
            return
        run, run.load = done.run, done.path
        if run.is_sent:  # its process waits for that before it loads anything
            run.load_error = done.error
            self._runner.tell(Loadable("" if done.path is None else str(done.path), done.error, run.number))
            return
        if done.path is None:
            self.finish(run, Outcome.FAILED, done.error, "checkpoint")
        self.go_on()

    def on_death(self, death: Death) -> None:
        """End the lanes that a dead runner has trained."""
        self._checkpoints.copies.lose()
        for run in self.queue.sent:
            self.finish(run, *charge(run, death, self._config))
        self.go_on()


def _mark_sent(runs: Sequence[LaneRun]) -> None:
    """Note that the runner trains these lanes together."""
    for run in runs:
        run.is_sent, run.lanes = True, len(runs)


def _train(run: LaneRun, *, copies: bool) -> Train:
    load = None if run.load is None else str(run.load)
    return Train(
        run.lane.stages,
        load,
        tuple(run.amendments),
        run.number,
        run.seat,
        tuple(run.notes),
        run.place,
        run.lane.judged,
        copies,
        awaits_load=run.is_awaiting_load,
    )
