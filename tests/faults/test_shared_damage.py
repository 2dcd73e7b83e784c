"""Random damages of a folder that studies share: nothing in it reads as something else, and nothing hangs or raises."""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, Checkpoints, GridSearch, Sharing, Study, choice
from asyncsearch.events import PackSeconds, PacksTimed
from asyncsearch.files.trees import walk
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.shared.cleaning import clean
from asyncsearch.shared.folder import NodeFacts, SharedFolder
from asyncsearch.shared.options import compare_names
from asyncsearch.shared.pack_times import TimesInFolder
from asyncsearch.store import LocalStore
from tests.faults.counts import counted
from tests.faults.damages import BYTES, damage_file, put_strange
from tests.shares import seeds

LEASE_S = 3.0
NODES = [NodeKey(f"node{number}") for number in range(4)]
SHARED_FILES = ("facts", "packed", "claims", "drivers", "holds", "parameters", "packs", "deleting")


def facts_of(number: int) -> list[tuple[int, dict[str, float | str]]]:
    return [(at, {"loss": number + at / 8, "acc": 1 / (number + at + 1)}) for at in range(1, 4)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with facts, claims, holds, parameters and times, as studies that were killed have left it."""
    root = tmp_path_factory.mktemp("shared") / "plan"
    folder = SharedFolder(LocalStore(root), takes_packed=True)
    folder.prepare()
    for number, node in enumerate(NODES):
        folder.publish(node, facts_of(number), ended=3 if number % 2 else None)
        folder.begin_packed(node)
        folder.publish_packed(node, [(at + 3, values) for at, values in facts_of(number + 10)])
        folder.hold(f"study {number}", [CheckpointRef(node, 3)], home=str(root.parent / f"study{number}"))
        compare_names(folder.files, f"study {number}", NodeKey("root"), [f"x{number}"])
    folder.claim(NODES[:2], "study 0")
    times = TimesInFolder(folder.files, "code")
    for number in range(2):
        seconds = (PackSeconds(1, 0.5 + number), PackSeconds(2, 0.75 + number))
        times.keep(PacksTimed(f"structure{number}", seconds, "device", "study 0"))
    return root


def files_of(root: Path) -> list[Path]:
    found = [(root / top, entry) for top in SHARED_FILES if (root / top).is_dir() for entry in walk(root / top)]
    return sorted(top / entry.name for top, entry in found if entry.is_file)


def two_alike(files: list[Path], draw: random.Random) -> tuple[Path, Path]:
    pairs = [(one, other) for one in files for other in files if one != other and _alike(one, other)]
    return draw.choice(pairs)


def exchange(files: list[Path], draw: random.Random) -> str:
    one, other = two_alike(files, draw)
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)
    return f"{one} and {other} exchanged"


def exchange_names(files: list[Path], draw: random.Random) -> str:
    one, other = two_alike(files, draw)
    moved, name = one.with_name("moved"), one.parent / other.name
    one.rename(moved)
    other.rename(other.parent / one.name)
    moved.rename(name)
    return f"{one} and {other} exchanged by name"


def copy_to_another(files: list[Path], draw: random.Random) -> str:
    one, other = two_alike(files, draw)
    target = other.parent / one.name
    shutil.copy(one, target if target != one else one.with_name(f"{one.stem}-2.json"))
    return f"{one} copied beside {other}"


def put_in_place(files: list[Path], draw: random.Random) -> str:
    one, other = two_alike(files, draw)
    shutil.copy(one, other)
    return f"{one} copied over {other}"


def rename(files: list[Path], draw: random.Random) -> str:
    one = draw.choice(files)
    names = ("000009.json", "000001-0123456789abcdef.json", f"x{one.name}", "0" * 32 + ".json", "a\\b.json", "\n.json")
    other = one.with_name(draw.choice(names))
    one.rename(other)
    return f"{one} renamed to {other}"


def duplicate(files: list[Path], draw: random.Random) -> str:
    one = draw.choice(files)
    shutil.copy(one, one.with_name(f"{one.name.partition('-')[0]}-0000000000000000.json"))
    return f"{one} twice"


def damage_bytes(files: list[Path], draw: random.Random) -> str:
    one = draw.choice([path for path in files if path.stat().st_size])
    return f"{one}: {damage_file(one, draw, BYTES)}"


def strange(files: list[Path], draw: random.Random) -> str:
    one = draw.choice(files)
    return f"{one}: {put_strange(one, draw)}"


def lose(files: list[Path], draw: random.Random) -> str:
    one = draw.choice(files)
    one.unlink()
    return f"{one} lost"


def _alike(one: Path, other: Path) -> bool:
    tops = {_top(one), _top(other)}
    return one.suffix == other.suffix and (len(tops) == 1 or tops == {"facts", "packed"})


def _top(path: Path) -> str:
    return next(part for part in reversed(path.parts) if part in SHARED_FILES)


KINDS: tuple[Callable[[list[Path], random.Random], str], ...] = (
    exchange,
    exchange_names,
    copy_to_another,
    put_in_place,
    rename,
    duplicate,
    damage_bytes,
    damage_bytes,
    strange,
    strange,
    lose,
)


def is_part_of(found: NodeFacts, whole: NodeFacts) -> bool:
    """Return whether facts are those of the whole folder, or some of them."""
    values = dict(whole.reports)
    return (
        all(values.get(at) == metrics for at, metrics in found.reports)
        and found.ended in (None, whole.ended)
        and set(found.packed) <= set(whole.packed)
    )


@counted(damages=1)
@pytest.mark.parametrize("seed", seeds(220, 8), ids="seed{}".format)
def test_a_damaged_shared_folder_says_what_was_written_or_less(seed: int, whole: Path, tmp_path: Path) -> None:
    draw = random.Random(seed)
    expected = SharedFolder(LocalStore(whole), takes_packed=True).read_many(NODES)
    plain = SharedFolder(LocalStore(whole)).read_many(NODES)
    root = tmp_path / "plan"
    shutil.copytree(whole, root)
    sys.stdout.write(f"seed {seed}: {draw.choice(KINDS)(files_of(root), draw)}\n")
    folder = SharedFolder(LocalStore(root), takes_packed=True)
    folder.prepare()
    found = folder.read_many(NODES)
    assert all(is_part_of(found[node], expected[node]) for node in NODES), "facts read as others"
    others = SharedFolder(LocalStore(root)).read_many(NODES)
    assert all(is_part_of(others[node], plain[node]) for node in NODES), "packed facts read as plain ones"
    folder.take_over("study 0")
    held = folder.current_holds()
    assert held.unreadable or len(held.holds) >= 3
    folder.claim(NODES, "study 9")
    folder.hold("study 9", [CheckpointRef(NODES[0], 3)], home=str(tmp_path / "study9"))
    compare_names(folder.files, "study 9", NodeKey("root"), ["x"])
    known = {one.group: one.seconds for one in TimesInFolder(folder.files, "code").known_on("device")}
    whole_times = {
        one.group: one.seconds
        for one in TimesInFolder(SharedFolder(LocalStore(whole)).files, "code").known_on("device")
    }
    assert known.items() <= whole_times.items(), "times of one structure read as those of another"
    folder.publish(NODES[0], facts_of(0))
    assert is_part_of(folder.read(NODES[0]), expected[NODES[0]])
    folder.evict(0)
    folder.close()
    clean(LocalStore(root), dry_run=True)
    clean(LocalStore(root))


@pytest.fixture
def _brief_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a claim that cannot be read be respected for seconds, not for a minute."""
    defaults = SharedFolder.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "lease_s", LEASE_S)


def searched(root: Path, name: str) -> list[tuple[Any, ...]]:
    """Return the results of a study that shares the folder ``plan``; each value says its trial and unit."""

    def train(trial: Any) -> None:
        known = [0]
        x = trial.params["x"]

        def load(path: Path) -> None:
            known[0] = int(path.read_text())
            assert known[0] // 100 == x, "it went on from the checkpoint of another trial"

        for epoch in trial.epochs(save=lambda path: path.write_text(str(100 * x + known[0] % 100)), load=load):
            known[0] = 100 * x + epoch
            trial.report(loss=10 * x + epoch)

    study = Study(
        train,
        space={"x": choice(*range(4))},
        searcher=GridSearch(),
        metric="loss",
        mode="min",
        scheduler=FIFO(max_resource=3),
        backend="inline",
        version="v1",
        store=root / name,
        save_every=1,
        checkpoints=Checkpoints(store_timeout=3),
        sharing=Sharing(shared=root / "plan"),
    )
    study.run(display="none")
    return [(trial.params["x"], trial.state.value, trial.value, study.history(trial)) for trial in study.trials]


@pytest.fixture(scope="module")
def searched_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[Any, ...]]]:
    root = tmp_path_factory.mktemp("searched")
    return root, searched(root, "first")


@counted(damages=3)
@pytest.mark.usefixtures("_brief_lease")
@pytest.mark.parametrize("seed", seeds(24, 8), ids="seed{}".format)
def test_a_study_finds_the_same_beside_a_damaged_shared_folder(
    seed: int, searched_once: tuple[Path, list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    draw, (whole, expected) = random.Random(seed), searched_once
    shutil.copytree(whole / "plan", tmp_path / "plan")
    for _ in range(3):
        sys.stdout.write(f"seed {seed}: {draw.choice(KINDS)(files_of(tmp_path / 'plan'), draw)}\n")
    assert searched(tmp_path, "second") == expected, "a damaged shared folder changes what is found"
