"""What the tests of spaces have in common."""

from typing import Any

from hypothesis import strategies as st

from asyncsearch.space import (
    Space,
    choice,
    constant,
    lognormal,
    lograndint,
    loguniform,
    normal,
    quniform,
    randint,
    uniform,
)


def rich_space() -> Space:
    return Space(
        {
            "lr": loguniform(1e-4, 1e-1),
            "optimizer": choice("sgd", "adam"),
            "momentum": uniform(0, 0.99).when(optimizer="sgd"),
            "nesterov": choice(True, False).when(momentum_kind="heavy"),
            "momentum_kind": choice("heavy", "light").when(optimizer="sgd"),
            "model": {
                "kind": choice("cnn", "rnn", "linear"),
                "layers": randint(1, 4).when(**{"model.kind": ("cnn", "rnn")}),
                "width": lograndint(16, 512).when(**{"model.layers": (3, 4)}),
                "act": "relu",
            },
            "rnn": {"gate": choice("lstm", "gru").when(**{"model.kind": "rnn"})},
            "dropout": quniform(0, 0.5, 0.1),
            "sizes": choice([8, 8], [16]),
            "tags": constant(["a", {"b": None}]),
        },
        constraints=[lambda params: params["dropout"] + params["lr"] < 0.55],
    )


finite = st.floats(-1e300, 1e300)
positive = st.floats(1e-300, 1e300)
int64 = st.integers(-(2**63), 2**63 - 1)
DOMAINS = st.one_of(
    st.tuples(finite, finite).filter(lambda pair: pair[0] < pair[1]).map(lambda pair: uniform(*pair)),
    st.tuples(positive, positive).filter(lambda pair: pair[0] < pair[1]).map(lambda pair: loguniform(*pair)),
    st.tuples(st.integers(-1000, 1000), st.integers(1, 500), st.integers(0, 4)).map(
        lambda t: quniform(t[0] / 10 ** t[2], (t[0] + 3 * t[1]) / 10 ** t[2], t[1] / 10 ** t[2])
    ),
    st.tuples(int64, int64).map(lambda pair: randint(min(pair), max(pair))),
    st.tuples(st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1)).map(lambda p: lograndint(min(p), max(p))),
    st.tuples(st.floats(-1e3, 1e3), st.floats(1e-3, 1e2), st.sampled_from([None, 0.1, 5.0])).map(
        lambda t: normal(t[0], t[1], step=t[2])
    ),
    st.tuples(st.floats(-20, 20), st.floats(1e-2, 5), st.sampled_from([None, 0.01])).map(
        lambda t: lognormal(t[0], t[1], step=t[2])
    ),
    st.tuples(st.integers(-1000, 1000), st.integers(0, 500), st.integers(1, 40)).map(
        lambda t: randint(t[0], t[0] + t[1], step=t[2])
    ),
    st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=5).map(
        lambda weights: choice(*range(len(weights)), weights=weights)
    ),
    st.lists(st.text(st.characters(codec="utf-8")) | st.integers(-5, 5) | st.booleans() | st.none(), min_size=1)
    .map(lambda values: list({(type(value), value): value for value in values}.values()))
    .map(lambda values: choice(*values)),
)


def is_fine(params: dict[str, Any]) -> bool:
    return bool(params.get("m", {}).get("w") != 2)


def is_impossible(params: dict[str, Any]) -> bool:
    return bool(params["a"] > 99)
