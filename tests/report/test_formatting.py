"""Configurations are written so that people recognise what they wrote."""

from __future__ import annotations

from asyncsearch.sequences import exponential, warmup
from asyncsearch.sequences.flat_params import flat, params


def test_a_sequence_is_one_value_and_reads_as_code() -> None:
    lr = warmup(5, exponential(0.1, gamma=0.9))
    configuration = {"lr": lr.to_json(), "model": {"width": 16, "dropout": 0.25}}
    assert params(configuration) == f"lr={lr!r} model.width=16 model.dropout=0.25"
    assert dict(flat(configuration))["lr"] == lr


def test_a_sequence_of_another_version_is_shown_as_it_stands() -> None:
    assert params({"lr": {"sequence": "from the future", "x": 1}}) == "lr={'sequence': 'from the future', 'x': 1}"
