"""What cannot be trained as one computation is refused in words that name the line or the layer to change."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from asyncsearch.errors import UsageError
from asyncsearch.packing import Member, Pack, pack, why_not
from tests.packing.alone import clone, difference, largest, state_of, step_alone
from tests.packing.models import CLASSES, FEATURES, MODELS, WHOLE, batch, member

nn: Any = torch.nn


class Custom(nn.Module):  # type: ignore[misc]
    """A linear layer, and something else on its result."""

    def __init__(self, what: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, CLASSES)
        self.what = what
        self.calls = 0
        self.kept = torch.zeros(7, CLASSES, dtype=torch.float64)

    def forward(self, x: Any) -> Any:
        return self.what(self, self.layer(x))


def pair(what: Callable[[Any, Any], Any]) -> list[Member]:
    return [of_model(Custom(what), number) for number in range(2)]


def of_model(model: Any, number: int = 0, **more: Any) -> Member:
    model = model.double()
    generator = torch.Generator().manual_seed(number)
    return Member(model, torch.optim.SGD(model.parameters(), 0.1 + number), generator=generator, **more)


def branch(model: Any, out: Any) -> Any:
    if out.sum() > 0:
        return out
    return -out


def masked(model: Any, out: Any) -> Any:
    return out + out[out > 0].sum()


def written(model: Any, out: Any) -> Any:
    model.kept += out.detach()
    return out


def counted(model: Any, out: Any) -> Any:
    model.calls += 1
    return out * model.calls


def noisy(model: Any, out: Any) -> Any:
    return out + torch.randn_like(out)


def dropped(model: Any, out: Any) -> Any:
    return nn.functional.dropout(out, 0.5, model.training)


def recurrent(kind: str) -> Callable[[Any, Any], Any]:
    """Return a call of the function behind ``nn.LSTM`` or ``nn.GRU``, which no layer shows."""
    gates = {"lstm": 4, "gru": 3}[kind]
    weights = [torch.ones(gates * CLASSES, CLASSES, dtype=torch.float64) for _ in range(2)]

    def call(model: Any, out: Any) -> Any:
        state = out.new_zeros(1, 1, CLASSES)
        states = (state, state) if kind == "lstm" else state
        result = getattr(torch, kind)(out[:, None], states, weights, False, 1, 0.0, False, False, False)
        return result[0][:, 0]

    return call


TRAPS = {
    "item": (lambda model, out: out * out.mean().item(), r"takes a number out of a tensor \(\.item\(\), float\(\)"),
    "float": (lambda model, out: out * float(out.mean().detach()), r"takes a number out of a tensor \(\.item\(\)"),
    "python if": (branch, r"test_model_refusals.py, line \d+, `if out.sum\(\) > 0:`, decides in Python by a value"),
    "boolean mask": (masked, r"`return out \+ out\[out > 0\].sum\(\)`, makes a tensor whose shape depends on values"),
    "in place": (written, r"`model.kept \+= out.detach\(\)`, writes into a tensor that all members would share"),
    "attribute": (counted, r"training changes what members would share, calls: make it a buffer"),
    "random numbers": (noisy, r"`return out \+ torch.randn_like\(out\)`, draws random numbers, .* nn.Dropout layer"),
    "functional lstm": (recurrent("lstm"), r"`result = getattr.*`, calls an LSTM, .*: train it without packing"),
    "functional gru": (recurrent("gru"), r"`result = getattr.*`, calls a GRU, .*: train it without packing"),
    "functional dropout": (dropped, r"nn.functional.dropout\(.*`, draws random numbers, .* use an nn.Dropout layer"),
}


@pytest.mark.parametrize("name", TRAPS)
def test_what_forward_may_not_do_is_found_and_named_with_its_line(name: str) -> None:
    what, words = TRAPS[name]
    members = pair(what)
    assert why_not(members) is None
    found = why_not(members, batch(0))
    assert found is not None
    assert re.search(words, found), found


def test_a_pack_that_meets_a_trap_raises_its_words_and_updates_nothing() -> None:
    members = pair(branch)
    before = copy.deepcopy(state_of(members[1]))
    packed = Pack(members)
    with pytest.raises(UsageError, match=r"line \d+, `if out.sum\(\) > 0:`, decides in Python by a value of a tensor"):
        packed.step(batch(0))
    packed.free()
    assert difference(state_of(members[1]), before) == 0


def test_errors_that_have_nothing_to_do_with_packing_are_not_renamed() -> None:
    members = [member(number=number) for number in range(2)]
    x, y = batch(0)
    with pytest.raises(RuntimeError) as caught:
        Pack(members).step((x[:, :3], y))
    assert not isinstance(caught.value, UsageError)


def test_a_loss_that_maps_the_model_over_samples_is_refused_in_words() -> None:
    def mapped(model: Any, given: Any) -> Any:
        return nn.functional.cross_entropy(torch.func.vmap(lambda x: model(x[None])[0])(given[0]), given[1])

    x, y = batch(0)
    members = [of_model(nn.Sequential(nn.Linear(FEATURES, 4), nn.ReLU(), nn.Linear(4, CLASSES)), n) for n in range(2)]
    for one in members:
        one.loss = mapped
    words = why_not(members, (x[:2], y[:2]))  # as many samples as members
    assert words is not None
    assert "calls layers inside torch.func.vmap: call them once for all samples" in words


def test_a_loss_that_reads_what_only_one_member_has_is_found() -> None:
    class Trainer:
        def __init__(self, rate: float) -> None:
            self.rate = rate

        def loss(self, model: Any, given: Any) -> Any:
            return nn.functional.cross_entropy(model(given[0]), given[1]) * self.rate

    members = [member(number=number, loss=Trainer(1.0 + number).loss) for number in range(2)]
    found = why_not(members, batch(0))
    assert found is not None
    assert "the loss of member 1 is" in found
    assert "reads something that is not a parameter, a buffer or the batch" in found


LAYERS: dict[str, tuple[Callable[[], Any], str]] = {
    "lstm": (
        lambda: nn.LSTM(FEATURES, CLASSES),
        r"\(LSTM\) cannot be computed for all members at once: vmap has no rule",
    ),
    "gru": (lambda: nn.GRU(FEATURES, CLASSES), r"\(GRU\) cannot be computed"),
    "embedding bag": (
        lambda: nn.EmbeddingBag(4, 3),
        "one member after the other: use nn.Embedding and a sum or a mean",
    ),
    "alpha dropout": (lambda: nn.Sequential(nn.Linear(6, 3), nn.AlphaDropout()), "use nn.Dropout"),
    "transformer layer": (
        lambda: nn.TransformerEncoderLayer(6, 2, 8),
        r"layer 'self_attn' \(MultiheadAttention\) draws its dropout inside: set its dropout to 0",
    ),
    "attention's dropout": (lambda: nn.MultiheadAttention(6, 2, dropout=0.1), "set its dropout to 0"),
    "cumulative average": (lambda: nn.BatchNorm1d(6, momentum=None), r"\(momentum=None\): give it a momentum"),
    "max_norm": (lambda: nn.Embedding(4, 3, max_norm=1.0), "has sparse=True or max_norm"),
    "sparse": (lambda: nn.Embedding(4, 3, sparse=True), "has sparse=True or max_norm"),
    "compiled": (
        lambda: torch.compile(nn.Linear(2, 2), backend="eager"),
        r"the model \(OptimizedModule\) was compiled by torch.compile: leave that out",
    ),
    "complex": (lambda: nn.Linear(2, 2, dtype=torch.complex64), "is complex: use real parameters"),
    "frozen": (lambda: nn.Linear(2, 2).requires_grad_(False), "no parameter that requires a gradient"),
    "mixed dtypes": (lambda: nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double()), "differ in dtype or device"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_that_cannot_be_computed_for_all_members_are_named(name: str) -> None:
    make, words = LAYERS[name]
    model = make()
    found = why_not([Member(model, torch.optim.SGD(model.parameters(), 0.1))])
    assert found is not None
    assert found.startswith("member 0: ")
    assert re.search(words, found), found


class Transformer(nn.Module):  # type: ignore[misc]
    """A layer of torch's transformer over the features in pairs, with a dropout or none."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(2, 1, 4, dropout, batch_first=True)
        self.head = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.head(self.layer(x.unflatten(1, (3, 2))).flatten(1))


def test_a_transformer_layer_without_dropout_trains_in_packs_as_alone() -> None:
    members = [of_model(Transformer(0.0), number) for number in range(2)]
    assert why_not(members, batch(0)) is None
    alone = [clone(one) for one in members]
    with pack(members) as packed:
        for number in range(4):
            packed.step(batch(number))
            for one in alone:
                step_alone(one, batch(number))
    assert largest(list(zip(members, alone, strict=True))) < 1e-12


def test_lazy_modules_are_refused_before_they_have_a_shape() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls lazy modules a feature under development
        model = nn.LazyLinear(3)
    found = why_not([Member(model, torch.optim.SGD(model.parameters(), 0.1))])
    assert found is not None
    assert "has no shape yet (a lazy module): run a batch through the model first" in found


def hooks() -> dict[str, Callable[[Member], Any]]:
    return {
        "forward": lambda one: one.model[0].register_forward_hook(lambda module, given, out: None),
        "forward pre": lambda one: one.model[0].register_forward_pre_hook(lambda module, given: None),
        "backward": lambda one: one.model.register_full_backward_hook(lambda module, inside, outside: None),
        "parameter": lambda one: one.model[0].weight.register_hook(lambda grad: None),
        "accumulated": lambda one: one.model[0].weight.register_post_accumulate_grad_hook(lambda parameter: None),
        "step": lambda one: one.optimizer.register_step_post_hook(lambda optimizer, args, kwargs: None),
    }


@pytest.mark.parametrize("name", hooks())
def test_hooks_are_refused_as_they_would_be_called_once_or_never(name: str) -> None:
    members = [member(number=number) for number in range(2)]
    hooks()[name](members[1])
    found = why_not(members)
    assert found is not None
    assert found.startswith("member 1: ")
    assert "hook" in found
    assert found.endswith("remove it")


OPTIMIZERS = {
    "other": (
        torch.optim.Adadelta,
        r"the optimizer is torch.optim.adadelta.Adadelta: use torch's SGD, Adam",
    ),
    "capturable": (lambda p: torch.optim.Adam(p, capturable=True), "has capturable=True"),
    "differentiable": (lambda p: torch.optim.SGD(p, 0.1, differentiable=True), "has differentiable=True"),
    "tensor": (lambda p: torch.optim.Adam(p, lr=torch.tensor(0.1)), "lr of Adam is a tensor, .*: write a float"),
    "foreign": (
        lambda p: torch.optim.SGD([*p, nn.Parameter(torch.ones(1))], 0.1),
        "a parameter that is not in the model",
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_whose_update_would_be_another_one_are_refused(name: str) -> None:
    make, words = OPTIMIZERS[name]
    one = member()
    one.optimizer = make(one.model.parameters())
    found = why_not([one])
    assert found is not None
    assert re.search(words, found), found


def test_a_subclass_of_a_known_optimizer_is_another_one() -> None:
    class Mine(torch.optim.SGD):  # type: ignore[misc]
        pass

    one = member()
    one.optimizer = Mine(one.model.parameters(), 0.1)
    found = why_not([one])
    assert found is not None
    assert "Mine" in found


def changed(change: Callable[[Member], Any]) -> list[Member]:
    members = [member("known", number=number) for number in range(2)]
    change(members[1])
    return members


def set_eps(one: Member) -> None:
    one.model[0][2].eps = 0.5


def set_amsgrad(one: Member) -> None:
    one.optimizer = torch.optim.Adam(one.model.parameters(), 0.1, amsgrad=True)


def make_float(one: Member) -> None:
    one.model.float()
    one.optimizer = torch.optim.SGD(one.model.parameters(), 0.1)


def freeze(one: Member) -> None:
    one.model[0][1].weight.requires_grad_(False)


def set_loss(one: Member) -> None:
    one.loss = lambda model, given: model(given[0]).sum()


def widen(one: Member) -> None:
    one.model[1][2] = nn.Linear(24, 9).double()
    one.optimizer = torch.optim.SGD(one.model.parameters(), 0.1)


DIFFERENCES = {
    "width": (widen, "layer '1.2' has out_features=5 in one and 9 in the other"),
    "settings": (set_eps, r"layer '0.2' has eps=1e-05 in one and 0.5 in the other"),
    "mode": (lambda one: one.model[1][1].eval(), "layer '1.1' has training=True in one and False"),
    "dtype": (make_float, "dtype of '0.1.weight' is torch.float64 in one and torch.float32"),
    "frozen": (freeze, "requires_grad of '0.1.weight' is True in one and False"),
    "optimizer": (set_amsgrad, "one is trained by SGD and the other by Adam"),
    "loss": (set_loss, "they have different functions loss"),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_members_that_differ_are_told_in_what(name: str) -> None:
    change, words = DIFFERENCES[name]
    found = why_not(changed(change))
    assert found is not None
    assert found.startswith("members 0 and 1 differ: ")
    assert re.search(words, found), found


def test_members_must_not_share_what_training_changes() -> None:
    one, other = member(number=0), member(number=1)
    for name in ("model", "optimizer", "generator"):
        third = Member(other.model, other.optimizer, generator=other.generator)
        setattr(third, name, getattr(one, name))
        with pytest.raises(UsageError, match="cannot be in one pack: two "):
            Pack([one, third])
    one, other = member("dropout", number=0), member("dropout", number=1, generator=None)
    with pytest.raises(UsageError, match=r"member 1 has dropout and no generator of its own.*manual_seed\(seed\)"):
        Pack([one, other])


def test_padding_is_refused_where_it_would_change_the_result() -> None:
    members = [member("known", number=number, batch_size=3 + number) for number in range(2)]
    with pytest.raises(UsageError, match=r"3 to 4 samples, and layer '0.2' \(BatchNorm2d\) mixes samples"):
        Pack(members).step(batch(0))
    members = [
        member(number=number, batch_size=3 + number, loss=lambda model, given: model(given[0]).mean())
        for number in range(2)
    ]
    members[1].loss = members[0].loss
    with pytest.raises(UsageError, match=r"cannot leave out padding: give sample_losses\(model, batch\)"):
        Pack(members).step(batch(0))


def test_a_loss_that_is_no_number_is_refused() -> None:
    def loss(model: Any, given: Any) -> Any:
        return model(given[0]).mean(1)

    with pytest.raises(UsageError, match=r"returned a tensor of shape \(7,\) for a member: return the mean"):
        Pack([member(number=number, loss=loss) for number in range(2)]).step(batch(0))


@pytest.mark.parametrize(
    "wrong",
    [{"steps": 0}, {"steps": 1.5}, {"batch_size": 0}, {"clip_grad_norm": 0.0}, {"clip_grad_norm": float("nan")}],
)
def test_numbers_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    name, value = next(iter(wrong.items()))
    with pytest.raises(UsageError, match=rf"{name}={value} of a member .*: "):
        member(**wrong)


@pytest.mark.parametrize("kind", [*MODELS, *WHOLE])
def test_members_that_can_be_packed_are_not_refused_and_stay_as_they_are(kind: str) -> None:
    members = [member(kind, "adam", number) for number in range(2)]
    before = copy.deepcopy([state_of(one) for one in members])
    assert why_not(members, batch(0)) is None
    assert difference([state_of(one) for one in members], before) == 0


def test_the_former_name_of_what_must_match_warns_and_counts() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.warns(DeprecationWarning, match="Write must_match instead"):
        assert Member(model, optimizer, must_equal={"scale": 2}).must_match == {"scale": 2}
