"""Networks of torch without layers: what is left has the same weights, and the shapes fit."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from asyncsearch.ablation.left_out import TrialAblation  # noqa: E402
from asyncsearch.ablation.torch_layers import FittedModule  # noqa: E402
from asyncsearch.errors import UsageError  # noqa: E402


def network() -> Any:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 8, 3, 2, 1))
    return nn.Sequential(body, nn.Flatten(), nn.Dropout(0.5), nn.Linear(128, 16), nn.Linear(16, 16), nn.Linear(16, 3))


X = torch.linspace(0, 1, 2 * 64).reshape(2, 1, 8, 8)


def without(*layers: str, inputs: Any = (X,)) -> Any:
    return TrialAblation("+".join(f"layer:{layer}" for layer in layers)).model(network(), *inputs)


def test_the_base_is_the_network_itself() -> None:
    net = network()
    assert TrialAblation("feature:age").model(net, X) is net


@pytest.mark.parametrize("layer", ["0", "0.0", "0.1", "0.2", "0.3", "1", "2", "3", "4", "5"])
def test_any_layer_may_be_left_out_and_the_others_keep_their_weights(layer: str) -> None:
    whole, net = network().state_dict(), without(layer)
    assert net.eval()(X).shape == (2, 3)
    assert list(net.get_submodule(layer).parameters()) == []
    left = {name: value for name, value in whole.items() if not name.startswith(f"{layer}.")}
    assert set(net.state_dict()) == set(left)
    assert all(torch.equal(value, left[name]) for name, value in net.state_dict().items())


def test_a_layer_that_keeps_the_shape_becomes_the_identity() -> None:
    by_hand = network()
    by_hand[4] = nn.Identity()
    by_hand[2] = nn.Identity()
    assert torch.equal(without("4", "2").eval()(X), by_hand.eval()(X))


def test_another_shape_is_cut_filled_up_or_averaged() -> None:
    x = torch.arange(1.0, 5.0).reshape(1, 4)
    assert FittedModule((2,), torch.float32)(x).tolist() == [[1.0, 2.0]]
    assert FittedModule((5,), torch.float32)(x).tolist() == [[1.0, 2.0, 3.0, 4.0, 0.0]]
    assert FittedModule((2, 2, 1), torch.float32)(x).tolist() == [[[[1.0], [2.0]], [[3.0], [4.0]]]]
    picture = x.reshape(1, 1, 2, 2)
    assert FittedModule((2, 1, 1), torch.float32)(picture).tolist() == [[[[2.5]], [[0.0]]]]
    assert FittedModule((3, 2), torch.float32)(torch.ones(2, 3, dtype=torch.long)).abs().sum() == 0


def test_a_pattern_stands_for_all_layers_whose_names_begin_so() -> None:
    assert list(without("0.*").get_submodule("0").parameters()) == []


def test_generators_and_averages_are_as_they_were() -> None:
    net = network()
    state = torch.get_rng_state()
    TrialAblation("layer:2").model(net, X)
    assert torch.equal(torch.get_rng_state(), state)
    assert net[0][1].num_batches_tracked == 0
    assert net.training


@pytest.mark.parametrize("layer", ["2", "4", "0.1"])
def test_what_keeps_its_shape_by_its_kind_needs_no_inputs(layer: str) -> None:
    assert without(layer, inputs=())(X).shape == (2, 3)


@pytest.mark.parametrize(
    ("layer", "inputs", "words"),
    [
        ("fc", (X,), "no layer 'fc': it has '0', '0.0'"),
        ("3", (), r"trial.ablation.model\(net, x\)"),
    ],
)
def test_what_cannot_be_is_answered_by_what_to_write(layer: str, inputs: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        without(layer, inputs=inputs)


def test_a_layer_of_several_tensors_is_refused() -> None:
    class Recurrent(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(3, 4, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.lstm(x)[0]

    with pytest.raises(UsageError, match="one tensor into one tensor"):
        TrialAblation("layer:lstm").model(Recurrent(), torch.zeros(2, 5, 3))


def test_a_model_of_another_kind_is_refused() -> None:
    with pytest.raises(UsageError, match=r"torch.nn.Module or keras.Model"):
        TrialAblation("layer:fc").model(object())
