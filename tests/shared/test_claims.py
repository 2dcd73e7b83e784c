"""Claims on nodes: at most one driver for each, in any order of arrival, and if drivers die."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from asyncsearch.errors import StoreError
from asyncsearch.ids import NodeKey
from asyncsearch.shared.claims import CLAIM
from asyncsearch.shared.drivers import DRIVER
from asyncsearch.shared.folder import SharedFolder
from asyncsearch.store import LocalStore, open_store
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.store.locks.lease_lock import machine
from asyncsearch.testing.store_checkpoints import together
from tests.shared.tools import NODE, NODES, Rival, interrupted, let_age, plan_at
from tests.shares import first, takes_long
from tests.store.clocks import HOUR_S
from tests.store.hdfs_cluster import hdfs

LEASE_S = 60.0

only_linux = pytest.mark.skipif(not machine(), reason="only Linux tells which machine a process id belongs to")


@pytest.fixture(params=["disk", pytest.param("file", marks=takes_long)])
def disk_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{tmp_path}/plan" if request.param == "disk" else f"file://{tmp_path}/plan"


@pytest.fixture
def rivals(disk_url: str) -> Iterator[list[Rival]]:
    found = [Rival(disk_url, f"study-{number}") for number in range(4)]
    assert [rival.ask(do="hello") for rival in found] == ["ready"] * 4
    yield found
    for rival in found:
        with contextlib.suppress(ValueError):
            rival.close()


@pytest.fixture
def later(url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Advance the wall clock; the monotonic clock stops, as on a machine that was suspended."""
    now, passed = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: now() + passed[0])

    def go(seconds: float) -> None:
        passed[0] += seconds
        let_age(url, seconds)

    return go


def gets(plan: SharedFolder, owner: str, node: NodeKey = NODE) -> bool:
    return plan.claim([node], owner)[node] is None


def silence(plan: SharedFolder) -> None:
    """Make a driver look like one that died on another machine long ago."""
    name = f"drivers/{plan.claims.token}.json"
    driver = plan.files.read(name, DRIVER)
    assert driver is not None
    holder = type(driver.holder)("elsewhere", 1, "another machine", plan.claims.token, time.time())
    plan.files.write(name, msgspec.structs.replace(driver, holder=holder))
    let_age(plan.store.url, 10 * LEASE_S, plan.claims.token)


def move_clock(plan: SharedFolder, off_s: float) -> None:
    """Let the last heartbeat of a driver say a wrong time, and be of another machine."""
    name = f"drivers/{plan.claims.token}.json"
    driver = plan.files.read(name, DRIVER)
    assert driver is not None
    holder = msgspec.structs.replace(driver.holder, machine="another machine", refreshed=time.time() + off_s)
    plan.files.write(name, msgspec.structs.replace(driver, holder=holder))


# One at a time


def test_a_claim_is_granted_once_and_others_are_told_who_holds_it(url: str) -> None:
    one, two = plan_at(url), plan_at(url)
    assert one.claim(NODES, "digits") == dict.fromkeys(NODES)
    refused = two.claim([*NODES[:2], NODE], "letters")
    assert refused[NODE] is None
    for node in NODES[:2]:
        words = refused[node]
        assert words is not None
        assert "study 'digits' (process " in words
        assert ", since 2" in words


def test_what_is_held_is_granted_again_and_can_be_given_back(url: str) -> None:
    one, two = plan_at(url), plan_at(url)
    assert gets(one, "digits")
    assert gets(one, "digits")
    assert one.claims.mine == {NODE}
    one.release([NODE, NODES[0]])
    assert one.claims.mine == set()
    assert gets(two, "letters")
    assert not gets(one, "digits")


def test_two_studies_of_one_driver_do_not_get_one_node(url: str) -> None:
    one = plan_at(url)
    assert gets(one, "digits")
    assert "study 'digits' in this same driver" in (one.claim([NODE], "letters")[NODE] or "")


def test_a_driver_that_closes_gives_everything_back(url: str) -> None:
    one, two = plan_at(url), plan_at(url)
    assert one.claim(NODES, "digits") == dict.fromkeys(NODES)
    one.close()
    assert two.claim(NODES, "letters") == dict.fromkeys(NODES)


def test_one_of_many_threads_is_granted(url: str) -> None:
    plans = [plan_at(url) for _ in range(6)]
    granted: list[list[NodeKey]] = [[] for _ in plans]

    def attempt(number: int) -> None:
        answers = plans[number].claim(NODES, f"study-{number}")
        granted[number] = [node for node, who in answers.items() if who is None]

    together(6, attempt)
    assert sorted(node for nodes in granted for node in nodes) == NODES


def test_exactly_one_of_rival_processes_is_granted(rivals: list[Rival]) -> None:
    for rival in rivals:
        rival.order(do="claim", nodes=NODES)
    answers = [rival.answer() for rival in rivals]
    for node in NODES:
        assert sorted(answer[node] is None for answer in answers) == [False, False, False, True]


def test_rival_processes_never_hold_a_node_together(rivals: list[Rival], tmp_path: Path) -> None:
    for rival in rivals:
        rival.order(do="contend", folder=str(tmp_path), rounds=60)
    answers = [rival.answer() for rival in rivals]
    assert [answer["together"] for answer in answers] == [0, 0, 0, 0]
    assert sum(answer["had"] for answer in answers) >= 1


@only_linux
def test_claims_of_a_killed_process_are_taken_over_by_exactly_one(rivals: list[Rival]) -> None:
    dead, *living = rivals
    assert set(dead.ask(do="claim", nodes=NODES).values()) == {None}
    assert None not in living[0].ask(do="claim", nodes=NODES).values()
    dead.kill()
    for rival in living:
        rival.order(do="claim", nodes=NODES)
    answers = [rival.answer() for rival in living]
    for node in NODES:
        assert sorted(answer[node] is None for answer in answers) == [False, False, True]


@pytest.mark.parametrize("before", ["never claimed", "released", "its driver died"])
def test_whenever_a_rival_comes_in_between_exactly_one_is_granted(url: str, before: str) -> None:
    step, reached = 0, True
    while reached:
        node = NodeKey(f"{step:032x}")
        if before != "never claimed":
            former = plan_at(url)
            assert gets(former, "former", node)
            former.release([node]) if before == "released" else silence(former)
        one, two = plan_at(url), plan_at(url)
        got: list[bool] = []
        between = interrupted(one, step, lambda two=two, node=node, got=got: got.append(gets(two, "two", node)))  # type: ignore[misc]
        mine = gets(one, "one", node)
        reached = between.reached
        if reached:
            assert sorted([mine, *got]) == [False, True], f"step {step}"
        step += 1
    assert step > 5


def test_whenever_rivals_come_and_go_in_between_two_never_hold_a_node(url: str) -> None:
    """Claim numbers are not used twice: a driver that knows an old one cannot replace a new one (ABA)."""
    step, reached = 0, True
    while reached:
        node = NodeKey(f"{step:032x}")
        former = plan_at(url)
        assert gets(former, "former", node)
        silence(former)
        one, last = plan_at(url), plan_at(url)

        def busy(node: NodeKey = node, last: SharedFolder = last) -> None:
            come_and_go(url, node)
            gets(last, "last", node)

        between = interrupted(one, step, busy)
        mine = gets(one, "one", node)
        reached = between.reached
        assert not (mine and node in last.claims.mine), f"step {step}"
        step += 1


def come_and_go(url: str, node: NodeKey) -> None:
    for number in range(3):
        guest = plan_at(url)
        if gets(guest, f"guest-{number}", node):
            guest.release([node])


def test_a_claim_that_stands_has_the_highest_number(url: str) -> None:
    """A lower number belonged to another driver, whose write to it may still be in progress."""
    step, reached = 0, True
    while reached:
        node = NodeKey(f"{step:032x}")
        one = plan_at(url)
        between = interrupted(one, step, partial(come_and_go, url, node))
        if gets(one, "one", node):
            entries = one.claims.entries(node)
            claim = one.files.read(entries[-1].name, CLAIM)
            assert claim is not None
            assert claim.token == one.claims.token, f"step {step}"
        reached = between.reached
        step += 1


def test_a_number_is_not_used_again_after_a_release(url: str) -> None:
    one, two = plan_at(url), plan_at(url)
    numbers = []
    for plan in (one, two, one, two):
        assert gets(plan, "study")
        numbers += [entry.number for entry in plan.claims.entries(NODE)]
        plan.release([NODE])
    assert numbers == [1, 2, 3, 4], "and the files of void claims do not pile up"


def test_where_files_are_not_exclusive_two_are_still_never_granted(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step, reached = 0, True
    while reached:
        node = NodeKey(f"{step:032x}")
        one, two = plan_at(url), plan_at(url)
        for plan in (one, two):
            monkeypatch.setattr(type(plan.store), "is_exclusive", False)
        between = interrupted(one, step, lambda two=two, node=node: gets(two, "two", node))  # type: ignore[misc]
        mine = gets(one, "one", node)
        reached = between.reached
        theirs = node in two.claims.mine
        assert not (mine and theirs), f"step {step}"
        if not (mine or theirs):
            assert gets(one, "one", node), "the next try decides"
        step += 1


# Life and death


def test_a_claim_is_not_lost_while_it_is_renewed(url: str, later: Callable[[float], None]) -> None:
    one, two = plan_at(url, lease_s=LEASE_S), plan_at(url, lease_s=LEASE_S)
    assert gets(one, "one")
    for _ in range(5):
        later(0.7 * LEASE_S)
        assert one.renew() == frozenset()
        assert not gets(two, "two")
    assert one.claims.mine == {NODE}


def test_one_renewal_is_one_write_however_many_claims_there_are(
    url: str, later: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = plan_at(url)
    assert one.claim(NODES, "one") == dict.fromkeys(NODES)
    writes = []
    write = one.store.write

    def noted(name: str, data: bytes) -> None:
        writes.append(name)
        write(name, data)

    monkeypatch.setattr(one.store, "write", noted)
    later(0.5 * LEASE_S)
    one.renew()
    one.renew()
    assert writes == [f"drivers/{one.claims.token}.json"]


def test_a_driver_that_was_away_too_long_learns_what_it_lost(url: str, later: Callable[[float], None]) -> None:
    one, two = plan_at(url, lease_s=LEASE_S), plan_at(url, lease_s=LEASE_S)
    assert one.claim(NODES, "one") == dict.fromkeys(NODES)
    later(LEASE_S + 1)
    assert two.claim(NODES[:3], "two") == dict.fromkeys(NODES[:3])
    assert one.renew() == frozenset(NODES[:3])
    assert one.renew() == frozenset()
    assert one.claims.mine == set(NODES[3:])
    assert gets(plan_at(url), "three", NODES[3]) is False
    one.release(NODES[:3])
    assert not gets(one, "one", NODES[0])


def test_what_was_lost_is_not_given_back_in_anothers_name(url: str, later: Callable[[float], None]) -> None:
    one, two = plan_at(url, lease_s=LEASE_S), plan_at(url, lease_s=LEASE_S)
    assert gets(one, "one")
    (entry,) = one.claims.entries(NODE)
    later(LEASE_S + 1)
    one.store.remove(entry.name)
    assert gets(two, "two")
    one.release([NODE])
    assert not gets(plan_at(url), "three")
    assert one.renew() == {NODE}


def test_a_loss_that_a_claim_notices_is_told_by_the_next_renewal(url: str, later: Callable[[float], None]) -> None:
    one, two = plan_at(url, lease_s=LEASE_S), plan_at(url, lease_s=LEASE_S)
    assert gets(one, "one")
    later(LEASE_S + 1)
    assert gets(two, "two")
    assert not gets(one, "one"), "what was held is not granted from memory"
    assert one.renew() == {NODE}


def test_a_driver_that_returns_while_replaced_never_shares_a_node(url: str, later: Callable[[float], None]) -> None:
    step, reached = 0, True
    while reached:
        node = NodeKey(f"{step:032x}")
        one, two = plan_at(url, lease_s=LEASE_S), plan_at(url, lease_s=LEASE_S)
        assert gets(one, "one", node)
        later(LEASE_S + 1)
        between = interrupted(two, step, lambda one=one: one.renew())  # type: ignore[misc]
        theirs = gets(two, "two", node)
        reached = between.reached
        if reached:
            one.renew()
            assert not (theirs and node in one.claims.mine), f"step {step}"
        step += 1
    assert step > 5


def test_an_earlier_driver_of_the_same_study_is_taken_over_at_once(url: str) -> None:
    one, other, two = plan_at(url), plan_at(url), plan_at(url)
    assert gets(one, "digits")
    assert gets(other, "letters", NODES[0])
    assert not gets(two, "digits")
    assert two.take_over("digits") == 1
    assert gets(two, "digits")
    assert not gets(two, "digits", NODES[0])


def test_a_driver_that_was_taken_over_and_lives_learns_it(url: str, later: Callable[[float], None]) -> None:
    one, two = plan_at(url, lease_s=LEASE_S), plan_at(url, lease_s=LEASE_S)
    assert one.claim([NODE, NODES[0]], "digits") == {NODE: None, NODES[0]: None}
    two.take_over("digits")
    assert gets(two, "digits")
    later(0.2 * LEASE_S)
    assert one.renew() == {NODE}


# Clocks


@pytest.mark.parametrize("off_s", [HOUR_S, -HOUR_S])
def test_no_clock_takes_a_claim_from_a_driver_that_lives(url: str, off_s: float) -> None:
    one, two = plan_at(url), plan_at(url)
    assert gets(one, "one")
    move_clock(one, off_s)
    assert "seen 0 s ago" in (two.claim([NODE], "two")[NODE] or "")
    assert "seen 0 s ago" in (plan_at(url).holder(NODE) or ""), "nor does one see it so that has no heartbeat"
    assert not list(two.store.walk("drivers").keys() - {f"{plan.claims.token}.json" for plan in (one, two)})


@pytest.mark.parametrize("off_s", [HOUR_S, -HOUR_S])
def test_no_clock_keeps_the_claim_of_a_driver_that_is_gone(url: str, off_s: float) -> None:
    one, two = plan_at(url), plan_at(url)
    assert gets(one, "one")
    move_clock(one, off_s)
    let_age(url, LEASE_S - 5, one.claims.token)
    assert not gets(two, "two")
    let_age(url, 6, one.claims.token)
    assert gets(two, "two")


@pytest.mark.parametrize(("off_s", "is_void"), [(-LEASE_S + 5, False), (-LEASE_S - 1, True)])
def test_where_a_file_system_gives_no_times_drivers_clocks_are_compared(
    url: str, off_s: float, is_void: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = plan_at(url), plan_at(url)
    assert gets(one, "one")
    move_clock(one, off_s)
    walk = two.store.walk
    untimed = lambda folder: {name: info._replace(modified_s=None) for name, info in walk(folder).items()}  # noqa: E731
    monkeypatch.setattr(two.store, "walk", untimed)
    assert gets(two, "two") == is_void


def test_who_may_only_read_compares_the_clocks_of_drivers(disk_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = plan_at(disk_url)
    assert gets(one, "one")

    def refuse(*_: object) -> None:
        raise StoreError("it cannot be written by this user")

    for kind in (LocalStore, FsspecStore):
        monkeypatch.setattr(kind, "write", refuse)
    reader = SharedFolder(open_store(disk_url))
    assert "seen 0 s ago" in (reader.holder(NODE) or "")
    with pytest.raises(StoreError, match="by this user"):
        reader.claim([NODE], "two")


def require_clocks_do_not_matter(url: str, ahead_s: float) -> None:
    """Drivers elsewhere, whose clock is wrong, are respected while they live; the claim of one that is gone is free."""
    mine, living, dead = plan_at(url), Rival(url, "living", ahead_s), Rival(url, "dead", ahead_s, lease_s=1.0)
    try:
        assert gets(mine, "mine", NODES[0])
        words = living.ask(do="claim", nodes=[NODE, NODES[0]])
        assert words[NODE] is None
        assert "study 'mine'" in words[NODES[0]], "its clock takes nothing from us"
        assert "study 'living'" in (mine.claim([NODE], "mine")[NODE] or ""), "nor ours from it"
        assert dead.ask(do="claim", nodes=NODES[1:2]) == {NODES[1]: None}
    finally:
        for rival in (living, dead):
            rival.kill()
    deadline = time.monotonic() + 60
    while not gets(mine, "mine", NODES[1]):
        assert time.monotonic() < deadline, mine.holder(NODES[1])


@pytest.mark.slow
@pytest.mark.parametrize("ahead_s", first([-HOUR_S, HOUR_S]))
def test_drivers_whose_clocks_differ_by_an_hour_claim_as_if_they_agreed(disk_url: str, ahead_s: float) -> None:
    require_clocks_do_not_matter(disk_url, ahead_s)


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "ahead_s"),
    [
        ("hdfs", HOUR_S),
        pytest.param("hdfs", -HOUR_S, marks=takes_long),
        pytest.param("webhdfs", HOUR_S, marks=takes_long),
        ("webhdfs", -HOUR_S),
    ],
)
def test_on_hdfs_the_clock_of_the_namenode_counts(protocol: str, ahead_s: float) -> None:
    cluster = hdfs()
    url = cluster.new()
    if protocol == "webhdfs":
        url = f"webhdfs://{cluster.gateway}{cluster.path(url)}"
    require_clocks_do_not_matter(url, ahead_s)


# Odd files


def test_a_claim_that_cannot_be_read_is_respected_for_a_lease(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = plan_at(url, lease_s=LEASE_S)
    one.store.write(f"claims/{NODE}/000001.json", b"")
    assert "at this moment" in (one.claim([NODE], "one")[NODE] or "")
    now = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + LEASE_S + 1)
    assert gets(one, "one")


def test_a_newer_format_is_refused_with_the_file_and_the_next_step(url: str) -> None:
    one = plan_at(url)
    one.store.write(f"claims/{NODE}/000001.json", b'{"format": 2, "shape": "unknown"}')
    with pytest.raises(StoreError, match=rf"claims/{NODE}/000001\.json' in .* has format 2, .*Update asyncsearch"):
        one.claim([NODE], "one")


def test_a_claim_says_who_made_it(url: str) -> None:
    one = plan_at(url)
    gets(one, "digits")
    (entry,) = one.claims.entries(NODE)
    claim = one.files.read(entry.name, CLAIM)
    assert claim is not None
    assert (claim.study, claim.token, claim.released) == ("digits", one.claims.token, False)


def test_a_key_cannot_lead_out_of_the_folder(url: str) -> None:
    with pytest.raises(StoreError, match="cannot be stored"):
        plan_at(url).claim([NodeKey("../up")], "one")


def test_no_warning_is_logged_where_nothing_is_wrong(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        one, two = plan_at(url), plan_at(url)
        gets(one, "one")
        gets(two, "two")
        one.close()
        two.close()
    assert caplog.text == ""
