"""Part of ``bench_dynamics``: the checkpoints that a search holds, and which of them were of use, with hindsight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from _bench import Figure

from asyncsearch import ASHA, PBT, SHA, choice, loguniform
from asyncsearch.actions import AnyAction, DeleteCheckpoint, lanes_given
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, CheckpointCommitted
from asyncsearch.ids import CheckpointRef
from asyncsearch.sequences import multistep
from asyncsearch.simulate import Curves, Simulation
from asyncsearch.space import Space
from asyncsearch.testing.recording import make_state
from asyncsearch.trial import TrialState

TRIALS, WORKERS = 81, 4
SCHEDULES = {"lr": multistep(0.1, milestones=choice([3], [3, 6], [6], [3, 6, 8], [8], [2, 5]), gamma=choice(0.1, 0.5))}


class Held(NamedTuple):
    """What is held at a moment, each with the reason for it."""

    step: int
    reasons: dict[CheckpointRef, str]


class Watch:
    """Follows which checkpoints a search has committed and not deleted, and when each was loaded last."""

    def __init__(self, state: StudyState) -> None:
        self.state = state
        self.steps = 0
        self.held: set[CheckpointRef] = set()
        self.loaded: dict[CheckpointRef, int] = {}
        self.peak = Held(0, {})

    def __call__(self, _now: float, event: AnyEvent, actions: Sequence[AnyAction]) -> None:
        self.steps += 1
        if isinstance(event, CheckpointCommitted):
            self.held.add(event.checkpoint)
        for action in actions:
            if isinstance(action, DeleteCheckpoint):
                self.held.discard(action.checkpoint)
        for action in actions:
            for given in lanes_given(action):
                if given.lane.load is not None:
                    self.loaded[given.lane.load] = self.steps
        if len(self.held) > len(self.peak.reasons):
            self.peak = self.now

    @property
    def now(self) -> Held:
        """What is held now."""
        return Held(self.steps, {checkpoint: self._reason(checkpoint) for checkpoint in self.held})

    def _reason(self, checkpoint: CheckpointRef) -> str:
        state = self.state
        holders = [trial for trial in state.trials if trial.checkpoint == checkpoint]
        if any(trial.state is TrialState.PAUSED and state.scheduler.may_promote(trial.id) for trial in holders):
            return "of a paused trial that may be promoted"
        if any(trial.state is TrialState.PAUSED for trial in holders):
            return "of a paused trial that is not promoted in this run"
        if any(not trial.state.is_finished for trial in holders):
            return "of a trial that trains, in case its worker is lost"
        return "of the best trial" if holders else "loaded by a worker"

    def needed(self, at: Held) -> set[CheckpointRef]:
        """Return which of those held at a moment are loaded later in the run, or are of the best trial in its end."""
        best = self.state.best()
        result = None if best is None else best.checkpoint
        return {one for one in at.reasons if self.loaded.get(one, 0) > at.step or one == result}


def searches() -> dict[str, StudyState]:
    """Return the searches, by name."""
    asha = ASHA(max_resource=27)
    schedules = Space.of(SCHEDULES)
    pbt = PBT(max_resource=27, perturbation_interval=3)
    return {
        "asha": make_state(asha),
        "asha_dropped": make_state(asha, keep_paused=False),
        "sha": make_state(SHA(max_resource=27)),
        "pbt": make_state(pbt, space=Space.of({"lr": loguniform(1e-3, 1e-1)}), share=True),
        "stages": make_state(ASHA(max_resource=9), space=schedules, share=True, look_ahead=10_000),
    }


def held() -> list[Figure]:
    """Return how many checkpoints are held for each that is of use, at the peak and at the end; print why."""
    figures = []
    for name, state in searches().items():
        watch = Watch(state)
        Simulation(state, Curves(seed=1), workers=WORKERS, watch=watch).run(TRIALS)
        for when, moment in {"peak": watch.peak, "end": watch.now}.items():
            figures.append(figure(f"held_over_needed_{name}_{when}", watch, moment))
    return figures


def figure(name: str, watch: Watch, moment: Held) -> Figure:
    """Return how many checkpoints are held at a moment for each that is of use; print why the others are."""
    needed = watch.needed(moment)
    reasons = Counter(reason for one, reason in moment.reasons.items() if one not in needed)
    ratio = len(moment.reasons) / max(1, len(needed))
    if ratio > 1:
        words = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
        print(f"{name}: {len(moment.reasons)} held, {len(needed)} of use; the others: {words}")
    return Figure(name, ratio, "", len(watch.state.trials) / max(1, len(needed)))
