"""``TorchTrainer.train_pack``: a runner's lanes as one computation, from checkpoints to checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from asyncsearch.events import Outcome
from asyncsearch.packing import train_together
from asyncsearch.runner.context import SearchContext
from asyncsearch.runner.packed_training import run_pack
from asyncsearch.runner.protocol import Ended, PackFindings, Train
from asyncsearch.runner.training import run_training
from asyncsearch.trainable import as_function
from tests.agent.driver import make_stage
from tests.agent.recorder import Recorder
from tests.packing.test_torch_units import Blobs
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
    train_together._probed.clear()


def stage(lane: int, **changes: Any) -> Any:
    params = {"lr": 0.05 * (lane + 1), "p": 0.1 * lane}
    return make_stage(lane, params=params, **{"stop": 4, "max_resource": 4} | changes)


def alone(folder: Path, kind: type[Blobs], lane: int, load: Path | None = None, **changes: Any) -> Recorder:
    folder.mkdir()
    link = Recorder(folder)
    train = Train((stage(lane, **changes),), None if load is None else str(load))
    run_training(as_function(kind), train, link, NoInterrupts(), "accuracy")
    return link


def packed(
    folder: Path, kind: type[Blobs], *changes: dict[str, Any], measured: Sequence[int] = ()
) -> tuple[list[Recorder], list[Ended]]:
    links: list[Recorder] = []
    contexts: dict[int, SearchContext] = {}
    told: list[PackFindings | Ended] = []
    for lane, own in enumerate(changes):
        (folder / str(lane)).mkdir(parents=True)
        links.append(Recorder(folder / str(lane)))
        load = own.pop("load", None)
        contexts[lane] = SearchContext([stage(lane, **own)], links[-1], load)
    run_pack(kind, contexts, NoInterrupts(), "accuracy", told.append, measured)
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
    monkeypatch.setattr("asyncsearch.runner.pack_timing.time.perf_counter", lambda: next(ends_s))
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


def test_a_checkpoint_of_a_packed_lane_is_as_large_as_one_of_a_training_alone(tmp_path: Path) -> None:
    links, _ = packed(tmp_path / "pack", Blobs, *({"stop": 1, "save": True} for _ in range(4)))
    single = alone(tmp_path / "single", Blobs, 0, stop=1, save=True)
    sizes = [link.folder(0, 1).stat().st_size for link in links]
    assert max(sizes) <= single.folder(0, 1).stat().st_size + 64


def test_trainings_that_cannot_be_packed_train_one_after_another_and_say_why_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    links, ends = packed(tmp_path / "pack", Recurrent, {}, {})
    assert [end.outcome for end in ends] == [Outcome.RETURNED] * 2
    text = capsys.readouterr().err
    assert text.count("these trainings are not packed") == 1
    assert "LSTM" in text
    for lane in range(2):
        assert values(links[lane]) == values(alone(tmp_path / f"alone {lane}", Recurrent, lane))
