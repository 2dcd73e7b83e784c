"""A study as its store keeps it: created there with its description, or opened with what its journal says."""

from __future__ import annotations

import hashlib
import time

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
from asyncsearch.report.formatting import many
from asyncsearch.report.live.display import Display
from asyncsearch.schedulers.base_scheduler import options_of
from asyncsearch.searchers.base_searcher import SearcherState
from asyncsearch.shared.folder import require_shareable
from asyncsearch.sizing.pack_strategies import strategy_name
from asyncsearch.store.base_store import Store
from asyncsearch.store.own_folder import require_own_folder
from asyncsearch.study.kept import kept_functions
from asyncsearch.study.kept.definition import Code, StudyDefinition, pickled, require_same
from asyncsearch.study.kept.leftovers import sweep
from asyncsearch.study.kept.warm_start import WarmStart, begin_searcher, keep
from asyncsearch.trial import TrialState


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
            functions = kept_functions.keep(self.store, (), self.definition.space.function_versions)
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
        sweep(self.store, state, self.definition.keep_dirs)
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
        display.warn(kept_functions.edit_notes(existing.functions, present))
        functions = kept_functions.keep(self.store, existing.functions, present)
        now = self._file(existing.bundle_sha256, existing.created_s, functions)
        kept = msgspec.structs.replace(existing, functions=functions, pack_by=now.pack_by, pack_opt=now.pack_opt)
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
            python=kept_functions.THIS_PYTHON,
            functions=functions,
            shared="" if what.shared is None else what.shared.shown,
            defaults=config.defaults,
            keep_checkpoints=config.keep_checkpoints,
            share=config.share,
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
