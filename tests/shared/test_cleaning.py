"""Cleaning removes exactly the items of its dry run, and no files that a study may still need."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import cli
from asyncsearch.cli.commands import cleaned_totals
from asyncsearch.errors import StoreLockedError, StudyNotFoundError, UsageError
from asyncsearch.events import CheckpointCommitted
from asyncsearch.ids import CheckpointRef
from asyncsearch.journal.format import SegmentReader
from asyncsearch.report.formatting import parse_age, parse_size, size
from asyncsearch.shared.cleaning import Cleaning, Item, Limits, clean
from asyncsearch.shared.folder import SharedFolder
from asyncsearch.store import LocalStore, Store
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.study.study import Study
from asyncsearch.testing.store_checkpoints import load, save
from asyncsearch.testing.store_sharing import add
from tests.engine.tools import make_state, record, replayed
from tests.report.tools import SCHEDULER, SPACE, simulated, store_of
from tests.shared.test_claims import silence
from tests.shared.tools import DAY_S, NODE, NODES, age, commit, content, let_age, plan_at

LOST = [CheckpointRef(NODE, resource) for resource in (1, 3, 9)]


@pytest.fixture(params=["disk", "file"])
def study(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A study with the checkpoints that its trials need, three unneeded ones, and leftovers of crashes."""
    folder = store_of(simulated(), tmp_path / "study")
    store: Store = LocalStore(folder) if request.param == "disk" else FsspecStore(f"file://{folder}")
    for ref in [*needed(store), *LOST]:
        save(store, ref, model=b"m" * 1000)
    (folder / "tmp" / "file-0").write_bytes(b"half")
    (folder / "tmp" / "checkpoint-0" / "files").mkdir(parents=True)
    return store


def needed(store: Store) -> list[CheckpointRef]:
    found = [trial.checkpoint for trial in Study.open(store.url).trials if trial.checkpoint is not None]
    assert found
    return found


@pytest.fixture(params=["disk", "file", "memory"])
def plan(request: pytest.FixtureRequest, tmp_path: Path) -> SharedFolder:
    places = {"disk": f"{tmp_path}/plan", "file": f"file://{tmp_path}/plan", "memory": f"memory://{uuid.uuid4().hex}"}
    return plan_at(places[request.param])


def files(store: Store) -> dict[str, bytes | None]:
    """Everything in a store except the files of its lock."""
    return {name: data for name, data in content(SharedFolder(store)).items() if not name.startswith("lock")}


def said(cleaning: Cleaning) -> list[tuple[str, str, int, str]]:
    return [item[:4] for item in cleaning.gone]


ROOTS = [tempfile.gettempdir()]


def agree(store: Store, limits: Limits | None = None) -> Cleaning:
    """Clean, and assert that a dry run changes nothing and returns exactly the items that are then removed."""
    before = files(store)
    dry = clean(store, limits, dry_run=True, roots=ROOTS)
    assert files(store) == before
    wet = clean(store, limits, roots=ROOTS)
    assert said(wet) == said(dry)
    assert cleaned_totals(wet, dry_run=False) == cleaned_totals(dry, dry_run=False)
    gone = sum(len(data or b"") for name, data in before.items() if name not in files(store))
    assert gone == sum(item.size_bytes for item in wet.gone)
    assert clean(store, limits, roots=ROOTS).gone == []
    return wet


# The store of a study


def test_what_no_trial_needs_goes_and_the_rest_stays(study: Store) -> None:
    kept = sorted(needed(study), key=lambda ref: (ref.node, ref.resource))
    done = agree(study)
    names = {item.name for item in done.gone}
    assert {str(ref) for ref in LOST} | {"tmp/file-0", "tmp/checkpoint-0"} <= names
    assert study.checkpoints() == kept
    assert all(load(study, ref) for ref in kept)
    assert (done.kept, done.stayed) == (len(kept), [])


def test_shards_of_a_checkpoint_that_was_never_committed_go(study: Store) -> None:
    ref = CheckpointRef(NODE, 27)
    add(study, study.shard_place(ref, study.stage(ref)), 1, ref)
    done = agree(study)
    assert [item.size_bytes for item in done.gone if item.kind == "leftover" and "27" in item.name] == [10]
    assert not [name for name in files(study) if "shard" in name]


def test_journal_and_results_are_untouched(study: Store) -> None:
    before = {name: data for name, data in files(study).items() if not name.startswith(("checkpoints/", "tmp/"))}
    summary = Study.open(study.url).summary()
    clean(study)
    after = {name: data for name, data in files(study).items() if not name.startswith(("checkpoints/", "tmp/"))}
    assert after == before
    assert Study.open(study.url).summary() == summary


def test_a_replaced_version_goes_and_the_one_that_counts_stays(study: Store) -> None:
    ref = needed(study)[0]
    save(study, ref, model=b"new")
    clean(study)
    assert load(study, ref) == {"model": b"new"}
    assert len([name for name in files(study) if name.startswith(f"checkpoints/{ref.node}/")]) == 2


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_study_that_a_driver_has_open_is_refused(study: Store, dry_run: bool) -> None:
    before = files(study)
    with study.lock(), pytest.raises(StoreLockedError, match=r"driver has the study at .* open"):
        clean(study, dry_run=dry_run)
    assert files(study) == before


@pytest.mark.parametrize("config", [{}, {"keep_checkpoints": 4}, {"keep_checkpoints": 0}, {"share": False}], ids=str)
@pytest.mark.parametrize("part", [0.2, 0.5, 0.9, 1.0])
def test_what_the_state_refers_to_stays_wherever_the_search_was_cut_off(
    config: dict[str, Any], part: float, tmp_path: Path
) -> None:
    recorded = record(make_state(SCHEDULER, space=SPACE, **config), 20, workers=3)
    lines = recorded.lines[: max(2, int(part * len(recorded.lines)))]
    store = LocalStore(store_of(recorded, tmp_path / "study", lines=len(lines)))
    events = [entry.event for entry in SegmentReader().read("000001.jsonl", lines)]
    for ref in [*(event.checkpoint for event in events if isinstance(event, CheckpointCommitted)), *LOST]:
        save(store, ref, model=b"m")
    clean(store)
    state = replayed(make_state(SCHEDULER, space=SPACE, **config), lines)
    assert set(store.checkpoints()) == set(state.references)


def test_a_quota_spares_what_fits_in_it_even_if_nobody_needs_it(study: Store) -> None:
    usage = SharedFolder(study).usage()
    done = agree(study, Limits(quota_bytes=sum(usage.values()) - 1))
    assert [item.kind for item in done.gone].count("checkpoint") == 1
    assert set(needed(study)) <= set(study.checkpoints())


def test_what_is_needed_stays_whatever_the_quota(study: Store) -> None:
    agree(study, Limits(quota_bytes=0))
    assert set(study.checkpoints()) == set(needed(study))


def test_what_is_younger_than_asked_for_stays(study: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(study, Limits(older_than_s=30 * DAY_S))
    assert set(LOST) <= set(study.checkpoints())
    age(monkeypatch, 31)
    agree(study, Limits(older_than_s=30 * DAY_S))
    assert set(study.checkpoints()) == set(needed(study))


def test_a_folder_that_is_neither_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "thesis.txt").write_text("years of work")
    with pytest.raises(StudyNotFoundError, match="holds neither a study"):
        clean(LocalStore(tmp_path))
    assert (tmp_path / "tmp" / "thesis.txt").exists()


# A folder that studies share


def test_what_nobody_holds_goes_and_what_somebody_holds_stays(plan: SharedFolder) -> None:
    refs = [commit(plan, node) for node in NODES[:4]]
    plan.hold("digits", refs[:2])
    plan.publish(NODES[3], [(1, {"loss": 0.5})])
    done = agree(plan.store)
    assert {item.name for item in done.gone} == {str(ref) for ref in refs[2:]}
    assert set(plan.usage()) == set(refs[:2])
    assert plan.read(NODES[3]).reports == ((1, {"loss": 0.5}),), "reports are small, and stay"


def test_a_node_that_is_being_trained_is_left_alone(plan: SharedFolder) -> None:
    commit(plan)
    plan.claim([NODE], "digits")
    assert agree(plan.store).gone == []


def test_what_came_to_be_held_after_the_look_stays(plan: SharedFolder) -> None:
    refs = [commit(plan, node) for node in NODES[:2]]

    def come(item: Item) -> None:
        plan.hold("digits", refs)

    done = clean(plan.store, notify=come)
    assert [item.name for item in done.stayed] == [str(refs[1])]
    assert plan.read(NODES[1]).checkpoints == (3,)
    assert done.kept == 1


def test_holds_of_studies_that_are_gone_go(plan: SharedFolder, tmp_path: Path) -> None:
    there = LocalStore(tmp_path / "there")
    there.write("study.json", b"{}")
    refs = [commit(plan, node) for node in NODES[:2]]
    plan.hold("there", refs[:1], home=there.url)
    plan.hold("gone", refs[1:], home=str(tmp_path / "gone"))
    assert agree(plan.store).gone == []
    let_age(plan.store.url, 8 * DAY_S)
    done = agree(plan.store)
    assert sorted(item.kind for item in done.gone) == ["checkpoint", "hold"]
    assert plan.holds() == set(refs[:1]) == set(plan.usage())


def test_a_study_that_came_back_keeps_its_hold(plan: SharedFolder) -> None:
    other = CheckpointRef(NODES[0], 5)
    plan.hold("a-gone", [])
    plan.hold("digits", [other])
    let_age(plan.store.url, 8 * DAY_S)

    def come_back(item: Item) -> None:
        plan.hold("digits", [other])

    done = clean(plan.store, notify=come_back)
    assert len(done.stayed) == 1
    assert plan.holds() == {other}


def test_claims_that_nobody_holds_go_after_a_day(plan: SharedFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    dead, living = plan_at(plan.store.url), plan_at(plan.store.url)
    dead.claim(NODES[:3], "dead")
    living.claim(NODES[3:5], "living")
    living.release(NODES[4:5])
    silence(dead)
    assert agree(plan.store).gone == []
    age(monkeypatch, 1.1)
    let_age(plan.store.url, 1.1 * DAY_S)
    living.renew()
    done = agree(plan.store)
    assert sorted(item.kind for item in done.gone) == ["claim"] * 4 + ["driver"]
    assert living.claims.mine == {NODES[3]}
    assert plan.claim([NODES[3]], "third")[NODES[3]] is not None
    assert plan.claim(NODES[:3], "third") == dict.fromkeys(NODES[:3])


def test_a_deletion_that_was_begun_is_finished(plan: SharedFolder) -> None:
    plan.hold("digits", [commit(plan, NODES[0])])
    commit(plan)
    for node in (NODE, NODES[0]):
        plan.store.write(f"deleting/{node}.3.{'0' * 32}.json", b'{"format": 1}')
    dry = clean(plan.store, Limits(quota_bytes=10**9), dry_run=True)
    wet = clean(plan.store, Limits(quota_bytes=10**9))
    assert said(dry) == said(wet)
    assert set(plan.usage()) == {CheckpointRef(NODES[0], 3)}
    assert plan.store.list("deleting") == []


def test_leftovers_in_a_shared_folder_go_when_nobody_can_be_writing_them(tmp_path: Path) -> None:
    plan = plan_at(f"{tmp_path}/plan")
    for name in ("file-old", "file-new", "removed-now"):
        (tmp_path / "plan" / "tmp" / name).write_bytes(b"half")
    two_days_ago = time.time() - 2 * DAY_S
    os.utime(tmp_path / "plan" / "tmp" / "file-old", (two_days_ago, two_days_ago))
    done = agree(plan.store)
    assert {item.name for item in done.gone} == {"tmp/file-old", "tmp/removed-now"}


def test_an_upload_that_was_never_finished_goes_after_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_at(f"file://{tmp_path}/plan")
    plan.hold("digits", [commit(plan)])
    half = tmp_path / "plan" / "checkpoints" / NODE / f"3.2-{'0' * 32}" / "files" / "model"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"half")
    assert agree(plan.store).gone == []
    age(monkeypatch, 1.1)
    assert [item.size_bytes for item in agree(plan.store).gone] == [4]
    assert load(plan.store, CheckpointRef(NODE, 3))


def test_the_numbers_of_resources_are_not_mixed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``3`` must not be treated as a prefix of ``30``."""
    plan = plan_at(f"{tmp_path}/plan")
    for resource in (3, 30, 30):
        commit(plan, NODE, resource)
    plan.hold("digits", [CheckpointRef(NODE, 30)])
    monkeypatch.setattr("asyncsearch.shared.holds.Holds._why_gone", lambda self, hold, unwritten_s: "")
    age(monkeypatch, 2)
    done = agree(plan.store)
    assert sorted(item.name for item in done.gone) == [f"{NODE}@3", f"checkpoints/{NODE}/30"]


# The command


def test_the_command_says_what_goes_with_sizes_and_why_and_totals_last(
    study: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(study)
    assert cli.main(["clean", study.url, "--dry-run"]) == 0
    dry = capsys.readouterr().out.splitlines()
    assert files(study) == before
    assert any(line.startswith(f"would remove checkpoint {LOST[0]}, 1.") for line in dry)
    assert any(line.endswith("kB: no trial can go on from it") for line in dry)
    assert dry[-1].startswith("would remove ")
    assert f"{len(needed(study))} checkpoint" in dry[-1]
    assert cli.main(["clean", study.url]) == 0
    assert capsys.readouterr().out.splitlines() == [line.replace("would remove", "removed", 1) for line in dry]
    assert cli.main(["clean", study.url]) == 0
    assert capsys.readouterr().out.startswith("removed nothing; ")


@pytest.mark.parametrize(("arguments"), [["--quota", "ten"], ["--quota", "10 XB"], ["--older-than", "30"]])
def test_a_limit_that_cannot_be_read_is_exit_code_2_and_nothing_goes(
    arguments: list[str], study: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(study)
    assert cli.main(["clean", study.url, *arguments]) == 2
    assert repr(arguments[1]) in capsys.readouterr().err
    assert files(study) == before


@pytest.mark.parametrize(
    ("text", "amount"),
    [("0", 0), ("10GB", 10**10), ("1.5 TB", 15 * 10**11), ("2GiB", 2**31), ("512mib", 2**29), ("7kB", 7000)],
)
def test_sizes_are_read_as_they_are_written(text: str, amount: int) -> None:
    assert parse_size(text) == amount


@pytest.mark.parametrize(
    ("text", "seconds"), [("30d", 30 * DAY_S), ("12h", 43200.0), ("1.5m", 90.0), ("2w", 14 * DAY_S)]
)
def test_ages_are_read_as_they_are_written(text: str, seconds: float) -> None:
    assert parse_age(text) == seconds


@pytest.mark.parametrize("text", ["", "-1GB", "1e9", "GB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write it as '10GB'"):
        parse_size(text)


@pytest.mark.parametrize(("amount", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (12_345_678, "12.3 MB")])
def test_sizes_are_shown_with_three_digits(amount: int, text: str) -> None:
    assert size(amount) == text
