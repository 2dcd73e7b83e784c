"""Looks at what a search would run on before it runs: this machine, the executors of Spark, and a store.

``examine`` asks all of them, Spark where a session is active, and puts the verdicts together.

facts       what this machine and this Python have; what a store permits, and how long its operations take
diagnosis   the verdicts: facts in, findings and their remedies out
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from asyncsearch.doctor.diagnosis import (
    Diagnosis,
    Severity,
    fault,
    of_cluster,
    of_executors_store,
    of_machine,
    of_store,
)
from asyncsearch.doctor.facts import CHECKPOINT_BYTES, PROBE, machine_facts, store_facts
from asyncsearch.errors import AsyncSearchError, ClusterError
from asyncsearch.report.formatting import many
from asyncsearch.store import Store, open_store

if TYPE_CHECKING:
    from asyncsearch.launch.spark.cluster_facts import ExaminedSession
    from asyncsearch.launch.spark.task_facts import StoreView

__all__ = ["Diagnosis", "Examination", "Severity", "examine"]


class Examination(msgspec.Struct, frozen=True):
    """All findings; true if a search can run."""

    diagnoses: tuple[Diagnosis, ...]

    def __bool__(self) -> bool:
        return all(one.severity is not Severity.FAULT for one in self.diagnoses)

    def __str__(self) -> str:
        """Return the findings, one or two lines each, and how many need a change."""
        faults, warnings = (
            sum(one.severity is severity for one in self.diagnoses) for severity in (Severity.FAULT, Severity.WARNING)
        )
        counted = [many(count, name) for count, name in ((faults, "fault"), (warnings, "warning")) if count]
        return "\n".join([*map(str, self.diagnoses), " and ".join(counted) or "nothing to change"])


def examine(
    store: str | Path | Store | None = None, *, spark: bool | None = None, session: Any = None, timeout_s: float = 300.0
) -> Examination:
    """Look at what a search would run on.

    Args:
        store: where a study is, or would be; a folder in it is written and removed. None means no store is looked at.
        spark: whether to ask the executors of Spark, with a session made if none is active; None means only if one is.
        session: the session to ask; None means the active one.
        timeout_s: time that the executors have to answer, the wait for free slots included.
    """
    diagnoses = of_machine(machine_facts())
    try:
        if spark is False or (spark is None and not _has_session(session)):
            return Examination((*diagnoses, *_of_store(store, None)))
        from asyncsearch.launch.spark.cluster_facts import ExaminedSession

        cluster = ExaminedSession(session, timeout_s=timeout_s)
    except ClusterError as error:  # a server of Spark Connect is asked already for whether there is a session
        return Examination((*diagnoses, fault("Spark cannot be used", str(error)), *_of_store(store, None)))
    with cluster:
        facts = cluster.facts()
        diagnoses += of_cluster(facts, store=str(getattr(store, "url", store) or ""))
        # Executors that cannot be asked for their packages cannot be asked for the store.
        return Examination((*diagnoses, *_of_store(store, None if facts.failure else cluster)))


def _has_session(session: Any) -> bool:
    from asyncsearch.launch.spark.joining import present

    return session is not None or present() is not None


def _of_store(store: str | Path | Store | None, cluster: ExaminedSession | None) -> list[Diagnosis]:
    if store is None:
        return []
    views: list[StoreView] = []

    def look_from_executors(probe: Store, content: bytes) -> None:
        assert cluster is not None
        views.extend(cluster.look_for(probe.url, PROBE, content, CHECKPOINT_BYTES))

    try:
        opened = open_store(store)
        facts = store_facts(opened, None if cluster is None else look_from_executors)
    except AsyncSearchError as error:
        return [fault(f"store {store}: cannot be opened", str(error))]
    found = of_store(facts)
    if cluster is not None and not facts.failure:
        found += of_executors_store(facts.shown, views)
    return found
