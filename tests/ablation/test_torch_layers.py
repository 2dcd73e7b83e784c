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


class Odd(nn.Module):  # type: ignore[misc]
    """A layer with two names, one that is called twice, lists in lists, a residual block and a lazy layer."""

    def __init__(self, is_widening: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = self.again = nn.Linear(6, 6)
        self.towers = nn.ModuleList([nn.ModuleList([nn.Linear(6, 6), nn.Tanh()]), nn.ModuleList([nn.Linear(6, 6)])])
        self.named = nn.ModuleDict({"block": nn.Sequential(nn.Linear(6, 6), nn.ReLU())})
        self.halve = nn.AvgPool1d(2)
        self.wide = nn.Upsample(scale_factor=2.0 if is_widening else 1.0)
        self.idle = nn.Bilinear(2, 2, 2)
        self.head = nn.LazyLinear(2)

    def forward(self, x: Any) -> Any:
        x = self.again(self.first(x))
        for tower in self.towers:
            for layer in tower:
                x = layer(x)
        x = x + self.named["block"](x)
        x = self.wide(self.wide(x[:, None]))
        return self.head(x[:, 0])


SAMPLES = torch.linspace(-1, 1, 24).reshape(4, 6)


def odd(*layers: str, **options: Any) -> Any:
    value = "+".join(f"layer:{layer}" for layer in layers) or "nothing"
    return TrialAblation(value).model(Odd(**options), SAMPLES)


def test_a_layer_with_two_names_is_left_out_at_the_one_that_is_named() -> None:
    whole, net = Odd(), odd("again")
    whole.head, expected = net.head, whole.first(SAMPLES)
    whole.again = nn.Identity()
    assert torch.equal(net(SAMPLES), whole(SAMPLES))
    assert torch.equal(net.first(SAMPLES), expected)


@pytest.mark.parametrize("name", ["towers", "towers*", "towers.0"])
def test_a_list_of_layers_is_left_out_layer_by_layer(name: str) -> None:
    net = odd(name)
    left = {part for part, module in net.towers.named_modules() if isinstance(module, nn.Identity)}
    assert left == ({"0.0", "0.1"} if name == "towers.0" else {"0.0", "0.1", "1.0"})
    x = net.again(net.first(SAMPLES))
    x = net.towers[1][0](x)
    assert torch.equal(net(SAMPLES), net.head(x + net.named["block"](x)))


def test_a_block_of_a_dictionary_is_left_out_and_what_is_added_to_it_stays() -> None:
    net = odd("named.block")
    x = net.towers[1][0](net.towers[0][1](net.towers[0][0](net.again(net.first(SAMPLES)))))
    assert torch.equal(net(SAMPLES), net.head(2 * x)), "the identity is what comes in"


def test_a_lazy_layer_is_left_out_and_the_next_has_the_full_networks_shape() -> None:
    assert odd("head")(SAMPLES).shape == (4, 2)
    assert isinstance(odd("first").head, nn.Linear)
    Odd()
    state = torch.get_rng_state()
    odd("first")
    assert torch.equal(torch.get_rng_state(), state), "shapes were told aside"


def test_a_layer_called_with_several_shapes_is_the_identity_or_refused() -> None:
    assert isinstance(odd("wide").wide, nn.Identity)
    with pytest.raises(UsageError, match=r"'wide' .Upsample. is called several times, with other shapes"):
        odd("wide", is_widening=True)


def test_a_layer_that_is_not_called_is_named() -> None:
    with pytest.raises(UsageError, match=r"does not call 'idle' .Bilinear. with those samples"):
        odd("idle")
