"""A trial: one configuration, its progress, and its results."""

from __future__ import annotations

import bisect
import contextlib
import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from asyncsearch.ids import CheckpointRef, NodeKey, PathStep, TrialId, trial_name
from asyncsearch.other_libraries.names import ATTRIBUTES, attribute_answer

Params = dict[str, Any]
"""Name of a parameter -> its value: JSON scalars, lists, or nested dictionaries of the same."""

Metrics = dict[str, float | str]
"""Name of a metric -> its value; values that JSON lacks are spelled ``"NaN"``, ``"Infinity"``, ``"-Infinity"``."""


def seed_of(params: Params, default: int) -> int:
    """Return a trial's seed: its parameter ``seed`` if that is an integer, 0 <= seed < 2**63, else the study's."""
    seed = params.get("seed")
    return seed if type(seed) is int and 0 <= seed < 2**63 else default


UNBOUNDED = 2**62
"""The horizon of a trial that trains until its function returns; users read and write it as None."""


UNWANTED = "the search had all the trials that it wanted"
"""The reason of the end of a trial that came too late for its search. It is in ``study.trials``, and in no count."""


def horizon_of(target: int | None) -> int:
    """Return a target as a comparable number."""
    return UNBOUNDED if target is None else target


def is_end(resource: int | None, max_resource: int | None) -> bool:
    """Return whether a trial is complete at a resource: at ``max_resource``, or, if None, when its function returns."""
    return resource is None or resource == max_resource


class TrialState(enum.Enum):
    """The state of a trial. The transitions are in ``asyncsearch.engine.transitions``."""

    WAITING = "WAITING"
    """Has something to train and no worker: it is new or promoted, or its worker was lost."""
    RUNNING = "RUNNING"
    """A worker holds its lease, until the outcome and the requested checkpoint are known."""
    PAUSED = "PAUSED"
    """Reached its target with a durable checkpoint; the scheduler may promote it."""
    COMPLETED = "COMPLETED"
    """Trained to the end."""
    STOPPED = "STOPPED"
    """Ended early because it was not worth finishing."""
    FAILED = "FAILED"
    """Ended by an error more often than ``max_failures`` allows."""

    @property
    def words(self) -> str:
        """The state as people read it while a run is in progress."""
        return _WORDS[self]

    def words_after(self, *, is_unfinished: bool) -> str:
        """Return the state as people read it when no run is in progress.

        Args:
            is_unfinished: whether something is left to do that was asked for; else nothing pauses a trial any more.
        """
        if self is TrialState.PAUSED and not is_unfinished:
            return TrialState.STOPPED.words
        if self in (TrialState.WAITING, TrialState.RUNNING) and is_unfinished:
            return TO_BE_CONTINUED
        return self.words

    @property
    def is_finished(self) -> bool:
        """Whether the trial can never run again."""
        return self in _FINISHED

    __hash__ = object.__hash__  # Enum's is written in Python, and each move of a trial computes four hashes


_NAMED_METRICS = 6
"""Metrics that the text of a trial names; the others are counted."""
TO_BE_CONTINUED = "to be continued"
_FINISHED = frozenset({TrialState.COMPLETED, TrialState.STOPPED, TrialState.FAILED})
_WORDS = {
    TrialState.WAITING: "waiting",
    TrialState.RUNNING: "running",
    TrialState.PAUSED: "paused",
    TrialState.COMPLETED: "trained to the end",
    TrialState.STOPPED: "stopped early",
    TrialState.FAILED: "failed",
}
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Params)


class CompactParams:
    """Params as bytes; they must be unpacked before they are written as JSON, else ``msgspec`` refuses them."""

    __slots__ = ("_data",)

    def __init__(self, params: Params) -> None:
        # The object that the encoder returns reserves half as much memory again as it needs.
        self._data = b"%b" % _ENCODER.encode(params)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompactParams) and self._data == other._data

    __hash__ = None  # type: ignore[assignment]

    def unpacked(self) -> Params:
        """Return the params, equal and in the same order."""
        return _DECODER.decode(self._data)


if TYPE_CHECKING:
    _Kept = Params | CompactParams
else:
    _Kept = Params  # params read from JSON are never packed


class Trial(msgspec.Struct, gc=False):
    """All that the engine knows about one trial. Only the engine changes it."""

    id: TrialId
    kept: _Kept = msgspec.field(name="params")
    """Its params in memory: ``CompactParams`` once it is finished, if they can be packed. Read ``params`` instead."""
    node: NodeKey
    """The last plan node on its path; the only one if its params have no sequences."""
    state: TrialState = TrialState.WAITING
    target: int | None = None
    """Resource up to which it should train now. None if it trains until its function returns."""
    resource: int = 0
    """Highest resource reported, in units of training done."""
    value: float | None = None
    """The metric as last reported, in the user's sign; None if it was not finite, or before the first report."""
    value_resource: int = 0
    """Resource at which ``value`` was reported."""
    best: float | None = None
    """The best finite reported value of the metric, in the user's sign."""
    best_resource: int = 0
    """Resource at which ``best`` was reported."""
    checkpoint: CheckpointRef | None = None
    """The durable checkpoint from which it would continue."""
    failures: int = 0
    """Attempts that ended by an error of the trial itself."""
    losses: int = 0
    """Attempts that were lost: their worker was, or something else killed their process."""
    reason: str = ""
    """The reason for its state, in words."""
    trained: int = 0
    """Units of training attributed to it, including repeated ones. Each shared unit is attributed to one trial."""
    started_s: float | None = None
    """Driver's clock when it first got a worker, in seconds since 1970."""
    ended_s: float | None = None
    """Driver's clock when it finished, in seconds since 1970."""
    path: tuple[PathStep, ...] = ()
    """The nodes on its path in the order of their starts. Empty if it is ``node`` alone, from 0."""

    compared: int = 0
    """The target at which it was compared last before its checkpoint there was durable."""
    is_begun: bool = False
    """Whether it had a worker or was promoted: such trials come before new ones."""
    answered: Params | None = None
    """Parameters that another library's sampler gave it in mid-training, for people. None if there are none."""

    def __str__(self) -> str:
        """Return "trial-7: 0.98 after 27 units, trained to the end; width=128 lr=0.001"."""
        from asyncsearch.sequences.params import params  # a runner without sequences does without them

        none = "no finite value" if self.has_nonfinite_value else "no value yet"
        value = none if self.value is None else f"{self.value:.5g} after {self.value_resource:,}"
        units = "" if self.value is None else " unit" if self.value_resource == 1 else " units"
        why = self.reason if self.state is TrialState.FAILED and self.reason else ""
        state = f"{self.words}: {why}" if why else self.words
        metrics = [f"{name} {value:.5g}" for name, value in self.metrics.items()]
        more = [f"{len(metrics) - _NAMED_METRICS:,} more"] if len(metrics) > _NAMED_METRICS else []
        also = f" ({', '.join([*metrics[:_NAMED_METRICS], *more])})" if len(metrics) > 1 else ""
        text = f"{self.name}: {value}{units}{also}, {state}; {params(self.params) or 'no parameters'}"
        # The reason is the trial's own text, and a terminal would act on escape sequences in it.
        return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)

    def __repr__(self) -> str:
        return f"<{self}>"

    @property
    def has_nonfinite_value(self) -> bool:
        """Whether it last reported the study's metric as NaN or infinity, so that its value is None."""
        return self.value is None and self.value_resource > 0

    @property
    def words(self) -> str:
        """Its state as people read it."""
        return self.state.words

    @property
    def metrics(self) -> dict[str, float]:
        """The last value of each metric that it has reported, by name, that of the study among them.

        Only trials that a study gives out have them; the engine's have none, since no decision reads them.
        """
        return {}

    @property
    def notes(self) -> dict[str, str]:
        """The texts that it has left, by key; only trials that a study gives out have them."""
        return {}

    def seen_in(
        self, words: str, metrics: Mapping[str, float] | None = None, notes: Mapping[str, str] | None = None
    ) -> Trial:
        """Return a copy for people, which has its metrics and notes.

        ``words`` is the name of its state in its text, which in a search that is over is another one.
        """
        fields: dict[str, Any] = {name: getattr(self, name) for name in Trial.__struct_fields__}
        return _SeenTrial(**fields, seen_words=words, seen_metrics=dict(metrics or {}), seen_notes=dict(notes or {}))

    def __dir__(self) -> list[str]:
        """Leave out the names that it has elsewhere: completion offers only what there is."""
        return sorted(name for name in object.__dir__(self) if name not in ATTRIBUTES["finished_trial"])

    @property
    def params(self) -> Params:
        """Its configuration, which must not be changed; for a finished trial a copy."""
        return {**self.proposed, **self.answered} if self.answered else self.proposed

    @params.setter
    def params(self, params: Params) -> None:
        self.kept = params

    @property
    def proposed(self) -> Params:
        """The configuration with which it is trained: what it is answered in mid-training is no part of it."""
        return self.kept.unpacked() if isinstance(self.kept, CompactParams) else self.kept

    def pack(self) -> None:
        """Store the params in a fifth of the memory: they are rarely read from now on."""
        if not isinstance(self.kept, CompactParams):
            # A user's searcher may propose integers beyond 64 bits, which cannot be packed.
            with contextlib.suppress(OverflowError):
                self.kept = CompactParams(self.kept)

    def ranked_value(self, rank_by: str) -> float | None:
        """Return the value by which it is ranked among others: its ``"last"`` or its ``"best"`` one."""
        return self.best if rank_by == "best" else self.value

    @property
    def horizon(self) -> int:
        """Its target. ``UNBOUNDED`` if it trains until its function returns."""
        return UNBOUNDED if self.target is None else self.target

    @property
    def steps(self) -> tuple[PathStep, ...]:
        """The nodes on its path, at least one."""
        return self.path or (PathStep(0, self.node),)

    def node_at(self, resource: int) -> NodeKey:
        """Return the node in which the unit of training that ends at ``resource`` lies."""
        if not self.path:
            return self.node
        at = bisect.bisect_left(self.path, resource, key=lambda step: step.start)
        return self.path[max(0, at - 1)].node

    @property
    def name(self) -> str:
        """The displayed name."""
        return trial_name(self.id)


class _SeenTrial(Trial, gc=False):
    """A copy of a trial, as people see it."""

    seen_words: str = ""
    seen_metrics: dict[str, float] = {}
    seen_notes: dict[str, str] = {}

    if not TYPE_CHECKING:  # a type checker knows what there is

        def __getattr__(self, name: str) -> NoReturn:
            places = {"metrics": self.seen_metrics, "params": self.params}
            instead = next((f"{place}[{name!r}]" for place, found in places.items() if name in found), "")
            instead = instead or attribute_answer("finished_trial", name)
            words = f": write trial.{instead}." if instead else "."
            raise AttributeError(f"A trial has no {name!r}{words}", name=name, obj=self)

    @property
    def words(self) -> str:
        return self.seen_words

    @property
    def metrics(self) -> dict[str, float]:
        return self.seen_metrics

    @property
    def notes(self) -> dict[str, str]:
        return self.seen_notes


class _ForeignName:
    """An attribute that a trial has elsewhere.

    Not ``__getattr__``: a class that has it looks up each of its attributes more slowly, a tenth of a decision in all.
    """

    def __init__(self, name: str, ours: str) -> None:
        self._name, self._ours = name, ours

    def __get__(self, trial: Trial | None, owner: type[Trial]) -> NoReturn:
        raise AttributeError(f"A trial has no {self._name!r}: write trial.{self._ours}.", name=self._name, obj=trial)


for _name, _ours in ATTRIBUTES["finished_trial"].items():
    setattr(Trial, _name, _ForeignName(_name, _ours))
