"""Networks of Keras without layers: what is left has the same weights, and the shapes fit."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

keras = pytest.importorskip("keras")

from asyncsearch.ablation.left_out import TrialAblation  # noqa: E402
from asyncsearch.errors import UsageError  # noqa: E402

X = np.linspace(0, 1, 2 * 64, dtype="float32").reshape(2, 8, 8, 1)


def sequential() -> Any:
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Conv2D(4, 3, strides=2, padding="same", name="conv"),
            layers.ReLU(name="relu"),
            layers.Flatten(name="flat"),
            layers.Dense(16, name="hidden"),
            layers.Dense(3, name="last"),
        ]
    )


def functional() -> Any:
    start = keras.Input((8, 8, 1))
    flat = keras.layers.Flatten(name="flat")(start)
    wide = keras.layers.Dense(64, name="wide")(flat)
    both = keras.layers.Add(name="sum")([flat, wide])
    return keras.Model(start, keras.layers.Dense(3, name="last")(both))


@pytest.mark.parametrize(
    ("make", "layer"),
    [(sequential, name) for name in ("conv", "relu", "flat", "hidden", "last")]
    + [(functional, name) for name in ("flat", "wide", "last")],
)
def test_a_layer_may_be_left_out_and_the_others_keep_their_weights(make: Any, layer: str) -> None:
    net = make()
    found = TrialAblation(f"layer:{layer}").model(net, X)
    assert found(X).shape == (2, 3)
    assert found.get_layer(layer).weights == []
    for other in net.layers:
        if other.name != layer and other.weights:
            for mine, its in zip(other.get_weights(), found.get_layer(other.name).get_weights(), strict=True):
                assert (mine == its).all()


@pytest.mark.parametrize(("pattern", "names"), [("r*", {"relu"}), ("*a*", {"flat", "last"}), ("hidden", {"hidden"})])
def test_a_pattern_stands_for_all_layers_whose_names_fit(pattern: str, names: set[str]) -> None:
    found = TrialAblation(f"layer:{pattern}").model(sequential(), X)
    assert {
        new.name for new, old in zip(found.layers, sequential().layers, strict=True) if type(new) is not type(old)
    } == names


def test_a_layer_that_keeps_the_shape_becomes_the_identity() -> None:
    net = functional()
    found = TrialAblation("layer:wide").model(net, X)
    flat = X.reshape(2, 64)
    kernel, bias = net.get_layer("last").get_weights()
    assert np.allclose(found(X), 2 * flat @ kernel + bias, atol=1e-5)


def test_the_base_is_the_network_itself() -> None:
    net = sequential()
    assert TrialAblation("nothing").model(net, X) is net


def test_an_embedding_that_is_left_out_gives_zeros() -> None:
    tokens = keras.Input((7,), dtype="int32")
    found = keras.layers.Embedding(20, 5, name="tokens")(tokens)
    net = keras.Model(tokens, keras.layers.GlobalAveragePooling1D(name="mean")(found))
    assert np.asarray(TrialAblation("layer:tokens").model(net)(np.ones((2, 7), "int32"))).tolist() == [[0.0] * 5] * 2


class Own(keras.Model):  # type: ignore[misc,name-defined]
    def call(self, x: Any) -> Any:
        return x


@pytest.mark.parametrize(
    ("make", "layer", "inputs", "words"),
    [
        (sequential, "fc", (X,), "no layer 'fc': it has 'conv'"),
        (sequential, "conv", (), "keras.Input"),
        (functional, "sum", (X,), "one tensor into one tensor"),
        (Own, "fc", (X,), "model of your own class"),
    ],
)
def test_what_cannot_be_is_answered_by_what_to_write(make: Any, layer: str, inputs: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        TrialAblation(f"layer:{layer}").model(make(), *inputs)


def several_inputs() -> Any:
    """Two inputs, a layer that is called twice, and a model in the model."""
    keras.utils.set_random_seed(0)
    layers = keras.layers
    a, b = keras.Input((4,), name="a"), keras.Input((6,), name="b")
    shared = layers.Dense(4, name="shared")
    both = layers.Concatenate(name="cat")([shared(a), shared(layers.Dense(4, name="narrow")(b))])
    same = keras.Sequential([keras.Input((8,)), layers.Dense(8), layers.Dropout(0.5)], name="same")
    last = keras.Sequential([keras.Input((8,)), layers.Dense(8), layers.Dense(3)], name="last")
    return keras.Model([a, b], last(same(both)))


A, B = np.linspace(0, 1, 8, dtype="float32").reshape(2, 4), np.linspace(-1, 1, 12, dtype="float32").reshape(2, 6)


@pytest.mark.parametrize("layer", ["narrow", "shared", "same", "last"])
def test_a_network_of_several_inputs_without_a_layer_is_as_by_hand(layer: str) -> None:
    net, whole = TrialAblation(f"layer:{layer}").model(several_inputs()), several_inputs()
    weights, bias = whole.get_layer("shared").get_weights()

    def shared(x: Any) -> Any:
        return x if layer == "shared" else x @ weights + bias

    narrow = B[:, :4] if layer == "narrow" else np.asarray(whole.get_layer("narrow")(B))
    both = np.concatenate([shared(A), shared(narrow)], axis=1)
    same = both if layer == "same" else np.asarray(whole.get_layer("same")(both))
    last = same[:, :3] if layer == "last" else np.asarray(whole.get_layer("last")(same))
    np.testing.assert_allclose(np.asarray(net([A, B])), last, rtol=1e-5, atol=1e-5)


def test_leaving_a_layer_out_draws_nothing_from_the_seed_generator() -> None:
    net = several_inputs()
    state = random.getstate()
    TrialAblation("layer:narrow").model(net)
    assert random.getstate() == state
