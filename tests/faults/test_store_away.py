"""The store made unwritable, filled, removed or replaced in the middle of a run, at seeded moments.

What may pass is waited for, and what cannot is raised at once; no trial is charged, and nothing acknowledged is lost. A
failing case is repeated by its name: ``pytest tests/faults/test_store_away.py -k 'journal_removed and seed4]'``.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.breakages import MENDINGS, nothing, small_disk, why_not
from tests.faults.moments import draw
from tests.faults.tools import Search, counts, require_kept, require_whole
from tests.shares import names, seeds, takes_long

pytestmark = pytest.mark.slow

WHILE_IT_RUNS = ("acknowledge", "process", "received", "send")
IN_A_SYNC = ("fdatasync",)
LATEST = 0.7
"""The share of a search's calls within which its store breaks: there is something left to write."""
LATEST_CHECKPOINT = 0.4
"""The same for its checkpoints, since the last trial trains to the end after the last of them."""
AT_THE_END = "stop:1:before"
"""The moment at which the search is over, and its driver is about to close the journal."""
BRIEF_S = 2.0
"""How long a store is waited for that is not mended."""
PASSING = ("immutable", "immutable_checkpoints", "full", "limited")
MENDABLE = ("immutable", "immutable_checkpoints", "full")
"""Those of them that another process can mend."""
KEPT = ("lock_removed", "lock_replaced", "store_moved", "store_covered")
"""Losses after which the store is whole as soon as it is back in its place."""
RESCUED = (
    "segment_removed",
    "segment_replaced",
    "journal_removed",
    "journal_replaced",
    "store_removed",
    "store_replaced",
)


@pytest.fixture
def search(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Search]:
    """A search whose store, in the end, can be removed again."""
    name = request.getfixturevalue("name")
    if reason := why_not(name):
        pytest.skip(reason)
    found = Search(tmp_path)
    with ExitStack() as ends:
        if name == "full":
            ends.enter_context(small_disk(tmp_path))
        if name.startswith("immutable"):
            ends.callback(MENDINGS[name], tmp_path)
        yield found


def moment_of(name: str, seed: int) -> str:
    calls = WHILE_IT_RUNS if name in PASSING else WHILE_IT_RUNS + IN_A_SYNC
    running = {call: count for call, count in counts().items() if call in calls}
    latest = LATEST_CHECKPOINT if name == "immutable_checkpoints" else LATEST
    moment = draw(random.Random(f"{name} {seed}"), running, latest)
    sys.stdout.write(f"seed {seed}: {name} at {moment}\n")
    return str(moment)


def require_refused(code: int, output: str, *words: str) -> None:
    """The run has raised, and the sentence of its error says what to do."""
    assert code == 1, output
    kinds = [line.partition(": ") for line in output.splitlines() if line.startswith(words)]
    assert kinds, output
    assert kinds[-1][0] in words, output
    assert "Study.resume(" in kinds[-1][2], output


def require_uncharged(search: Search) -> None:
    study = require_whole(search)
    assert all(trial.failures == trial.losses == 0 for trial in study.trials), "what the store did is no trial's fault"


@pytest.mark.parametrize("seed", seeds(4), ids="seed{}".format)
@pytest.mark.parametrize("name", names(PASSING, ["limited"]))
def test_a_store_that_stays_unwritable_ends_the_run_which_resumes_mended(search: Search, name: str, seed: int) -> None:
    code, output = search.run(breaks={moment_of(name, seed): name}, store_timeout=BRIEF_S)
    MENDINGS[name](search.folder)
    require_refused(code, output, "StoreError")
    require_kept(search)
    search.finish()
    require_uncharged(search)


@pytest.mark.parametrize("seed", seeds(4), ids="seed{}".format)
@pytest.mark.parametrize("name", names(MENDABLE, ["immutable"]))
def test_a_store_that_is_mended_while_the_run_waits_costs_nothing(search: Search, name: str, seed: int) -> None:
    patience = random.Random(seed).randint(1, 4)
    search.finish(breaks={moment_of(name, seed): name}, mends={f"refused:{patience}:after": name})
    require_uncharged(search)


@pytest.mark.parametrize("seed", seeds(4), ids="seed{}".format)
@pytest.mark.parametrize("name", names(KEPT, ["store_moved"]))
def test_a_missing_lock_or_folder_ends_the_run_at_once_and_it_can_resume(search: Search, name: str, seed: int) -> None:
    code, output = search.run(breaks={moment_of(name, seed): name})
    MENDINGS.get(name, nothing)(search.folder)
    require_refused(code, output, "StoreLostError", "StoreLockedError")
    require_kept(search)
    search.finish()
    require_uncharged(search)


@pytest.mark.parametrize("seed", seeds(4), ids="seed{}".format)
@pytest.mark.parametrize("name", names(RESCUED, ["store_replaced"]))
def test_a_removed_or_replaced_journal_is_continued_from_the_rescue_file(search: Search, name: str, seed: int) -> None:
    require_rescued(search, name, moment_of(name, seed))


@takes_long
@pytest.mark.parametrize("name", ["journal_removed", "store_removed"])
def test_a_journal_removed_after_the_search_is_continued_from_the_rescue(search: Search, name: str) -> None:
    require_rescued(search, name, AT_THE_END)


def require_rescued(search: Search, name: str, moment: str) -> None:
    """The run raises and names a file with all of the journal, from which the search goes on."""
    code, output = search.run(breaks={moment: name})
    require_refused(code, output, "StoreLostError")
    (rescue,) = search.folder.glob("study.rescued*")
    assert f"Study.resume({str(rescue)!r})" in output, output
    if name.endswith("_replaced"):
        search.move_away()
    search.finish(store=str(rescue))
    require_kept(search)
    study = require_whole(search, is_trained_once=name != "store_removed" and name != "store_replaced")
    assert all(trial.failures == 0 for trial in study.trials)


@pytest.mark.parametrize("seed", seeds(4), ids="seed{}".format)
@pytest.mark.parametrize("name", ["second_driver"])
def test_a_driver_without_its_lock_writes_nothing_once_another_has_come(search: Search, name: str, seed: int) -> None:
    code, output = search.run(breaks={moment_of(name, seed): name})
    second = (search.folder / "second").read_text()
    assert second.startswith("0\n"), second
    require_refused(code, output, "StoreLostError", "StoreLockedError")
    require_kept(search)
    search.finish()
    require_uncharged(search)
