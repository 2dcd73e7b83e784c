"""``trial.epochs(state={...})`` with torch: a plain loop becomes resumable, bit by bit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, StandaloneTrial, Study, check, load_state, loguniform
from asyncsearch.errors import UsageError
from asyncsearch.trainable import TrialContext
from asyncsearch.trainers.state.saved_state import SavedState
from tests.shares import takes_long
from tests.trainers.tools import saved_and_loaded

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn


def blobs() -> Any:
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    return torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())


def network() -> Any:
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))


def plain_loop(trial: TrialContext) -> None:
    """A loop as people write it: dropout, shuffled batches and a schedule, all from the global generator."""
    torch.manual_seed(trial.seed)
    torch.set_num_threads(1)  # their number changes results, and differs between a worker and this process
    net = network()
    opt = torch.optim.AdamW(net.parameters(), lr=trial.params["lr"])
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=0)
    data = torch.utils.data.DataLoader(blobs(), batch_size=16, shuffle=True)
    for _ in trial.epochs(state={"net": net, "opt": opt, "schedule": schedule}):
        total = 0.0
        for x, y in data:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            total += loss.item()
        schedule.step(total)
        trial.report(loss=total)


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=takes_long)])
def test_a_plain_loop_resumes_bit_by_bit(processes: bool) -> None:
    result = check(plain_loop, {"lr": 0.05}, units=6, cut=3, processes=processes)
    assert result.ok, result


def test_check_names_an_optimizer_that_the_state_leaves_out() -> None:
    def forgetful(trial: TrialContext) -> None:
        torch.manual_seed(trial.seed)
        net = nn.Linear(8, 2)
        opt = torch.optim.Adam(net.parameters())
        for _ in trial.epochs(state={"net": net}):
            opt.zero_grad()
            loss = net(torch.ones(1, 8)).square().sum()
            loss.backward()
            opt.step()
            trial.report(loss=loss)

    result = check(forgetful, {}, units=4, processes=False)
    assert not result.ok
    assert "optimizer" in str(result)


@pytest.mark.usefixtures("torch_workers")
def test_a_search_pauses_and_resumes_a_plain_loop_on_processes(tmp_path: Path) -> None:
    study = Study(
        plain_loop,
        space={"lr": loguniform(1e-3, 0.3)},
        metric="loss",
        mode="min",
        scheduler=ASHA(max_resource=9, reduction_factor=3),
        store=tmp_path,
        backend="processes",
    )
    study.run(num_trials=9, parallelism=1, display="none")
    best = study.best_trial
    alone = StandaloneTrial(best.params, max_resource=9, seed=study.config.seed)
    plain_loop(alone)
    assert (best.resource, best.value) == (9, alone.reports[-1][1]["loss"])
    net = network()
    before = net[0].weight.detach().clone()
    with study.checkpoint() as path:
        load_state(path, {"net": net})
    assert not torch.equal(before, net[0].weight)


class Extended(nn.Module):  # type: ignore[misc]
    """Has what state_dict() leaves out, and a state of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("hidden", torch.zeros(2), persistent=False)
        self.own = {"count": 0}

    def get_extra_state(self) -> dict[str, int]:
        return self.own

    def set_extra_state(self, state: dict[str, int]) -> None:
        self.own = state


def test_a_module_keeps_its_hidden_buffers_its_own_state_and_its_mode(tmp_path: Path) -> None:
    old = Extended().eval()
    old.hidden += 1
    old.own["count"] = 5
    new = saved_and_loaded(tmp_path, old, Extended())
    assert (new.hidden.tolist(), new.own, new.training) == ([1, 1], {"count": 5}, False)


def test_a_tensor_is_restored_in_place_with_its_gradient_wanted(tmp_path: Path) -> None:
    old = torch.arange(4.0, dtype=torch.bfloat16).requires_grad_()
    new = torch.zeros(4, dtype=torch.bfloat16).requires_grad_()
    view = new.detach()
    saved_and_loaded(tmp_path, old, new)
    assert (view.tolist(), new.requires_grad) == ([0, 1, 2, 3], True)


def test_a_view_does_not_save_the_tensor_that_it_shows_a_part_of(tmp_path: Path) -> None:
    saved_and_loaded(tmp_path, torch.zeros(1_000_000)[:2], torch.ones(2))
    assert (tmp_path / "checkpoint" / "tensors.pt").stat().st_size < 10_000


def test_a_generator_and_a_gradient_scaler_go_on(tmp_path: Path) -> None:
    old, new = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
    saved_and_loaded(tmp_path, {"rng": old}, {"rng": new})
    assert torch.rand(2, generator=new).tolist() == torch.rand(2, generator=old).tolist()
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    assert saved_and_loaded(tmp_path / "second", scaler, torch.amp.GradScaler("cpu")).get_scale() == 8.0


SCHEDULES: list[Any] = [
    lambda opt: torch.optim.lr_scheduler.StepLR(opt, 2),
    lambda opt: torch.optim.lr_scheduler.MultiStepLR(opt, [1, 3]),
    lambda opt: torch.optim.lr_scheduler.LambdaLR(opt, lambda epoch: 0.9**epoch),
    lambda opt: torch.optim.lr_scheduler.OneCycleLR(opt, 1.0, 10),
    lambda opt: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 3),
    lambda opt: torch.optim.lr_scheduler.CyclicLR(opt, 0.1, 1.0),
    lambda opt: torch.optim.lr_scheduler.SequentialLR(
        opt,
        [torch.optim.lr_scheduler.ConstantLR(opt), torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)],
        [2],
    ),
]


@pytest.mark.parametrize("make", SCHEDULES)
@pytest.mark.filterwarnings("ignore")  # some of torch's schedules warn of their own calls
def test_every_schedule_of_the_learning_rate_goes_on(tmp_path: Path, make: Any) -> None:
    def stepped(count: int) -> tuple[Any, Any]:
        opt = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5, momentum=0.9)
        schedule = make(opt)
        for _ in range(count):
            opt.step()
            schedule.step()
        return opt, schedule

    (old, old_schedule), (new, new_schedule) = stepped(4), stepped(0)
    SavedState({"opt": old, "schedule": old_schedule}).save(tmp_path / "checkpoint")
    SavedState({"opt": new, "schedule": new_schedule}).load(tmp_path / "checkpoint")
    for opt, schedule in ((old, old_schedule), (new, new_schedule)):
        opt.step()
        schedule.step()
    assert new.param_groups[0]["lr"] == old.param_groups[0]["lr"]


def test_another_network_or_optimizer_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape("does not fit state['it']: Error(s) in loading state_dict")):
        saved_and_loaded(tmp_path, nn.Linear(2, 3), nn.Linear(2, 4))
    weights = [torch.zeros(1, requires_grad=True)]
    with pytest.raises(UsageError, match="it is of type SGD now, and Adam was saved"):
        saved_and_loaded(tmp_path / "second", torch.optim.Adam(weights), torch.optim.SGD(weights))


def test_a_loader_is_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match="in each epoch"):
        SavedState({"data": torch.utils.data.DataLoader(blobs())})


def test_nothing_is_unpickled_from_the_file_of_tensors(tmp_path: Path) -> None:
    saved_and_loaded(tmp_path, torch.zeros(1), torch.zeros(1))
    torch.save([Extended()], tmp_path / "checkpoint" / "tensors.pt")
    with pytest.raises(Exception, match="weights_only"):
        SavedState({"it": torch.zeros(1)}).load(tmp_path / "checkpoint")
