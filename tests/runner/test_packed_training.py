"""Several trainings in one runner, a unit of each at a time: what each of them sees is what it sees alone."""

from __future__ import annotations

import contextlib
import gc
import json
import random
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.actions import CutWork, SaveAt
from asyncsearch.events import KILLED, MEMORY_KINDS, Outcome
from asyncsearch.runner.context import SearchContext
from asyncsearch.runner.packs import pack_timing
from asyncsearch.runner.packs.packed_training import PackRun
from asyncsearch.runner.process.signals import SigtermGuard
from asyncsearch.runner.protocol import Ended, PackFindings, Train
from asyncsearch.runner.training import run_training
from asyncsearch.sizing.pack_probe import most_that_fit
from asyncsearch.trainable import Trainer, TrialStopped, as_function
from asyncsearch.trial import Params
from tests.agent.driver import NODE, lease, make_stage
from tests.agent.recorder import Recorder
from tests.shares import first

CALLS: list[list[str]] = []
BEFORE: list[Callable[[int], None]] = []
"""Called before each common unit with its number."""


class Sum(Trainer):
    """Adds its learning rate at each unit; a pack does that for all of its members."""

    def setup(self, hp: Params) -> None:
        if hp.get("breaks") == "setup":
            raise ValueError("setup fails")
        self.hp, self.value = dict(hp), 0.0

    def train(self) -> None:
        if self.hp.get("breaks") == "train":
            raise ValueError("train fails")
        self.value += self.hp["lr"]

    @classmethod
    def train_pack(cls, trainers: Sequence[Sum]) -> None:
        CALLS.append([trainer.trial.name for trainer in trainers])
        for function in BEFORE:
            function(len(CALLS))
        for trainer in trainers:
            trainer.train()

    def evaluate(self) -> dict[str, float]:
        if self.hp.get("breaks") == "evaluate" and self.value > self.hp["lr"]:
            raise ValueError("evaluate fails")
        return {"accuracy": self.value}

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.value))

    def load(self, path: Path) -> None:
        self.value = json.loads(path.read_text())


class Drawing(Sum):
    """Draws from the generator of the process in each of its methods, and says which state is its own."""

    def setup(self, hp: Params) -> None:
        super().setup(hp)
        random.seed(hp["lr"])

    def train(self) -> None:
        random.setstate(self._state)  # by itself, too: which lanes train together is measured
        random.random()

    def evaluate(self) -> dict[str, float]:
        return {"accuracy": random.random()}

    def save(self, path: Path) -> None:
        random.random()

    @contextlib.contextmanager
    def _own_generators(self) -> Iterator[None]:
        random.setstate(self._state)
        yield
        self._keep_generators()

    def _keep_generators(self) -> None:
        self._state = random.getstate()

    @classmethod
    def train_pack(cls, trainers: Sequence[Any]) -> None:
        for trainer in trainers:
            with trainer._own_generators():
                trainer.train()

    @classmethod
    def evaluate_pack(cls, trainers: Sequence[Any]) -> Any:
        raise NotImplementedError  # so that each is evaluated by itself


class NoInterrupts(SigtermGuard):
    def arm(self) -> None:
        pass


class Pack:
    """Lanes of one stage each, with their links and ends."""

    def __init__(self, folder: Path, *stages: dict[str, Any]) -> None:
        self.links = {number: Recorder(folder / str(number)) for number in range(len(stages))}
        self.contexts: dict[int, SearchContext] = {}
        self.ends: list[Ended] = []
        self.told: list[PackFindings] = []
        self.history = pack_timing.PackHistory()
        for number, changes in enumerate(stages):
            (folder / str(number)).mkdir(exist_ok=True)
            load = changes.pop("load", None)
            params = {"lr": 0.5 * (number + 1), **changes.pop("params", {})}
            stage = make_stage(number, params=params, **{"stop": 3, "max_resource": 3, **changes})
            self.contexts[number] = SearchContext([stage], self.links[number], load)

    def run(self, *measured: int) -> Pack:
        return self.run_of(Sum, *measured)

    def run_of(self, kind: type[Trainer], *measured: int) -> Pack:
        PackRun(kind, self.contexts, NoInterrupts(), "accuracy", self.tell, measured, history=self.history).run()
        return self

    def tell(self, message: PackFindings | Ended) -> None:
        if isinstance(message, Ended):
            self.ends.append(message)
        else:
            self.told.append(message)

    def end_of(self, lane: int) -> Ended:
        (end,) = [end for end in self.ends if end.lane == lane]
        return end

    def outcomes(self) -> list[Outcome]:
        return [self.end_of(lane).outcome for lane in self.links]

    def values(self, lane: int) -> list[float]:
        return [metrics["accuracy"] for _, metrics in self.links[lane].reports]


class Unlimited:
    """A process of which nobody tells how much memory it may hold."""

    def begin(self) -> None: ...

    def held(self) -> int:
        return 0

    peak = held

    def room(self) -> None:
        return None

    lane_at_most = room


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncsearch.runner.packs.pack_memory.present_meter", Unlimited)
    CALLS.clear()
    BEFORE.clear()


def test_all_lanes_train_each_unit_in_one_call_and_report_after_it(tmp_path: Path) -> None:
    pack = Pack(tmp_path, {}, {}, {}).run()
    assert CALLS == [["trial-0", "trial-1", "trial-2"]] * 3
    assert pack.values(1) == [1.0, 2.0, 3.0]
    assert pack.outcomes() == [Outcome.RETURNED] * 3


@pytest.mark.parametrize("changes", [{}, {"stop": 2}, {"save": True, "stop": 2}, {"stop": 1, "save_every": 1}])
def test_a_lane_reports_saves_and_ends_as_it_does_alone(tmp_path: Path, changes: dict[str, Any]) -> None:
    pack = Pack(tmp_path, dict(changes), {}).run()
    alone = Recorder(tmp_path)
    stage = make_stage(0, params={"lr": 0.5}, **{"stop": 3, "max_resource": 3, **changes})
    ended = run_training(as_function(Sum), Train((stage,)), alone, NoInterrupts(), "accuracy")
    assert pack.links[0].reports == alone.reports
    assert pack.links[0].saves == alone.saves
    assert pack.end_of(0) == ended


def test_a_lane_that_is_done_leaves_and_the_others_go_on(tmp_path: Path) -> None:
    pack = Pack(tmp_path, {"stop": 1}, {}, {}).run()
    assert CALLS == [["trial-0", "trial-1", "trial-2"], ["trial-1", "trial-2"], ["trial-1", "trial-2"]]
    assert pack.ends[0] == Ended(Outcome.REACHED, 1, lane=0)


def test_the_last_lane_trains_as_it_would_without_a_pack(tmp_path: Path) -> None:
    pack = Pack(tmp_path, {"stop": 1}, {}).run()
    assert CALLS == [["trial-0", "trial-1"]]
    assert pack.values(1) == [1.0, 2.0, 3.0]


def test_a_stop_of_one_lane_takes_effect_at_its_next_report(tmp_path: Path) -> None:
    pack = Pack(tmp_path, {}, {}, {})
    pack.links[1].told_at = 2
    pack.run()
    assert pack.outcomes() == [Outcome.RETURNED, Outcome.STOPPED, Outcome.RETURNED]
    assert pack.end_of(1).resource == 2
    assert CALLS[2] == ["trial-0", "trial-2"]
    assert pack.values(2) == [1.5, 3.0, 4.5]


def test_a_lane_that_was_stopped_before_it_began_is_not_built(tmp_path: Path) -> None:
    pack = Pack(tmp_path, {}, {"params": {"breaks": "setup"}}, {})
    pack.links[1].reason = "not worth it"
    pack.run()
    assert pack.outcomes() == [Outcome.RETURNED, Outcome.STOPPED, Outcome.RETURNED]


@pytest.mark.parametrize("where", ["setup", "evaluate"])
def test_a_failure_of_one_lane_is_its_own(tmp_path: Path, where: str) -> None:
    pack = Pack(tmp_path, {}, {"params": {"breaks": where}}, {}).run()
    assert pack.outcomes() == [Outcome.RETURNED, Outcome.FAILED, Outcome.RETURNED]
    assert pack.end_of(1).error_kind == "ValueError"
    assert f"{where} fails" in pack.end_of(1).error


def test_lanes_evaluate_themselves_where_they_cannot_be_evaluated_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(trainers: Sequence[Sum]) -> Any:
        raise ValueError("not at once")

    monkeypatch.setattr(Sum, "evaluate_pack", staticmethod(fail))
    pack = Pack(tmp_path, {}, {"params": {"breaks": "evaluate"}}, {}).run()
    assert pack.outcomes() == [Outcome.RETURNED, Outcome.FAILED, Outcome.RETURNED]
    assert pack.values(2) == [1.5, 3.0, 4.5]


def test_a_failure_of_the_common_unit_is_a_loss_of_each_lane(tmp_path: Path) -> None:
    def fail(unit: int) -> None:
        if unit == 2:
            raise ValueError("shapes differ")

    BEFORE.append(fail)
    pack = Pack(tmp_path, {}, {}).run()
    assert [(end.outcome, end.error_kind, end.resource) for end in pack.ends] == [(Outcome.FAILED, KILLED, 1)] * 2
    assert "the common step of 2 packed trainings failed: ValueError: shapes differ" in pack.ends[0].error


def test_the_failure_of_a_lane_that_is_timed_alone_is_its_own(tmp_path: Path) -> None:
    pack = Pack(tmp_path, {"params": {"breaks": "train"}}, {}, {}, {}, {}).run(1, 2)
    assert pack.outcomes() == [Outcome.FAILED, *[Outcome.RETURNED] * 4]
    assert pack.end_of(0).error_kind == "ValueError"


def test_too_little_memory_for_the_common_unit_is_told_as_such(tmp_path: Path) -> None:
    def fail(unit: int) -> None:
        raise MemoryError

    BEFORE.append(fail)
    assert [end.error_kind for end in Pack(tmp_path, {}, {}).run().ends] == ["MemoryError"] * 2


def test_sigterm_ends_all_lanes_those_that_were_stopped_as_stopped(tmp_path: Path) -> None:
    guard = NoInterrupts()
    pack = Pack(tmp_path, {}, {}, {})

    def terminate(unit: int) -> None:
        guard.is_received = True
        pack.links[1].reason = "not worth it"
        raise TrialStopped("the agent sent SIGTERM")

    BEFORE.append(terminate)
    PackRun(Sum, pack.contexts, guard, "accuracy", pack.tell).run()
    assert [(end.outcome, end.error_kind) for end in pack.ends] == [
        (Outcome.FAILED, KILLED),
        (Outcome.STOPPED, ""),
        (Outcome.FAILED, KILLED),
    ]


def test_saves_and_cuts_concern_their_lane(tmp_path: Path) -> None:
    pack = Pack(tmp_path, {"save": True}, {"save": True})
    pack.links[0].coming = [SaveAt(lease(0), NODE, 1)]
    pack.links[1].coming = [CutWork(lease(0), 2, 1)]
    pack.run()
    assert pack.links[0].saves == [(0, 1), (0, 3)]
    assert pack.links[1].saves == [(0, 2)]
    assert pack.outcomes() == [Outcome.RETURNED, Outcome.REACHED]


def test_lanes_begin_from_their_own_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "saved").write_text("10.0")
    pack = Pack(tmp_path, {"start": 1, "load": tmp_path / "saved"}, {}).run()
    assert pack.links[0].reports == [(2, {"accuracy": 10.5}), (3, {"accuracy": 11.0})]
    assert pack.values(1) == [1.0, 2.0, 3.0]


def test_the_first_unit_is_timed_in_groups_and_the_fastest_trains_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 1.0, 1.0, 2.5, 2.5, 9.5])
    monkeypatch.setattr("asyncsearch.runner.packs.pack_timing.time.perf_counter", lambda: next(clock))
    monkeypatch.setattr(pack_timing, "waited_s", lambda: 0.0)
    pack = Pack(tmp_path, *({} for _ in range(9))).run(1, 2, 4)
    (told,) = pack.told
    assert told.seconds == ((1, 1.0), (2, 1.5), (4, 7.0))
    assert [len(call) for call in CALLS] == [2, 4, 2] + [2, 2, 2, 2] * 2
    assert [pack.values(lane) for lane in range(9)] == [
        [0.5 * (lane + 1) * unit for unit in (1, 2, 3)] for lane in range(9)
    ]


@pytest.mark.parametrize("spent", [[9.0, 1.0, 8.0, 1.5], [1.0, 9.0, 1.5, 8.0]])
def test_a_process_times_one_and_two_twice_and_the_shorter_time_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spent: list[float]
) -> None:
    left = iter([*spent, 9.0, 9.0])
    monkeypatch.setattr(pack_timing.PackTiming, "_seconds", lambda self, group: (self._train(group), next(left))[1])
    pack = Pack(tmp_path, *({} for _ in range(6))).run(1, 2)
    assert [told.seconds for told in pack.told] == [((1, 1.0), (2, 1.5)), ((6, 9.0),), ((6, 9.0),)]
    assert [pack.values(lane)[0] for lane in range(6)] == [0.5 * (lane + 1) for lane in range(6)]


def test_lanes_that_have_come_together_are_timed_and_part_if_slower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = {1: 1.0, 2: 1.5, 4: 9.0}
    monkeypatch.setattr(
        pack_timing.PackTiming, "_seconds", lambda self, group: (self._train(group), slow[len(group)])[1]
    )
    pack = Pack(tmp_path, *({"stop": 5, "max_resource": 5} for _ in range(4))).run(1, 2)
    assert [told.seconds for told in pack.told] == [((1, 1.0), (2, 1.5)), ((4, 9.0),), ((4, 9.0),)]
    assert [len(call) for call in CALLS] == [2, 4, 4, 2, 2, 2, 2]
    assert [pack.values(lane)[-1] for lane in range(4)] == [2.5 * (lane + 1) for lane in range(4)]


def test_time_in_which_others_have_the_processor_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, waited = iter([0.0, 5.0, 5.0, 6.5]), iter([0.0, 4.0, 4.0, 4.0])
    monkeypatch.setattr("asyncsearch.runner.packs.pack_timing.time.perf_counter", lambda: next(clock))
    monkeypatch.setattr(pack_timing, "waited_s", lambda: next(waited))
    pack = Pack(tmp_path, {}, {}, {}).run(1, 2)
    assert pack.told[0].seconds == ((1, 1.0), (2, 1.5))


def test_where_waits_of_threads_are_unknown_all_time_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (None, "", "no numbers"):
        file = tmp_path / "schedstat"
        if text is not None:
            file.write_text(text)
        monkeypatch.setattr(pack_timing, "_SCHEDSTAT", file)
        assert pack_timing.waited_s() == 0.0
    (tmp_path / "schedstat").write_text("1 2500000000 3\n")
    assert pack_timing.waited_s() == 2.5


def test_each_lane_trains_each_unit_once_however_few_there_are_to_time(tmp_path: Path) -> None:
    pack = Pack(tmp_path, {}, {}, {}).run(1, 2, 4)
    assert [one.lanes for one in pack.told[0].seconds] == [1, 2]
    assert [pack.values(lane) for lane in range(3)] == [[0.5, 1.0, 1.5], [1.0, 2.0, 3.0], [1.5, 3.0, 4.5]]


def test_lanes_fewer_than_those_to_be_timed_train_each_unit_once_too(tmp_path: Path) -> None:
    pack = Pack(tmp_path, {}, {}).run(4)
    assert pack.told == []
    assert [pack.values(lane) for lane in range(2)] == [[0.5, 1.0, 1.5], [1.0, 2.0, 3.0]]
    assert [len(call) for call in CALLS] == [2, 2, 2]


class Tight:
    """A process with memory for ``fits`` lanes of 90 bytes, of which 40 are for training; a pack may take 90 %."""

    def __init__(self, fits: int) -> None:
        self.limit, self.training = 100 * fits + 2, 0
        self.most = 0
        """The most lanes that were ever built at once."""
        self.built: set[int] = set()

    def begin(self) -> None:
        self.training = 0

    def held(self) -> int:
        self.most = max(self.most, len(self.built))
        return 1 + 50 * len(self.built)

    def peak(self) -> int:
        return self.held() + 40 * self.training

    def room(self) -> tuple[int, str] | None:
        return max(0, self.limit - self.held()), "its cgroup"

    def lane_at_most(self) -> int | None:
        return None


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Tight]:
    """Return what lets a process of packs of ``Sum`` have memory for so many lanes."""

    def of(fits: int) -> Tight:
        meter = Tight(fits)

        def setup(self: Sum, hp: Params) -> None:
            own_setup(self, hp)
            meter.built.add(id(self))
            weakref.finalize(self, meter.built.discard, id(self))

        def train_pack(trainers: Sequence[Sum]) -> None:
            meter.training = max(meter.training, len(trainers))
            own_pack(trainers)

        def train(self: Sum) -> None:
            meter.training = max(meter.training, 1)
            own_train(self)

        own_setup, own_pack, own_train = Sum.setup, Sum.train_pack, Sum.train
        monkeypatch.setattr(Sum, "setup", setup)
        monkeypatch.setattr(Sum, "train_pack", staticmethod(train_pack))
        monkeypatch.setattr(Sum, "train", train)
        monkeypatch.setattr("asyncsearch.runner.packs.pack_memory.present_meter", lambda: meter)
        return meter

    return of


@pytest.mark.parametrize("measured", [(), (1, 2, 4, 8)])
@pytest.mark.parametrize("fits", first([3, 5]))
def test_no_more_lanes_are_built_than_should_fit_and_the_others_wait(
    tmp_path: Path, tight: Callable[[int], Tight], fits: int, measured: tuple[int, ...], capfd: Any
) -> None:
    meter = tight(fits)
    pack = Pack(tmp_path, *({} for _ in range(18))).run(*measured)
    assert pack.outcomes() == [Outcome.RETURNED] * 18
    assert [pack.values(lane) for lane in range(18)] == [
        [0.5 * (lane + 1) * unit for unit in (1, 2, 3)] for lane in range(18)
    ]
    (told,) = pack.told
    assert told.memory is not None
    assert most_that_fit(told.memory) == meter.most == fits
    assert max(map(len, CALLS)) <= fits
    assert f"of this pack {fits} train at once, and {18 - fits} wait" in capfd.readouterr().err


@pytest.fixture
def collections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Return a list that grows as a pack looks for cycles of objects; nobody else does meanwhile."""
    found: list[int] = []
    own = gc.collect
    monkeypatch.setattr("asyncsearch.runner.packs.packed_training.gc.collect", lambda: found.append(own()))
    own()
    gc.disable()
    yield found
    gc.enable()


def test_cycles_of_ended_trainers_are_freed_before_others_take_their_place(
    tmp_path: Path, tight: Callable[[int], Tight], collections: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = tight(3)
    own = Sum.setup

    def setup(self: Sum, hp: Params) -> None:
        own(self, hp)
        self.hp["me"] = self

    monkeypatch.setattr(Sum, "setup", setup)
    Pack(tmp_path, *({} for _ in range(9))).run()
    assert meter.most == 3
    assert len(collections) == 2


def test_a_later_pack_of_the_process_grows_no_further_than_should_fit(
    tmp_path: Path, tight: Callable[[int], Tight]
) -> None:
    meter = tight(3)
    for name in ("first", "later"):
        (tmp_path / name).mkdir()
    first = Pack(tmp_path / "first", *({} for _ in range(4))).run()
    pack = Pack(tmp_path / "later", *({} for _ in range(6)))
    joining = {lane: pack.contexts.pop(lane) for lane in range(2, 6)}

    def coming() -> dict[int, SearchContext]:
        return {lane: joining.pop(lane) for lane in list(joining)}

    PackRun(Sum, pack.contexts, NoInterrupts(), "accuracy", pack.tell, (), coming, first.history).run()
    assert pack.outcomes() == [Outcome.RETURNED] * 6
    assert meter.most == 3


def test_lanes_beyond_the_first_join_where_they_fit_beside_ended_ones(
    tmp_path: Path, tight: Callable[[int], Tight], collections: list[int]
) -> None:
    tight(8)
    pack = Pack(tmp_path, *({"stop": 5, "max_resource": 5} for _ in range(3)))
    later = Pack(tmp_path, *({"stop": 4, "max_resource": 4} for _ in range(7)))

    def coming() -> dict[int, SearchContext]:
        lanes = range(3, 7) if len(CALLS) == 2 else ()
        return {lane: later.contexts.pop(lane) for lane in lanes if lane in later.contexts}

    PackRun(Sum, pack.contexts, NoInterrupts(), "accuracy", lambda _: None, (), coming).run()
    assert [len(call) for call in CALLS] == [2, 3, 7, 7, 7, 4]
    assert collections == []


@pytest.mark.parametrize("fits", [1, 2])
def test_lanes_that_were_built_to_measure_and_are_too_many_train_in_turns(
    tmp_path: Path, tight: Callable[[int], Tight], fits: int
) -> None:
    tight(fits)
    pack = Pack(tmp_path, *({} for _ in range(5))).run()
    assert pack.outcomes() == [Outcome.RETURNED] * 5
    assert CALLS[0] == ["trial-1", "trial-2"], "the measure"
    assert all(len(call) <= fits for call in CALLS[1:])
    assert pack.values(4) == [2.5, 5.0, 7.5]


def test_a_pack_of_as_many_as_have_trained_together_is_not_watched_again(
    tmp_path: Path, tight: Callable[[int], Tight]
) -> None:
    tight(8)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    first = Pack(tmp_path / "one", *({} for _ in range(5))).run()
    assert [len(call) for call in CALLS] == [2, 2, 5, 5]
    CALLS.clear()
    later = Pack(tmp_path / "two", *({} for _ in range(5)))
    later.history = first.history
    assert later.run().told == []
    assert [len(call) for call in CALLS] == [5, 5, 5]


def test_lanes_that_wait_end_with_those_that_had_too_little_memory(
    tmp_path: Path, tight: Callable[[int], Tight]
) -> None:
    tight(3)

    def fail(unit: int) -> None:
        raise MemoryError

    BEFORE.append(fail)
    ends = Pack(tmp_path, *({} for _ in range(6))).run().ends
    assert [end.error_kind for end in ends] == ["MemoryError"] * 6


def test_a_lane_that_fails_or_stops_before_it_is_built_makes_room(
    tmp_path: Path, tight: Callable[[int], Tight]
) -> None:
    tight(3)
    changes: list[dict[str, Any]] = [{} for _ in range(8)]
    for lane in (0, 5):
        changes[lane] = {"params": {"breaks": "setup"}}
    pack = Pack(tmp_path, *changes)
    pack.links[6].reason = "not worth it"
    pack.run()
    kinds = {0: Outcome.FAILED, 5: Outcome.FAILED, 6: Outcome.STOPPED}
    assert pack.outcomes() == [kinds.get(lane, Outcome.RETURNED) for lane in range(8)]


@pytest.mark.parametrize(("module", "name"), [("builtins", "MemoryError"), ("torch", "OutOfMemoryError")])
def test_too_little_memory_of_a_pack_is_told_of_each_lane_in_its_kind(tmp_path: Path, module: str, name: str) -> None:
    error = getattr(pytest.importorskip(module), name)

    def fail(unit: int) -> None:
        raise error("no memory")

    BEFORE.append(fail)
    ends = Pack(tmp_path, {}, {}).run().ends
    assert {end.error_kind for end in ends} <= set(MEMORY_KINDS)
    assert len(ends) == 2


@pytest.mark.parametrize("measured", [(), (1, 2)])
def test_each_lane_finds_the_generators_as_it_left_them(measured: tuple[int, ...], tmp_path: Path) -> None:
    before = random.getstate()
    alone = []
    for lane in range(4):
        folder = tmp_path / f"alone-{lane}"
        folder.mkdir()
        pack = Pack(folder, {"params": {"lr": 0.5 * (lane + 1)}}).run_of(Drawing)
        alone.append(pack.values(0))
    packed = Pack(tmp_path, *({} for _ in range(4))).run_of(Drawing, *measured)
    random.setstate(before)
    assert [packed.values(lane) for lane in range(4)] == alone


class Former(Sum):
    """Tells by class methods how it was trained."""

    @classmethod
    def pack_in_turn(cls) -> str:
        return "Net.train_step is its own"


def test_a_trainer_may_tell_its_outcome_by_the_former_methods(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match="Write sequential instead"):
        pack = Pack(tmp_path, {}, {}).run_of(Former)
    assert [told.sequential for told in pack.told] == ["Net.train_step is its own"]
