"""The workers of one cluster that several drivers share: the broker with its clock, and each driver's place at it."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable

from asyncsearch.engine.sizing.share import demand
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, ShareChanged
from asyncsearch.fair.broker import PATIENCE_S, TURN_S, WorkerBroker
from asyncsearch.fair.demands import BrokerFact, SetShare, StudyJoined, StudyLeft, TimePassed, WorkersNeeded
from asyncsearch.ids import WorkerId

PostEvent = Callable[[AnyEvent], None]


class SharedWorkers:
    """Tells the broker what drivers say, and drivers what it decides. Any thread may call any method."""

    def __init__(
        self,
        workers: int,
        *,
        turn_s: float = TURN_S,
        patience_s: float = PATIENCE_S,
        spare_s: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin without studies; see ``WorkerBroker``."""
        self.workers = workers
        self._broker = WorkerBroker(workers, turn_s=turn_s, patience_s=patience_s, spare_s=spare_s)
        self._clock = clock
        self._drivers: dict[str, PostEvent] = {}
        self._changed = threading.Condition()
        self._is_closed = False
        threading.Thread(target=self._keep_time, name="asyncsearch-shares", daemon=True).start()

    def join(self, fact: StudyJoined, post: PostEvent) -> None:
        """Let a study take part; its driver gets its shares as events."""
        with self._changed:
            self._drivers[fact.study] = post
        self.tell(fact)

    def leave(self, study: str) -> None:
        """Let a study take part no longer; its workers have ended."""
        with self._changed:
            self._drivers.pop(study, None)
        self.tell(StudyLeft(study))

    def tell(self, fact: BrokerFact) -> None:
        """Tell the broker a fact, and the drivers what follows; in one order for all threads."""
        with self._changed:
            for decision in self._broker.handle(fact, self._clock()):
                self._send(decision)
            self._changed.notify_all()

    def share_of(self, study: str) -> int:
        """Return how many workers a study may have."""
        with self._changed:
            return self._broker.share_of(study)

    def close(self) -> None:
        """End the clock's thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _send(self, decision: SetShare) -> None:
        post = self._drivers.get(decision.study)
        if post is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed: it is about to leave, and others go on
                post(ShareChanged(decision.workers, decision.is_urgent))

    def _keep_time(self) -> None:
        with self._changed:
            while not self._is_closed:
                due_s = self._broker.next_due()
                wait_s = None if due_s is None else due_s - self._clock()
                if wait_s is not None and wait_s <= 0:
                    self.tell(TimePassed())
                else:
                    self._changed.wait(wait_s)


class WorkerShare:
    """The part of one study's run: what it holds and needs, and what it may have."""

    def __init__(self, workers: SharedWorkers, terms: StudyJoined) -> None:
        """Hold nothing yet; ``terms`` are the study's name, weight, limit, priority and gangs."""
        self._workers, self._terms = workers, terms
        self._lock = threading.Lock()
        self._running: set[tuple[WorkerId, int]] = set()
        """Launches that were begun and have not ended."""
        self._reported: WorkersNeeded | None = None
        self.most = terms.sizes.usable(min(workers.workers, terms.max_workers or workers.workers))
        """The most workers that it may ever have."""

    @property
    def workers(self) -> int:
        """How many workers it may have now."""
        return self._workers.share_of(self._terms.study)

    @property
    def held(self) -> int:
        """How many of its launches have not ended."""
        with self._lock:
            return len(self._running)

    def join(self, post: PostEvent) -> None:
        """Begin to take part, before the run is requested from the driver."""
        self._workers.join(self._terms, post)

    def leave(self) -> None:
        """Take part no longer, once all workers have ended."""
        self._workers.leave(self._terms.study)

    def launching(self, worker: WorkerId, epoch: int) -> None:
        """Note that a launch begins."""
        with self._lock:
            self._running.add((worker, epoch))

    def ended(self, worker: WorkerId, epoch: int) -> None:
        """Note that a launch has ended, or could not begin. The driver's next ``observe`` tells the broker."""
        with self._lock:
            self._running.discard((worker, epoch))

    def observe(self, state: StudyState, *, is_over: bool) -> None:
        """Tell the broker what the study has and needs, if that has changed. Called in the driver's thread.

        Args:
            state: of the study.
            is_over: whether its run has ended, so that it launches nothing any more.
        """
        with self._lock:
            held = len(self._running | {(slot.worker, slot.epoch) for slot in state.pool.alive()})
        needs = 0 if is_over else demand(state, self.most)
        share, starting = self._share_known(state, is_over=is_over), state.pool.count_starting()
        fact = WorkersNeeded(self._terms.study, needs, held, share, starting)
        if fact != self._reported:
            self._reported = fact
            self._workers.tell(fact)

    def _share_known(self, state: StudyState, *, is_over: bool) -> int:
        """Return the share that the engine keeps to; after the run nothing is launched, whatever it is."""
        if is_over:
            return self.workers
        share = 0 if state.run is None else state.run.share
        return share if isinstance(share, int) else self.most
