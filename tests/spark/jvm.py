"""Spark's Java process, as far as looks at executors and tasks ask it; each call counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from types import SimpleNamespace
from typing import Any

SLOTS = 8
"""Of each executor."""


class Jvm:
    """Objects of the JVM, as far as they are asked: jobs with tags, their stages, and their tasks; each call counts."""

    def __init__(
        self, jobs: Sequence[tuple[str, Sequence[tuple[str, bool]]]], executors: Iterable[str], leaving: Set[str]
    ) -> None:
        """Begin.

        Args:
            jobs: for each, its tags with commas between, and for each task its executor and whether it runs.
            executors: the names of all.
            leaving: those that are being decommissioned.
        """
        self.calls = 0
        executors = list(executors)
        scheduler = self._object(
            runningTasksByExecutors=lambda: self._text(
                ",".join(f"{name} -> {running.get(name, 0)}" for name in executors)
            ),
            taskSetManagerForAttempt=lambda stage, _: self._option(self._task_set(jobs[stage - 1000][1])),
            getExecutorDecommissionState=lambda name: self._option(name if name in leaving else None),
        )
        running: Counter[str] = Counter(name for _, tasks in jobs for name, is_running in tasks if is_running)
        rows = [
            self._object(id=lambda name=name: name, hostPort=lambda: "host:1", maxTasks=lambda: SLOTS)
            for name in executors
        ]
        status = self._object(
            executorList=lambda _: self._object(size=lambda: len(rows), apply=lambda index: rows[index]),
            job=lambda number: self._object(
                jobTags=lambda: self._text(jobs[number][0]), stageIds=lambda: self._text(str(number + 1000))
            ),
        )
        scala = self._object(
            taskScheduler=lambda: scheduler,
            statusStore=lambda: status,
            getExecutorIds=lambda: self._text(",".join(executors)),
        )
        tracker = self._object(getActiveJobsIds=self._numbers)
        self._jobs, self._executors, self._lost = jobs, executors, set[str]()
        conf = {"spark.decommission.enabled": "true", "spark.dynamicAllocation.enabled": "true"}
        self.context = SimpleNamespace(
            _jsc=self._object(sc=lambda: scala), statusTracker=lambda: tracker, _conf=conf, master="spark://host:7077"
        )

    def lose(self, executor: str) -> None:
        """Let it be gone: its tasks wait to be run again."""
        self._executors.remove(executor)
        self._lost.add(executor)

    def hide(self) -> None:
        """Name no executor, as a backend of a cluster's own that does not allocate them; their tasks run on."""
        self._executors.clear()

    def _object(self, **methods: Any) -> SimpleNamespace:
        def counted(method: Any) -> Any:
            def call(*arguments: Any) -> Any:
                self.calls += 1
                return method(*arguments)

            return call

        return SimpleNamespace(**{name: counted(method) for name, method in methods.items()})

    def _numbers(self) -> list[int]:
        """Return the jobs: py4j reads an array by a call for each element."""
        self.calls += 1 + len(self._jobs)
        return list(range(len(self._jobs)))

    def _text(self, text: str) -> SimpleNamespace:
        return self._object(mkString=lambda _: text)

    def _option(self, found: Any) -> SimpleNamespace:
        return self._object(isDefined=lambda: found is not None, get=lambda: found)

    def _task_set(self, tasks: Sequence[tuple[str, bool]]) -> SimpleNamespace:
        left = list(tasks)

        def info() -> SimpleNamespace:
            executor, is_running = left.pop(0)
            return self._object(running=lambda: is_running and executor not in self._lost, executorId=lambda: executor)

        values = self._object(hasNext=lambda: bool(left), next=info)
        return self._object(taskInfos=lambda: self._object(valuesIterator=lambda: values))
