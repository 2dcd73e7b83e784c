"""Warm start: what a study takes from earlier ones, checked before anything is written, and kept in its own store.

A study reads earlier ones once, when it is created; resumed, it reads what it kept: they may have gone on, or be gone.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import JournalDamagedError, StudyNotFoundError, UsageError
from asyncsearch.files import UNDECODABLE
from asyncsearch.ids import TrialId, trial_name
from asyncsearch.journal.head import is_sealed, seal, unseal
from asyncsearch.journal.opening import read_records, read_study_file
from asyncsearch.journal.projection import branched, reports
from asyncsearch.journal.reading import read_state
from asyncsearch.report.formatting import cut
from asyncsearch.searchers.base_searcher import Searcher, SearcherState
from asyncsearch.searchers.observations import Observed, TrialPosition, differences
from asyncsearch.searchers.optuna_trials import is_optuna_study, observed_in
from asyncsearch.space import Space
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store
from asyncsearch.study.results import Results
from asyncsearch.trial import Params, Trial, TrialState

_log = logging.getLogger(__name__)
WARM_START_FILE = "warm_start.json"

_SHOWN = 6
_SHOWN_CHARS = 100
_POSITIONS = {
    TrialState.COMPLETED: TrialPosition.COMPLETED,
    TrialState.FAILED: TrialPosition.FAILED,
    TrialState.PAUSED: TrialPosition.PAUSED,
}
"""Where an earlier trial stands; one that had still to train will never go on, as if it was stopped."""


class WarmStart(msgspec.Struct, frozen=True):
    """The earlier trials of a study."""

    sources: tuple[str, ...] = ()
    """URLs of the earlier studies."""
    trials: tuple[Observed, ...] = ()
    """In the order of the sources, and in each as they began."""


_WARM_START = msgspec.json.Decoder(WarmStart)


def warm_start_of(
    store: Store, earlier: Sequence[object], *, space: Space, config: EngineConfig, resume: bool
) -> WarmStart:
    """Return the earlier trials that a study begins with: those it kept when it was created, else those of ``earlier``.

    Raises:
        UsageError: there is nothing to be learned from an earlier study, it has another metric or another space,
            or the study was created with other earlier ones.
        StudyNotFoundError: there is no earlier study.
    """
    if isinstance(earlier, str | Path) or not isinstance(earlier, Sequence):
        shown = cut(repr(earlier), _SHOWN_CHARS)
        raise UsageError(f"warm_start={shown}: write a list of studies or of their stores, [...].")
    sources: list[Any] = [one if is_optuna_study(one) else _source(one) for one in earlier]
    urls = tuple([f"optuna:{one.study_name}" if is_optuna_study(one) else one.shown for one in sources])
    if resume and read_study_file(store) is not None:
        return _same(store, urls)
    return WarmStart(urls, tuple(trial for source in sources for trial in _trials_of(source, space, config)))


def _trials_of(source: Any, space: Space, config: EngineConfig) -> list[Observed]:
    return (_read_optuna if is_optuna_study(source) else _read)(source, space, config)


def _read_optuna(study: Any, space: Space, config: EngineConfig) -> list[Observed]:
    """Return the trials of a study of Optuna."""
    name = f"the study {study.study_name!r} of Optuna"
    directions = [direction.name for direction in study.directions]
    mode = "max" if directions == ["MAXIMIZE"] else "min"
    if len(directions) > 1 or mode != config.mode:
        raise UsageError(
            f"warm_start: {name} has directions {', '.join(directions).lower()}, and this study has "
            f"mode={config.mode!r}: their values do not compare. Leave it out."
        )
    found = list(observed_in(study, mode))
    _require_fitting(space, name, {TrialId(number): trial.params for number, trial in enumerate(found)})
    _require_results(found, name)
    return found


def _require_results(found: Sequence[Observed], source: str) -> None:
    if not any(score is not None for trial in found for score in trial.values.values()):
        raise UsageError(f"warm_start: no trial of {source} has a result, so there is nothing to begin with.")


def kept(store: Store) -> WarmStart:
    """Return the earlier trials that the study of a store began with."""
    data = store.read(WARM_START_FILE)
    if data is None:
        return WarmStart()
    body = unseal(data) if is_sealed(data) else data  # an earlier version wrote no checksum
    try:
        return _WARM_START.decode(body or b"")
    except UNDECODABLE as error:
        raise JournalDamagedError(
            f"{store.shown}/{WARM_START_FILE} is not as it was written, and the proposals of the study depend on it."
            " Restore it from a backup, or use a new store=."
        ) from error


def keep(store: Store, warm: WarmStart) -> None:
    """Write down the earlier trials that a study begins with."""
    if warm.sources:
        store.write(WARM_START_FILE, seal(msgspec.json.encode(warm)))


def _source(study: object) -> Store:
    if isinstance(study, Results):
        return study.store
    if isinstance(study, str | Path):
        return open_store(study)
    shown = cut(repr(study), _SHOWN_CHARS)
    raise UsageError(f"warm_start=[{shown}]: that is neither a study nor a store, such as 'studies/digits'.")


def _same(store: Store, urls: tuple[str, ...]) -> WarmStart:
    found = kept(store)
    if urls and urls != found.sources:
        raise UsageError(
            f"The study in {store.shown} was created with warm_start={list(found.sources)}, and cannot be resumed with "
            f"{list(urls)}: leave warm_start= out to go on with what it began with, or use a new store=."
        )
    return found


def _read(source: Store, space: Space, config: EngineConfig) -> list[Observed]:
    file = read_study_file(source)
    if file is None:
        raise StudyNotFoundError(f"warm_start: {source.shown} holds no study: there is no study.json in it.")
    if (file.metric, file.mode) != (config.metric, config.mode):
        raise UsageError(
            f"warm_start: {source.shown} has metric={file.metric!r}, mode={file.mode!r}, and this study has "
            f"metric={config.metric!r}, mode={config.mode!r}: their values do not compare. Leave it out."
        )
    state, replayed = read_state(source, file)
    if replayed.unread:
        _log.warning("%s is being written: its last trials are not among the initial ones.", source.shown)
    begun = branched(read_records(source))
    _require_fitting(space, source.shown, {trial.id: _own(trial, begun)[0] for trial in state.trials})
    values = _values(source, state)
    found = [_observed(state, trial, _own(trial, begun), values.get(trial.id, {})) for trial in state.trials]
    _require_results(found, source.shown)
    return found


def _values(source: Store, state: StudyState) -> dict[TrialId, dict[int, float | None]]:
    metric = state.config.metric
    found: dict[TrialId, dict[int, float | None]] = {}
    for report in reports(read_records(source)):
        if metric in report.metrics:
            found.setdefault(report.trial, {})[report.resource] = state.score(report.metrics[metric])
    return found


def _own(trial: Trial, begun: Mapping[TrialId, tuple[Params, int]]) -> tuple[Params, float]:
    """Return the first params of a trial, and the resource up to which its reports are theirs."""
    return begun.get(trial.id, (trial.params, math.inf))


def _observed(state: StudyState, trial: Trial, own: tuple[Params, float], values: dict[int, float | None]) -> Observed:
    params, end = own
    if end < math.inf:
        own_values = {resource: score for resource, score in values.items() if resource <= end}
        return Observed(params, {}, own_values, TrialPosition.BRANCHED)
    position = _POSITIONS.get(trial.state, TrialPosition.STOPPED)
    score = None if position is TrialPosition.FAILED else state.score(trial.value)
    return Observed(trial.params, {}, values, position, trial.resource, score)


def _require_fitting(space: Space, source: str, trials: Mapping[TrialId, Params]) -> None:
    counts: Counter[str] = Counter()
    words: dict[str, str] = {}
    for trial, params in trials.items():
        found = list(differences(space, params))
        if not found and not space.contains(params):
            found = [("a constraint", "of this space rejects it")]
        for name, matter in found:
            key = f"{name} {matter.partition(':')[0]}"
            counts[key] += 1
            words.setdefault(key, f"{name} {matter} ({trial_name(trial)}")
    if counts:
        shown = [_with_others(words[key], counts[key]) for key in list(words)[:_SHOWN]]
        more = f"; and {len(words) - _SHOWN} more differences" if len(words) > _SHOWN else ""
        raise UsageError(
            f"warm_start: the trials of {source} do not fit the space of this study: {'; '.join(shown)}{more}. "
            "Make the spaces equal, or leave it out."
        )


def _with_others(words: str, count: int) -> str:
    return f"{words})" if count == 1 else f"{words} and {count - 1} more)"


def begin_searcher(searcher: Searcher, space: Space, config: EngineConfig, warm: WarmStart) -> SearcherState:
    """Return a fresh state of a searcher, which knows the earlier trials if there are any."""
    if not warm.trials:
        return searcher.begin(space, config.seed)
    return searcher.begin_with(space, config.seed, warm.trials)
