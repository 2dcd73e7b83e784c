"""``TorchTrainer.train_pack``: a runner's lanes as one computation, from checkpoints to checkpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from asyncsearch.events import Outcome
from asyncsearch.runner.context import SearchContext
from asyncsearch.runner.packs.packed_training import PackRun
from asyncsearch.runner.protocol import Ended, PackFindings, Train
from asyncsearch.runner.training import run_training
from asyncsearch.sequences import step
from asyncsearch.trainable import PackOutcome, as_function
from asyncsearch.trainers.packs import pack_training
from tests.agent.driver import make_stage
from tests.agent.recorder import Recorder
from tests.packing.alone import difference
from tests.packing.test_torch_units import Blobs, Normed, saved, trainer
from tests.runner.test_packed_training import NoInterrupts

nn: Any = torch.nn


class Recurrent(Blobs):
    """Its model cannot be packed."""

    def model(self, hp: Mapping[str, Any]) -> Any:
        return LastOutput().double()


class LastOutput(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(6, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(x[:, None])[0][:, -1])


@pytest.fixture(autouse=True)
def _forget() -> None:
    pack_training._known.clear()


def stage(lane: int, **changes: Any) -> Any:
    params = {"lr": 0.05 * (lane + 1), "p": 0.1 * lane}
    return make_stage(lane, **{"params": params, "stop": 4, "max_resource": 4} | changes)


def alone(folder: Path, kind: type[Blobs], lane: int, load: Path | None = None, **changes: Any) -> Recorder:
    folder.mkdir()
    link = Recorder(folder)
    train = Train((stage(lane, **changes),), None if load is None else str(load))
    run_training(as_function(kind), train, link, NoInterrupts(), "accuracy")
    return link


def packed(
    folder: Path,
    kind: type[Blobs],
    *changes: dict[str, Any],
    measured: Sequence[int] = (),
    told: list[PackFindings | Ended] | None = None,
) -> tuple[list[Recorder], list[Ended]]:
    links: list[Recorder] = []
    contexts: dict[int, SearchContext] = {}
    told = [] if told is None else told
    for lane, own in enumerate(changes):
        (folder / str(lane)).mkdir(parents=True)
        links.append(Recorder(folder / str(lane)))
        load = own.pop("load", None)
        contexts[lane] = SearchContext([stage(lane, **own)], links[-1], load)
    PackRun(kind, contexts, NoInterrupts(), "accuracy", told.append, measured).run()
    return links, sorted((one for one in told if isinstance(one, Ended)), key=lambda end: end.lane)


def values(link: Recorder) -> list[float]:
    return [metrics["loss"] for _, metrics in link.reports]


def test_each_lane_reports_what_it_reports_alone_within_rounding(tmp_path: Path) -> None:
    links, ends = packed(tmp_path / "pack", Blobs, {}, {"stop": 2}, {})
    assert [end.outcome for end in ends] == [Outcome.RETURNED, Outcome.REACHED, Outcome.RETURNED]
    for lane, stop in enumerate((4, 2, 4)):
        expected = alone(tmp_path / f"alone {lane}", Blobs, lane, stop=stop)
        assert values(links[lane]) == pytest.approx(values(expected), abs=1e-12)


@pytest.mark.parametrize("fastest", [1, 2, 4])
def test_lanes_that_are_timed_in_groups_and_then_regrouped_train_as_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fastest: int
) -> None:
    ends_s = iter(
        [0.0, 10.0 - 9.9 * (fastest == 1), 0.0, 20.0 - 19.9 * (fastest == 2), 0.0, 40.0 - 39.9 * (fastest == 4)]
    )
    monkeypatch.setattr("asyncsearch.runner.packs.pack_timing.time.perf_counter", lambda: next(ends_s))
    links, _ = packed(tmp_path / "pack", Blobs, *({} for _ in range(9)), measured=(1, 2, 4))
    for lane in range(9):
        expected = alone(tmp_path / f"alone {lane}", Blobs, lane)
        assert values(links[lane]) == pytest.approx(values(expected), abs=1e-12)


def test_a_packed_prefix_goes_on_alone_and_the_other_way_round(tmp_path: Path) -> None:
    links, _ = packed(tmp_path / "pack", Blobs, *({"stop": 2, "save": True} for _ in range(2)))
    assert [link.saves for link in links] == [[(0, 2)]] * 2
    whole = [alone(tmp_path / f"whole {lane}", Blobs, lane) for lane in range(2)]
    rest = alone(tmp_path / "rest", Blobs, 1, links[1].folder(0, 2), start=2)
    assert values(rest) == pytest.approx(values(whole[1])[2:], abs=1e-12)

    first = [alone(tmp_path / f"first {lane}", Blobs, lane, stop=2, save=True) for lane in range(2)]
    loads = [{"start": 2, "load": link.folder(0, 2)} for link in first]
    again, _ = packed(tmp_path / "again", Blobs, *loads)
    for lane in range(2):
        assert values(again[lane]) == pytest.approx(values(whole[lane])[2:], abs=1e-12)


def test_a_packed_lanes_checkpoint_is_as_large_as_that_of_one_alone(tmp_path: Path) -> None:
    links, _ = packed(tmp_path / "pack", Blobs, *({"stop": 1, "save": True} for _ in range(4)))
    single = alone(tmp_path / "single", Blobs, 0, stop=1, save=True)
    sizes = [link.folder(0, 1).stat().st_size for link in links]
    assert max(sizes) <= single.folder(0, 1).stat().st_size + 64


def test_trainings_that_cannot_be_packed_train_in_turn_and_say_why_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    links, ends = packed(tmp_path / "pack", Recurrent, {}, {})
    assert [end.outcome for end in ends] == [Outcome.RETURNED] * 2
    text = capsys.readouterr().err
    assert text.count("these trainings are not packed") == 1
    assert "LSTM" in text
    for lane in range(2):
        assert values(links[lane]) == values(alone(tmp_path / f"alone {lane}", Recurrent, lane))


class Varied(Blobs):
    """Its width, its kind of model and what its forward does are hyper-parameters."""

    def model(self, hp: Mapping[str, Any]) -> Any:
        if hp.get("lstm"):
            return LastOutput().double()
        inner = nn.Sequential(nn.Linear(6, hp.get("width", 5)), nn.Tanh(), nn.Linear(hp.get("width", 5), 2)).double()
        return Trapping(inner, hp["trap"]) if "trap" in hp else inner


class Trapping(nn.Module):  # type: ignore[misc]
    """Takes a number out of a tensor for batches up to a size."""

    def __init__(self, inner: Any, size: int) -> None:
        super().__init__()
        self.inner, self.size = inner, size

    def forward(self, x: Any) -> Any:
        out = self.inner(x)
        return out * (1.0 + 0.1 * out.mean().item()) if len(x) <= self.size else out


def units_of(folder: Path, *packs: Sequence[dict[str, Any]]) -> tuple[float, list[Any], PackOutcome]:
    """Train a unit of each pack; return the largest difference from lone training, all trainers, the last outcome."""
    gap, found, outcome = 0.0, [], PackOutcome()
    for settings in packs:
        together, alone = ([trainer(Varied, one) for one in settings] for _ in range(2))
        outcome = Varied.train_pack(together)
        for one in alone:
            one.train()
        files = [[saved(one, folder / "state") for one in trainers] for trainers in (together, alone)]
        gap = max(gap, difference(*files))
        found += together
    return gap, found, outcome


SGD, ADAM, WIDE, LSTM = {"lr": 0.1}, {"lr": 0.01, "adam": True}, {"lr": 0.1, "width": 7}, {"lr": 0.1, "lstm": True}


def described(one: Any) -> list[str]:
    sentences: list[str] = one._pack.describe()
    return sentences


@pytest.mark.parametrize("first", [[SGD, ADAM], [SGD, WIDE], [SGD, WIDE, ADAM], [LSTM, SGD], [LSTM, ADAM, WIDE]])
def test_a_first_pack_of_unlike_members_lets_a_later_one_be_packed(tmp_path: Path, first: list[dict[str, Any]]) -> None:
    gap, found, outcome = units_of(tmp_path, first, [SGD, SGD, ADAM])
    assert gap < 1e-12
    assert outcome.refused == ""
    assert described(found[-1])[0] == "Members 0, 1 train as one computation."


@pytest.mark.parametrize(
    ("pack", "words"),
    [
        ([SGD, SGD], r"^$"),
        ([SGD, ADAM], "one is trained by SGD and the other by Adam"),
        ([SGD, SGD, WIDE, WIDE], "layer '0' has out_features=5 in one and 7 in the other"),
        ([LSTM, SGD, SGD], "LSTM"),
        ([LSTM, LSTM], r"^$"),
    ],
)
def test_why_members_step_in_turn_is_told_unless_all_are_or_none_is_alike(
    tmp_path: Path, pack: list[dict[str, Any]], words: str
) -> None:
    _, _, outcome = units_of(tmp_path, [SGD, ADAM], pack)
    assert re.search(words, outcome.sequential)


def test_a_member_that_cannot_be_packed_trains_alone_beside_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gap, found, outcome = units_of(tmp_path, [LSTM, SGD, SGD], [SGD, SGD, LSTM])
    assert gap < 1e-12
    assert outcome.refused == ""
    assert "Members 1, 2 train as one computation." in described(found[0])
    text = capsys.readouterr().err
    assert text.count("trains by itself in its pack") == 1
    assert "LSTM" in text


def test_a_trap_is_known_of_its_structure_and_not_of_others(tmp_path: Path) -> None:
    trap = {"lr": 0.1, "trap": 50}
    gap, found, _ = units_of(tmp_path, [SGD, SGD], [trap, trap], [SGD, trap, SGD, trap])
    assert gap < 1e-12
    assert described(found[-1])[0] == "Members 0, 2 train as one computation."
    assert r"takes a number out of a tensor (.item(), float(), int())" in described(found[-1])[1]


def test_a_trap_in_the_middle_of_a_unit_costs_no_member_its_results(tmp_path: Path) -> None:
    """The last batch of a unit has 2 samples; the others go on as one computation."""
    late = {"lr": 0.1, "trap": 2}
    gap, found, _ = units_of(tmp_path, [late, late, SGD, SGD])
    assert gap < 1e-12
    assert [one.steps for one in found] == [7] * 4
    sentences = " ".join(described(found[0]))
    assert sentences.count("train as one computation") == 1
    assert sentences.count("takes a number out of a tensor") == 2


class Sized(Normed):
    """Its BatchNorm forbids padding."""


def test_batch_sizes_that_differ_from_a_later_unit_on_fail_no_trial(tmp_path: Path) -> None:
    sizes = {"lr": 0.1, "batch_size": step(8, gamma=2, step_size=2)}
    links, ends = packed(tmp_path / "pack", Sized, {"params": sizes}, {"params": {"lr": 0.1, "batch_size": 8}}, {})
    assert [end.outcome for end in ends] == [Outcome.RETURNED] * 3
    expected = alone(tmp_path / "alone", Sized, 0, params=sizes)
    assert values(links[0]) == pytest.approx(values(expected), abs=1e-12)


def test_an_error_of_one_trial_of_a_pack_is_its_own(tmp_path: Path) -> None:
    wrong = {"params": {"lr": 0.1, "batch_size": 1000}}
    links, ends = packed(tmp_path / "pack", Blobs, {}, wrong, {})
    assert [end.outcome for end in ends] == [Outcome.RETURNED, Outcome.FAILED, Outcome.RETURNED]
    assert ends[1].error_kind == "UsageError"
    assert values(links[2]) == pytest.approx(values(alone(tmp_path / "alone", Blobs, 2)), abs=1e-12)


class Raising(Blobs):
    """The loss of some trials fails at the last batch of a unit, which has 2 samples."""

    def loss(self, model: Any, batch: Any) -> Any:
        if len(batch[0]) == 2 and self.hp.get("raises"):
            raise ValueError("two are too few")
        return super().loss(model, batch)


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_of_a_step_is_that_of_the_trials_whose_loss_raises_it(tmp_path: Path, count: int) -> None:
    wrong = [{"params": {"lr": 0.1, "raises": True}}] * count
    told: list[PackFindings | Ended] = []
    links, ends = packed(tmp_path / "pack", Raising, {}, *wrong, {}, told=told)
    assert [end.outcome for end in ends] == [Outcome.RETURNED, *[Outcome.FAILED] * count, Outcome.RETURNED]
    assert [end.error_kind for end in ends[1:-1]] == ["ValueError"] * count
    assert values(links[0]) == pytest.approx(values(alone(tmp_path / "alone", Raising, 0)), abs=1e-12)
    assert not any(one.refusal for one in told if isinstance(one, PackFindings))
