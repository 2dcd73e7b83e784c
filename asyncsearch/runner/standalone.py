"""A trial outside a search: the same contract, for tests, debugging and the final training of the best trial."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asyncsearch.checked_calls import answering
from asyncsearch.errors import StoreError, UsageError
from asyncsearch.files.trees import remove_tree
from asyncsearch.ids import NodeKey
from asyncsearch.runner.context import SearchContext
from asyncsearch.runner.notes import note_of
from asyncsearch.runner.protocol import Amendment
from asyncsearch.runner.stopwatch import Stopwatch
from asyncsearch.trial import Params, seed_of
from asyncsearch.work import Stage


class StandaloneTrial(SearchContext):
    """A trial that is never stopped, so that ``train(StandaloneTrial({"lr": 0.1}, max_resource=3))`` just works.

    With a ``folder`` it saves there when it is complete, and resumes from the newest checkpoint there.
    """

    may_be_done = True

    @answering("StandaloneTrial", "StandaloneTrial({'lr': 0.1}, max_resource=3)")
    def __init__(
        self,
        params: Params,
        *,
        max_resource: int | None = None,
        seed: int | None = None,
        name: str = "trial-0",
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        if not isinstance(params, Mapping):
            raise UsageError(f"StandaloneTrial({params!r}) needs its parameters: write StandaloneTrial({{'lr': 0.1}}).")
        for key, value in params.items():
            if hasattr(value, "conditions"):  # a domain, whose module a runner does not have
                raise UsageError(f"{key}={value!r} is a domain: a trial has values, write e.g. {{{key!r}: 0.1}}.")
        if max_resource is not None and max_resource < 1:
            raise UsageError(f"max_resource={max_resource} is too small: it counts units of training, from 1.")
        link = Recorder(None if folder is None else Path(folder))
        start = link.newest()
        if start and max_resource is not None and start > max_resource:
            raise UsageError(
                f"{folder} holds a checkpoint at {start}, beyond max_resource={max_resource}: take another folder."
            )
        node, save = NodeKey("standalone"), folder is not None
        stage = Stage(
            node,
            {key: _own(value) for key, value in params.items()},
            (),
            seed_of(dict(params), 0) if seed is None else seed,
            start,
            max_resource,
            max_resource,
            save=save,
        )
        super().__init__([stage], link, link.checkpoint(start) if start else None, name)
        self.reports: list[tuple[int, dict[str, float]]] = link.reports
        """Reports as (resource, metrics), in order."""
        self.notes: dict[str, str] = {}
        """The texts that the function has left, by key."""

    @property
    def is_judged(self) -> bool:
        return True

    def note(self, key: str, text: object) -> None:
        name, written = note_of(key, text)
        self.notes[name] = written


def _own(value: Any) -> Any:
    """Return a parameter that the trial may change: lists and mappings are copied, other objects are the caller's."""
    if isinstance(value, dict):
        return {key: _own(one) for key, one in value.items()}
    return [_own(one) for one in value] if isinstance(value, list) else value


class Recorder:
    """Keeps reports in memory, and checkpoints in a folder: ``<folder>/<resource>/checkpoint``."""

    def __init__(self, root: Path | None) -> None:
        self.reports: list[tuple[int, dict[str, float]]] = []
        self._root = root
        self.stopwatch = Stopwatch()

    def await_verdict(self, resource: int, timeout_s: float) -> int | None:
        """Wait for nothing: nobody decides."""

    def report(self, resource: int, metrics: dict[str, float], *, is_awaited: bool = False) -> None:
        self.reports.append((resource, metrics))

    def stop_reason(self) -> str | None:
        return None

    def amendments(self) -> list[Amendment]:
        return []

    def close(self, refusal: str) -> None:
        """Do nothing: a trial outside a search has no end of its own."""

    def newest(self) -> int:
        """Return the resource of the newest checkpoint. 0 if there is none."""
        if self._root is None or not self._root.is_dir():
            return 0
        return max((int(path.name) for path in self._root.iterdir() if path.name.isdecimal()), default=0)

    def checkpoint(self, resource: int) -> Path:
        """Return the path of the checkpoint at a resource."""
        return self._folder / str(resource) / "checkpoint"

    def folder(self, stage: int, resource: int, *, is_needed: bool = False, failed: str = "") -> Path:
        if failed:
            raise StoreError(f"The checkpoint at {resource} could not be written: {failed} Free some space there.")
        del stage
        saving = self._folder / f".saving-{resource}"
        try:
            remove_tree(saving)
            saving.mkdir(parents=True)
        except OSError as error:
            raise StoreError(f"Cannot make {saving} for a checkpoint: {error}. Take another folder.") from error
        return saving / "checkpoint"

    def save_failed(self, stage: int, resource: int, error: Exception) -> None:
        del stage, resource
        raise error

    def saved(self, stage: int, resource: int, *, is_last: bool) -> None:
        del stage, is_last
        final = self._folder / str(resource)
        remove_tree(final)
        (self._folder / f".saving-{resource}").rename(final)

    @property
    def _folder(self) -> Path:
        assert self._root is not None, "only a trial with a folder saves"
        return self._root
