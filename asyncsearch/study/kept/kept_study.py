"""A study as its store keeps it: created there with its description, or opened with what its journal says.

The functions of time of its trials are kept too: an edit does not change a trial that has begun.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from asyncsearch._version import __version__
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import StoreError, StudyExistsError
from asyncsearch.journal.opening import (
    BUNDLE_FILE,
    STUDY_FILE,
    KeptFunction,
    StudyFile,
    read_study_file,
    replay,
    write_study_file,
)
from asyncsearch.launch.bundle import pack
from asyncsearch.old_pickles import loads
from asyncsearch.report.formatting import many
from asyncsearch.report.live.display import Display
from asyncsearch.schedulers.base_scheduler import options_of
from asyncsearch.searchers.base_searcher import SearcherState
from asyncsearch.sequences.custom_sequences import Versions
from asyncsearch.shared.folder import require_shareable
from asyncsearch.sizing.pack_strategies import strategy_name
from asyncsearch.store.base_store import Store
from asyncsearch.store.opening import require_own_folder
from asyncsearch.study.asked.stop_options import change_notes, described, enough_notes
from asyncsearch.study.kept.definition import Code, StudyDefinition, pickled, require_same
from asyncsearch.study.kept.warm_start import WarmStart, begin_searcher, keep
from asyncsearch.study.trial_dirs import sweep_at_start
from asyncsearch.trial import TrialState

THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class Earlier(NamedTuple):
    """The functions that are not in the space any more."""

    versions: dict[tuple[str, str], Callable[..., Any]]
    notes: list[str]
    """Sentences about what cannot be had as it was."""


def read_earlier(store: Store, study: StudyFile | None, present: Versions) -> Earlier:
    """Return the functions that earlier runs of a study had, as they were then, without those that are present.

    Raises:
        StoreError: one of them is missing, was changed by another program, or cannot be unpickled here.
    """
    earlier = Earlier({}, [])
    here = {name: function for (name, _), function in present.items()}
    for kept in () if study is None else study.functions:
        if (kept.name, kept.code) in present:
            continue
        if kept.python == THIS_PYTHON:
            earlier.versions[kept.name, kept.code] = _read(store, kept)
        elif kept.name in here:
            # Bytecode of another Python cannot be compared or run.
            earlier.versions[kept.name, kept.code] = here[kept.name]
            earlier.notes.append(
                f"The function {kept.name!r} was last run by Python {kept.python}, and this is {THIS_PYTHON}: whether "
                "it was edited cannot be told, and the trials that began with it go on with it as it is now."
            )
    return earlier


def keep_functions(store: Store, before: Iterable[KeptFunction], present: Versions) -> list[KeptFunction]:
    """Write the functions that are not in the store yet, and return all of them, those that are present last."""
    listed = {(kept.name, kept.code): kept for kept in before}
    found = [kept for key, kept in listed.items() if key not in present]
    for (name, code), function in present.items():
        kept = listed.get((name, code))
        if kept is None:
            data = pack(function).data
            store.write(_file(code), data)
            kept = KeptFunction(name, code, hashlib.sha256(data).hexdigest(), THIS_PYTHON)
        found.append(kept)
    return found


def edit_notes(before: Iterable[KeptFunction], present: Versions) -> list[str]:
    """Return a sentence for each function that the last run had with another code, or without a note of it."""
    last = {kept.name: kept for kept in before}
    notes = []
    for name, code in present:
        if name not in last:
            notes.append(
                f"Whether the function {name!r} was edited since the study was last run cannot be told, since it was "
                "not kept then: the trials that began with it go on with it as it is now."
            )
        elif last[name].code != code and last[name].python == THIS_PYTHON:
            notes.append(
                f"The function {name!r} has been edited since the study was last run: trials that began with it go on "
                "with it as it was, and new ones use it as it is now."
            )
    return notes


def _file(code: str) -> str:
    return f"functions/{code}.bin"


def _read(store: Store, kept: KeptFunction) -> Callable[..., Any]:
    place = f"{store.shown}/{_file(kept.code)}"
    advice = f"trials that began with the function {kept.name!r} as it was need it. Restore it, or use a new store=."
    data = store.read(_file(kept.code))
    if data is None or hashlib.sha256(data).hexdigest() != kept.sha256:
        what = "is missing" if data is None else "is not the file that the study wrote, so it is not unpickled"
        raise StoreError(f"{place} {what}: {advice}")
    try:
        function: Callable[..., Any] = loads(data)
    except Exception as error:
        raise StoreError(f"{place} cannot be unpickled here ({type(error).__name__}: {error}): {advice}") from error
    return function


class KeptStudy(msgspec.Struct, kw_only=True):
    """A study as its store keeps it, and the place of each part."""

    store: Store
    definition: StudyDefinition
    code: Code
    """Of the trainable."""
    warm: WarmStart
    resume: bool
    """Whether a study that is in the store already goes on; so does one that was opened once."""

    def fresh_state(self) -> StudyState:
        """Return the state before the first record of the journal."""
        what, searcher = self.definition, self.begin_searcher()
        scheduler = what.scheduler.begin(what.space, what.config.seed)
        return StudyState(what.config, searcher, scheduler, what.scheduler.max_resource, what.packing, what.gang)

    def begin_searcher(self) -> SearcherState:
        """Return the searcher before its first proposal."""
        what = self.definition
        return begin_searcher(what.searcher, what.space, what.config, self.warm)

    def require_places(self) -> None:
        """Check, before anything is written, that the places of the study and of what it shares are not another's.

        Raises:
            StoreError: other programs have files there.
        """
        if read_study_file(self.store) is None:
            require_own_folder(self.store, self.code.name)
        if self.definition.shared is not None:
            require_shareable(self.definition.shared)

    def open(self, display: Display) -> tuple[StudyState, int]:
        """Create the study, or open it if it may go on; return its state and the number of its last record.

        The store is locked meanwhile.

        Raises:
            StudyExistsError: it exists and was not to be resumed.
            UsageError: another study is in the store.
        """
        existing = read_study_file(self.store)
        changes: list[str] = []
        if existing is None:
            _require_nothing_rescued(self.store)
            if self.store.journal_segments():
                display.warn([self._without_description()])
            bundle = pickled(self.definition)
            self.store.write(BUNDLE_FILE, bundle)
            keep(self.store, self.warm)
            functions = keep_functions(self.store, (), self.definition.space.function_versions)
            write_study_file(self.store, self._file(hashlib.sha256(bundle).hexdigest(), time.time(), functions))
        elif not self.resume:
            raise StudyExistsError(
                f"{self.store.shown} already holds the study {existing.name!r}. "
                f"Go on with it by Study.resume({self.store.shown!r}) or Study(..., resume=True), "
                "or choose another store=."
            )
        else:
            changes = require_same(existing, self._file(existing.bundle_sha256, existing.created_s, []))
            display.warn(changes)
            self._keep_description(existing, display)
        state = self.fresh_state()
        found = replay(self.store, state)
        display.warn((*found.notes, *found.doubts, *(_failed_before(state) if changes else ())))
        display.warn(enough_notes(state))
        sweep_at_start(self.store, state, self.definition.keep_dirs, found.last)
        self.resume = True
        return state, found.last

    def _without_description(self) -> str:
        """Return a note that study.json is written anew, if the study may go on."""
        place = f"{self.store.shown}/{STUDY_FILE}"
        if not self.resume:
            raise StudyExistsError(
                f"{self.store.shown} holds the journal of a study, and {place} is missing. Restore it, or write it anew"
                " from the script that made the study: Study(..., resume=True); or choose another store=."
            )
        return f"{place} was missing and is written as this script describes the study; its journal goes on."

    def _keep_description(self, existing: StudyFile, display: Display) -> None:
        """Keep the functions of time as they are now beside those that earlier runs had, and how trials are packed."""
        present = self.definition.space.function_versions
        display.warn(edit_notes(existing.functions, present))
        display.warn(change_notes(existing.stop_rules, described(self.definition.config)))
        functions = keep_functions(self.store, existing.functions, present)
        now = self._file(existing.bundle_sha256, existing.created_s, functions)
        changed = {name: getattr(now, name) for name in ("pack_by", "pack_opt", "stop_rules")}
        kept = msgspec.structs.replace(existing, functions=functions, **changed)
        if kept != existing:
            write_study_file(self.store, kept)

    def _file(self, bundle_sha256: str, created_s: float, functions: list[KeptFunction]) -> StudyFile:
        what, config = self.definition, self.definition.config
        return StudyFile(
            name=config.study,
            metric=config.metric,
            mode=config.mode,
            rank_by=config.rank_by,
            seed=config.seed,
            version=config.version,
            space=what.space.describe(),
            searcher=what.searcher.describe(),
            scheduler=what.scheduler.describe(),
            scheduler_options=options_of(what.scheduler),
            max_resource=what.scheduler.max_resource,
            trainable=self.code.name,
            can_evaluate=config.can_evaluate,
            pack_by=config.pack_by,
            pack_opt="" if what.packing is None else strategy_name(what.packing.strategy),
            fingerprint=self.code.fingerprint,
            script=self.code.script,
            script_sha256=self.code.script_sha256,
            parts=self.code.parts,
            python=THIS_PYTHON,
            functions=functions,
            shared="" if what.shared is None else what.shared.shown,
            defaults=config.defaults,
            keep_checkpoints=config.keep_checkpoints,
            share=config.share,
            stop_rules=described(config),
            bundle_sha256=bundle_sha256,
            asyncsearch=__version__,
            created_s=created_s,
        )


def _require_nothing_rescued(store: Store) -> None:
    """Refuse to begin a new study where an earlier one was removed and lies beside it, to be gone on with."""
    rescued = store.rescued()
    if rescued:
        file = rescued[-1]
        raise StoreError(
            f"The study that was in {store.shown} was removed while it ran, and is kept in {file!r}. Go on with it:"
            f" Study.resume({file!r}), or Study(..., store={file!r}, resume=True); or move that file away to begin a"
            " new study."
        )


def _failed_before(state: StudyState) -> list[str]:
    """Return a sentence on the trials that failed before the code was changed: people expect that they run again."""
    failed = sum(trial.state is TrialState.FAILED for trial in state.trials)
    if not failed:
        return []
    stays = "it stays failed and counts" if failed == 1 else "they stay failed and count"
    words = f"{many(failed, 'trial')} failed before the code was changed; {stays} in num_trials. To try as many"
    return [
        f"{words} configurations as you meant to, raise num_trials by {failed}, or begin a new study in another store."
    ]
