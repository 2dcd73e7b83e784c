"""The logs of all trials in one place: what was acknowledged is read once and in order, whatever befell the store."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.errors import StoreError
from asyncsearch.store.logs import segment_format as form
from asyncsearch.store.logs.reader import LogReader
from asyncsearch.store.logs.writer import LogWriter, text_of
from tests.examples import examples
from tests.store.log_worlds import World

KINDS = ("shown", "hidden", "whole")
TRIALS = ("trial-0", "trial-1", "trial-10")
TEXTS = st.text(st.characters(codec=None, exclude_characters="\n"), max_size=12).map("1.000 O {}".format)
BLOCKS = st.dictionaries(st.sampled_from(TRIALS), st.lists(TEXTS, min_size=1, max_size=3), max_size=3)
FAILS = st.sampled_from(["", "", "", "before", "behind", "half"])


def read(world: World, trial: str) -> list[str]:
    return list(LogReader(world, trial).lines())


def shown(line: str) -> str:
    return text_of([line]).decode().rstrip("\n")


def written(world: World, count: int, trials: int, *, is_closed: bool = True) -> dict[str, list[str]]:
    """Write blocks of one line of each trial; return the lines."""
    writer, lines = LogWriter(world, world.clock), {f"trial-{number}": list[str]() for number in range(trials)}
    for block in range(count):
        for name, ones in lines.items():
            ones.append(f"{block}.000 O loss 0.1234 accuracy 0.9876 and some words of {name}")
        writer.write({name: [ones[-1]] for name, ones in lines.items()})
    if is_closed:
        writer.close()
    return lines


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_what_was_acknowledged_is_read_once_in_order_after_any_failure(kind: str, data: st.DataObject) -> None:
    world = World(kind)
    expected: dict[str, list[str]] = {name: [] for name in TRIALS}
    followed: dict[str, list[str]] = {name: [] for name in TRIALS}
    readers = {name: LogReader(world, name) for name in TRIALS}
    for _ in range(data.draw(st.integers(1, 3), "drivers")):
        world.recover()
        writer = LogWriter(world, world.clock)
        for block in data.draw(st.lists(BLOCKS, max_size=5), "blocks"):
            fails = data.draw(st.lists(FAILS, max_size=4), "fails")
            world.fails = [fail for fail in fails if kind != "whole" or fail != "half"]  # an object is there or not
            with contextlib.suppress(StoreError):
                writer.write(block)
            while writer._unsure is not None:
                with contextlib.suppress(StoreError):
                    writer.write_again()
            world.fails = []
            for name, lines in block.items():
                expected[name] += map(shown, lines)
            world.now_s += data.draw(st.sampled_from([0.0, 20.0]), "pause")
            with contextlib.suppress(StoreError):
                writer.close_if_due()
            for name, reader in readers.items():
                followed[name] += reader.lines()
        if data.draw(st.booleans(), "ends in order"):
            writer.close()
    world.recover()
    for name, reader in readers.items():
        assert read(world, name) == expected[name]
        assert sorted([*followed[name], *reader.lines()]) == sorted(expected[name])


@pytest.mark.parametrize("kind", ["shown", "hidden"])
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_a_torn_end_takes_nothing_but_what_is_torn(kind: str, data: st.DataObject) -> None:
    world = World(kind)
    lines = written(world, 4, 3, is_closed=data.draw(st.booleans(), "is closed"))
    world.recover()
    [name] = world.segments
    whole = world.files[name]
    cut = data.draw(st.integers(0, len(whole)), "cut")
    world.files[name] = whole[:cut]
    starts = [place for place in range(len(whole)) if whole.startswith((b"@ {", b"# {"), place)]
    ends = [*starts[1:], len(whole)]
    kept = sum(end <= cut for end in ends[:4])
    for trial, ones in lines.items():
        found = read(world, trial)
        assert found[:kept] == ones[:kept]
        assert set(found) <= set(ones)
    world.files["logs/segments/000002.log"] = form.encode_head(form.new_driver())
    for trial, ones in lines.items():
        found = read(world, trial)
        assert found[:kept] == ones[:kept], "a driver that goes on changes nothing of it"
        assert {line for line in found if not line.startswith("... ")} <= set(ones)


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_damage_anywhere_is_told_and_takes_no_other_block(data: st.DataObject) -> None:
    world = World("shown")
    lines = written(world, 4, 3, is_closed=data.draw(st.booleans(), "is closed"))
    [name] = world.segments
    whole = world.files[name]
    at = data.draw(st.integers(0, len(whole) - 1), "at")
    size = data.draw(st.integers(1, 5), "size")
    new = data.draw(st.binary(max_size=5), "new")
    world.files[name] = whole[:at] + new + whole[at + size :]
    starts = [place for place in range(len(whole)) if whole.startswith((b"@ {", b"# {"), place)]
    hit = {
        number for number, start in enumerate(starts) if start <= at + size and at <= [*starts, len(whole)][number + 1]
    }
    for trial, ones in lines.items():
        found = read(world, trial)
        texts = [line for line in found if not line.startswith("... ")]
        for number, line in enumerate(ones):
            assert (texts.count(line) == 1) or number in hit, (number, found)
        reader = LogReader(world, trial)
        list(reader.lines())
        is_told = len(found) > len(texts) or reader.unread
        assert set(texts) == set(ones) or is_told or 3 in hit, "what is missing is said"


def test_a_damaged_line_is_left_out_with_a_sentence_beside_whole_ones() -> None:
    world = World("shown")
    writer = LogWriter(world, world.clock)
    writer.write({"trial-0": ["1.000 O one", "2.000 O two", "3.000 O three"]})
    writer.close()
    [name] = world.segments
    world.files[name] = world.files[name].replace(b"2.000 O two", b"2.000 O \xff\x00o")
    first, *others = read(world, "trial-0")
    assert others == ["1.000 O one", "3.000 O three"]
    assert first.startswith("... the next 3 lines were damaged in the store: 1 of them are left out")


@pytest.mark.parametrize("kind", KINDS)
def test_one_trial_is_read_by_the_index_with_few_calls(kind: str) -> None:
    world = World(kind)
    lines = written(world, 20, 200)
    world.calls = world.read_bytes = 0
    assert read(world, "trial-7") == lines["trial-7"]
    assert world.calls <= 1 + 4 * len(world.segments)
    world.calls = 0
    assert read(world, "trial-9999") == []
    assert world.calls <= 1 + 2 * len(world.segments), "no trial's lines are read"


def test_parts_far_apart_are_read_alone() -> None:
    world = World("shown")
    world.is_far = False
    writer = LogWriter(world, world.clock)
    for number in range(8):
        writer.write({"trial-0": [f"{number}.000 O x"], "trial-1": ["1.000 O " + "y" * 4000] * 400})
    writer.close()
    world.read_bytes = 0
    assert len(read(world, "trial-0")) == 8
    assert world.read_bytes < 0.05 * sum(map(len, world.files.values()))


def test_who_follows_reads_what_is_new_and_not_what_was() -> None:
    world = World("shown")
    writer, reader = LogWriter(world, world.clock), LogReader(world, "trial-0")
    for number in range(40):
        writer.write({"trial-0": [f"{number}.000 O x"], "trial-1": ["1.000 O " + "y" * 4000] * 20})
        world.read_bytes = 0
        assert list(reader.lines()) == [f"{number}.000 O x"]
        assert world.read_bytes < 300_000
    world.calls = 0
    assert list(reader.lines()) == []
    assert world.calls <= 3


def test_lines_of_earlier_versions_come_first() -> None:
    world = World("hidden")
    world.old["trial-0"] = ["0.000 O old"]
    LogWriter(world, world.clock).write({"trial-0": ["1.000 O new"]})
    world.recover()
    reader = LogReader(world, "trial-0")
    assert list(reader.lines()) == ["0.000 O old", "1.000 O new"]
    world.old["trial-0"].append("0.500 O by a driver of an earlier version")
    assert list(reader.lines()) == ["0.500 O by a driver of an earlier version"]


def test_what_cannot_be_read_yet_is_said() -> None:
    world = World("hidden")
    LogWriter(world, world.clock).write({"trial-0": ["1.000 O new"]})
    reader = LogReader(world, "trial-0")
    assert list(reader.lines()) == []
    assert "being written" in reader.unread


@pytest.mark.parametrize("kind", KINDS)
def test_ten_hours_of_logs_are_a_hundred_files_and_one_call_an_interval(kind: str) -> None:
    world = World(kind)
    writer = LogWriter(world, world.clock)
    while world.now_s < 36_000.0:
        world.now_s += writer.interval_s
        world.spent_s = 0.0
        writer.write({"trial-0": ["1.000 O x"]})
    writer.close()
    assert len(world.segments) < 800
    assert world.calls < 36_000 / (0.4 if kind == "shown" else 4.0)
    assert len(read(world, "trial-0")) == writer._number


def test_a_segment_is_closed_when_it_is_long_or_has_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncsearch.store.logs.writer.MOST_BYTES", 10_000)
    monkeypatch.setattr("asyncsearch.store.logs.writer.MOST_PARTS", 30)
    world = World("shown")
    lines = written(world, 20, 6)
    assert len(world.segments) >= 4
    assert max(map(len, world.files.values())) < 20_000
    for trial, ones in lines.items():
        assert read(world, trial) == ones
