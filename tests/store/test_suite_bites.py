"""The conformance suite for stores detects faults: each fault breaks a law."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.errors import StoreLockedError
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.store import LocalStore, Store
from asyncsearch.store.base_store import FileInfo
from asyncsearch.testing import StoreTests


class CreatesTwice(LocalStore):
    def create(self, name: str, data: bytes) -> bool:
        self.write(name, data)
        return True


class HasLessThanNothing(LocalStore):
    def free_bytes(self) -> int:
        return -1


class LocksNobodyOut(LocalStore):
    def lock(self) -> AbstractContextManager[None]:
        return nullcontext()


class LeadsOut(LocalStore):
    def _path(self, name: str) -> Path:
        return self._root / "files" / name.replace("\0", "0")


class ForgetsSizes(LocalStore):
    def walk(self, folder: str = "") -> Mapping[str, FileInfo]:
        return dict.fromkeys(super().walk(folder), FileInfo(0, None))


class ListsEveryNode(LocalStore):
    def checkpoints(self, node: NodeKey | None = None) -> Sequence[CheckpointRef]:
        return super().checkpoints()


class TakesWhatBeginsAlike(LocalStore):
    def remove_tree(self, folder: str) -> None:
        for name in self.walk():
            if name.startswith(folder):
                self.remove(name)


class IsItsOwnChild(LocalStore):
    def at(self, url: str) -> Store:
        return self


class ShowsWhatIsReplaced(LocalStore):
    @contextlib.contextmanager
    def fetch(self, checkpoint: CheckpointRef) -> Iterator[Path]:
        with super().fetch(checkpoint) as folder:
            yield folder.parent


class ReopensSegments(LocalStore):
    def open_segment(self) -> Any:
        if self.journal_segments():
            self.remove(f"journal/{self.journal_segments()[-1]}")
        return super().open_segment()


class NotesItsHeadOnce(LocalStore):
    def open_head(self) -> Any:
        head = super().open_head()
        head.note = lambda data: self.create("head.json", data)  # type: ignore[method-assign,assignment]
        return head


class LosesLines(LocalStore):
    def append_log(self, name: str, lines: Sequence[str]) -> None:
        super().append_log(name, lines[:1])


class LosesTheLogsOfOthers(LocalStore):
    def begin_log(self, name: str) -> Any:
        self.remove(name)
        self.remove_tree("logs/segments")
        return super().begin_log(name)


class ReadsFromTheStart(LocalStore):
    def read_part(self, name: str, start: int, end: int | None = None) -> bytes | None:
        return super().read_part(name, max(0, start), end)


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (CreatesTwice, "a_file_is_created_once_and_stays_as_it_was"),
        (HasLessThanNothing, "free_space_is_a_number_of_bytes_or_unknown"),
        (LocksNobodyOut, "second_driver_is_refused_and_learns_who_holds_the_lock"),
        (LeadsOut, "names_cannot_lead_out_of_the_store"),
        (ForgetsSizes, "walk_finds_every_file_below_a_folder_with_its_size"),
        (ListsEveryNode, "checkpoints_of_one_node_are_listed_alone"),
        (TakesWhatBeginsAlike, "remove_tree_takes_a_folder_or_a_file_and_nothing_else"),
        (IsItsOwnChild, "a_store_inside_and_one_beside_are_stores_of_their_own"),
        (ShowsWhatIsReplaced, "committed_checkpoint_is_fetched_as_it_was"),
        (ReopensSegments, "segments_are_numbered_and_never_opened_twice"),
        (NotesItsHeadOnce, "the_head_that_was_noted_last_is_read_back"),
        (LosesLines, "log_gives_back_its_lines"),
        (LosesTheLogsOfOthers, "lines_of_all_trials_that_one_driver_after_another_writes_are_read_trial_by_trial"),
        (ReadsFromTheStart, "a_part_of_a_file_is_what_a_slice_of_it_is"),
    ],
)
def test_a_store_with_a_fault_breaks_the_law_that_names_it(kind: type[LocalStore], law: str, tmp_path: Path) -> None:
    class Suite(StoreTests):
        def make(self) -> Store:
            return kind(tmp_path / "store")

    with pytest.raises(AssertionError, match=r"found|nothing was refused"):
        getattr(Suite(), f"test_{law}")()


class FailsToSayWhoHoldsIt(LocalStore):
    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        try:
            with super().lock():
                yield
        except StoreLockedError:
            raise AttributeError("find") from None


def test_a_lock_that_breaks_ends_its_law_and_lets_nobody_wait_for_ever(tmp_path: Path) -> None:
    class Suite(StoreTests):
        def make(self) -> Store:
            return FailsToSayWhoHoldsIt(tmp_path / "store")

    with pytest.raises(AttributeError, match="find"):
        Suite().test_one_of_many_gets_the_lock()


def test_a_good_store_passes_without_a_test_runner(tmp_path: Path) -> None:
    class Suite(StoreTests):
        made = 0

        def make(self) -> Store:
            self.made += 1
            return LocalStore(tmp_path / f"{self.made}" / "store")

    assert len(Suite().run()) > 40
