"""A search of one configuration, inside the study that asks for its metrics."""

from __future__ import annotations

import msgspec

from asyncsearch.errors import TrialsFailedError
from asyncsearch.report.live.display import Display
from asyncsearch.store.base_store import Store
from asyncsearch.study.evaluate import KnownPath, SingleProposal, TrainUpTo
from asyncsearch.study.kept.warm_start import WarmStart
from asyncsearch.study.runnable import RunnableStudy
from asyncsearch.trial import Trial


def train_single(study: RunnableStudy, known: KnownPath, end: int | None, home: Store, display: Display) -> Trial:
    """Train one configuration as far as it is asked for, beginning with what its study knows; return its trial.

    Args:
        study: whose trainable, workers and shared folder it has.
        known: the configuration, and what is known of it.
        end: resource at which a trial of the study is complete; None: when its function returns.
        home: the store of the search, inside that of the study.
        display: shows it.

    Raises:
        TrialsFailedError: it failed.
    """
    single = _search(study, known, end, home)
    if study.definition.shared is None:
        home.prepare()
        with home.lock():
            state, last = single.open(display)
            if not state.trials:
                known.begin(home, state, last, study.store)
    try:
        gang = study.definition.gang
        return single.run(1, 1 if gang is None else gang.size, None, display).state.trials[0]
    except TrialsFailedError as error:
        raise TrialsFailedError(f"It could not be trained to {known.resource}: {error}") from None


def _search(study: RunnableStudy, known: KnownPath, end: int | None, home: Store) -> RunnableStudy:
    config = study.definition.config
    definition = msgspec.structs.replace(
        study.definition,
        searcher=SingleProposal(known.params),
        scheduler=TrainUpTo(known.resource, end or known.resource),
        # share=True: its nodes depend on its values alone. In a shared folder the study itself keeps the quota.
        config=msgspec.structs.replace(config, share=True) if study.definition.shared is None else config,
        quota_bytes=None,
    )
    return msgspec.structs.replace(
        study, store=home, definition=definition, warm=WarmStart(), resume=True, default=None
    )
