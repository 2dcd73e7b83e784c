"""The steps of a check, each of which a process of its own can carry out: trainings, variants, and explanations.

An explanation finds the cause of a difference: each part of the state is restored or left out, and those that change
the outcome are named.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from asyncsearch.ablation.left_out import PARAMETER
from asyncsearch.checking.trainable_state import TrainableState
from asyncsearch.checking.training_runs import Reports, RunFacts, Task, Watching, content, exact, name_of, run, stir
from asyncsearch.errors import UsageError
from asyncsearch.runner.failures import exception_text
from asyncsearch.runner.metrics import as_metrics
from asyncsearch.runner.standalone import StandaloneTrial
from asyncsearch.trainable import Trainable, Trainer
from asyncsearch.trainers.state import global_generators


class _Looking(Watching):
    """Notes the state at the cut."""

    def __init__(self, cut: int) -> None:
        self.digests: dict[str, str] = {}
        self.unread: list[str] = []
        self._cut = cut

    def trained(self, resource: int, root: Any) -> None:
        if resource == self._cut:
            state = TrainableState(root)
            self.digests, self.unread = state.digests(), state.unread

    def loaded(self, root: Any) -> None:
        self.digests = TrainableState(root).digests()


def _straight(task: Task, name: str, stirred: int, watching: Watching | None = None) -> RunFacts:
    looking = _Looking(task.cut)
    reports = run(task, name, [task.units], stirred=stirred, watching=watching or looking)
    found = content(task, task.checkpoint(name, task.units), stirred + 50)
    return RunFacts(reports, found, looking.digests, looking.unread)


class _Evaluating(Watching):
    """Evaluates twice more after each unit."""

    def __init__(self) -> None:
        self.found: list[list[dict[str, str]]] = []

    def evaluated(self, root: Any, evaluate: Callable[[], Mapping[str, Any]]) -> None:
        self.found.append([exact(as_metrics(evaluate(), {})) for _ in range(2)])


def _again_and_first_part(task: Task) -> list[RunFacts]:
    again = _straight(task, "again", 2)
    # It continues after the save, as a training does from which others branch.
    reports = run(task, "parts", [task.cut, task.units], stirred=3)
    return [again, RunFacts(reports, content(task, task.checkpoint("parts", task.units), 53))]


def _second_part_and_evaluations(task: Task) -> list[RunFacts]:
    looking, load = _Looking(task.cut), task.checkpoint("parts", task.cut)
    reports = run(task, "resumed", [task.units], start=task.cut, load=load, watching=looking, stirred=4)
    second = RunFacts(reports, content(task, task.checkpoint("resumed", task.units), 54), looking.digests)
    watching = _Evaluating()
    evaluated = _straight(task, "evaluated", 5, watching)
    if watching.found:
        reported = [metrics for _, metrics in evaluated.reports]
        is_trainer = isinstance(task.trainable, type) and issubclass(task.trainable, Trainer)
        evaluated.evaluates_alike = all(
            one == other and (not is_trainer or one == mine)
            for (one, other), mine in zip(watching.found, reported, strict=False)
        )
    return [second, evaluated]


def can_try(trainable: Trainable) -> bool:
    """Return whether a trainable can be set up and tried without training."""
    return isinstance(trainable, type) and issubclass(trainable, Trainer) and hasattr(trainable, "try_model")


def try_variants(task: Task) -> None:
    """Set the trainer up once for each value of ``ablated`` that the params list, and train nothing.

    Raises:
        UsageError: one cannot be built; names it and says why.
    """
    trainer_class = task.trainable
    assert isinstance(trainer_class, type)
    for value in task.params[PARAMETER]:
        trial = StandaloneTrial({**task.params, PARAMETER: value})
        trainer = trainer_class()
        trainer.trial = trial
        try:
            trainer.setup(trial.params)
            trainer.try_model()
        except UsageError as error:
            raise UsageError(f"{name_of(task.trainable)} {_variant(trial)}: {error}") from error
        except Exception as error:
            raise UsageError(
                f"{name_of(task.trainable)} {_variant(trial)} cannot be computed; correct that first.{_hint(trial)}\n"
                f"{exception_text(error)}"
            ) from error


def _variant(trial: StandaloneTrial) -> str:
    return f"without {trial.ablation}" if trial.ablation else "with everything"


def _hint(trial: StandaloneTrial) -> str:
    if not any(one.kind == "feature" for one in trial.ablation.ablated.components):
        return ""
    return " A feature that is dropped makes the data narrower: Ablation(..., fill=True) keeps its place."


FoundParts = list[tuple[str, list[str], bool]]
"""Kind, places, and whether it is proved."""
RunOutcome = tuple[Reports, dict[str, str]]
"""The reports, and the content of a new object that loads the last checkpoint."""

_UNNAMED = "something that is none of its generators: threads, the clock, the order of a set, the device's kernels"
_SINGLE = {"value", "counter", "offset"}
"""Kinds that group unrelated single numbers."""
_MOST_PLACES = 12
"""Up to so many of them are tried one by one."""
_UNKNOWN = "something that cannot be seen: a file, a module's variable, a state inside of a library"


def randomness(task: Task) -> FoundParts:
    """Return the generators whose state before a run changes its outcome."""

    def outcome(stirred: Mapping[str, int]) -> RunOutcome:
        shared = global_generators.shared()
        stir(1)
        for name, seed in stirred.items():
            if name in shared:
                shared[name].seed(seed)
        return _outcome(task, "random", stirred=None)

    first = outcome({})
    if outcome({}) != first:
        return [(_UNNAMED, [], True)]
    guilty = [name for name in global_generators.shared() if outcome({name: 77}) != first]
    return [(name, ["seed it in setup, from trial.seed"], True) for name in guilty] or [(_UNNAMED, [], True)]


def evaluation(task: Task) -> FoundParts:
    """Return the parts that ``evaluate`` changes."""

    class Evaluating(_Comparing):
        evaluated = _Comparing.compare

    return Evaluating().changed_in(task, "evaluating", [task.units])


def saving(task: Task) -> FoundParts:
    """Return the parts that ``save`` changes."""

    class Saving(_Comparing):
        saving = _Comparing.compare

    return Saving().changed_in(task, "saving", [task.cut, task.units])


class _Comparing(Watching):
    """Notes the parts that an action changes."""

    def __init__(self) -> None:
        self._changed: dict[str, list[str]] = {}

    def compare(self, root: Any, action: Callable[[], object]) -> None:
        before, shared = TrainableState(root), _digests(global_generators.capture())
        action()
        after, now = TrainableState(root), _digests(global_generators.capture())
        for kind, places in before.differing(after).items():
            self._changed.setdefault(kind, []).extend(places)
        for name, digest in shared.items():
            if now.get(name) != digest:
                self._changed.setdefault(name, [])

    def changed_in(self, task: Task, name: str, stops: list[int]) -> FoundParts:
        run(task, name, stops, watching=self, stirred=6)
        known = {kind: places for kind, places in self._changed.items() if kind != "value"} or self._changed
        return [(kind, list(dict.fromkeys(places)), True) for kind, places in known.items()] or [(_UNKNOWN, [], True)]


def _digests(states: Mapping[str, Any]) -> dict[str, str]:
    return {name: repr(state.tolist() if hasattr(state, "tolist") else state) for name, state in states.items()}


class _Holding(Watching):
    """Keeps the state at the cut of an uninterrupted training."""

    def __init__(self, cut: int) -> None:
        self._cut = cut
        self.state: TrainableState | None = None
        self.shared: dict[str, Any] = {}

    def trained(self, resource: int, root: Any) -> None:
        if resource == self._cut:
            self.state, self.shared = TrainableState(root), global_generators.capture()


class _Giving(Watching):
    """Gives a resumed training its missing parts of some kinds."""

    def __init__(self, source: _Holding, kinds: Collection[str], but: str) -> None:
        self._source, self._kinds, self._but = source, kinds, but
        self.differing: dict[str, list[str]] = {}
        self.opaque: list[str] = []

    def loaded(self, root: Any) -> None:
        source, mine = self._source.state, TrainableState(root)
        assert source is not None
        now = _digests(global_generators.capture())
        others = [name for name, digest in _digests(self._source.shared).items() if now.get(name) != digest]
        self.differing = source.differing(mine) | {name: [] for name in others}
        self.opaque = source.opaque
        source.give(mine, self._kinds, self._but)
        global_generators.restore({name: self._source.shared[name] for name in others if name in self._kinds})


def resuming(task: Task) -> FoundParts:
    """Return the parts that a resumed training lacks.

    Every part that differs after ``load`` is restored, which must give the uninterrupted training. Then each kind is
    left out in turn: the kinds that change the outcome were forgotten, the others are caches and the like.
    """
    parts = task.checkpoint("parts", task.cut)
    whole = _outcome(task, "whole")
    wanted: RunOutcome = [report for report in whole[0] if report[0] > task.cut], whole[1]
    source = _Holding(task.cut)
    run(task, "held", [task.cut], save=False, watching=source, stirred=7)
    if source.state is None:
        return [(_UNKNOWN, [], True)]

    def given(kinds: Collection[str], but: str = "") -> tuple[RunOutcome, _Giving]:
        watching = _Giving(source, kinds, but)
        return _outcome(task, "given", start=task.cut, load=parts, watching=watching), watching

    plain, seen = given(())
    differing = seen.differing
    if plain == wanted:
        return [("what a process remembers: a module's variable, a cache outside of the trainer", [], True)]
    kinds = set(differing)
    if given(kinds)[0] == wanted:
        needed = [kind for kind in differing if given(kinds - {kind})[0] != wanted]
        for kind in _SINGLE & set(needed):
            places = differing[kind]
            if 1 < len(places) <= _MOST_PLACES:
                differing[kind] = [place for place in places if given(kinds, place)[0] != wanted] or places
        return [(kind, differing[kind], True) for kind in needed or differing]
    guilty = [kind for kind in differing if given({kind})[0] != plain]
    found: FoundParts = [(kind, differing[kind], True) for kind in guilty]
    if seen.opaque:
        found.append(
            ("order", [f"{place} (an iterator: where it stands cannot be seen)" for place in seen.opaque], False)
        )
    # What differs and was restored in vain is not the cause: to name it would send people to the wrong place.
    return found or [(_UNKNOWN, [], True)]


def _outcome(task: Task, name: str, stirred: int | None = 8, **options: Any) -> RunOutcome:
    reports = run(task, name, [task.units], stirred=stirred, **options)
    return reports, content(task, task.checkpoint(name, task.units), 9)


STEPS: dict[str, Callable[[Task], Any]] = {
    "once": lambda task: _straight(task, "once", 1),
    "again and first part": _again_and_first_part,
    "second part and evaluations": _second_part_and_evaluations,
    "explain randomness": randomness,
    "explain resuming": resuming,
    "explain saving": saving,
    "explain evaluation": evaluation,
    "try variants": try_variants,
}
"""The steps that a process can carry out."""
