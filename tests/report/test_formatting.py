"""Configurations are written so that people recognise what they wrote."""

from __future__ import annotations

import shlex

from asyncsearch.report.formatting import command, share
from asyncsearch.sequences import exponential, warmup
from asyncsearch.sequences.params import flat, params


def test_a_sequence_is_one_value_and_reads_as_code() -> None:
    lr = warmup(5, exponential(0.1, gamma=0.9))
    configuration = {"lr": lr.to_json(), "model": {"width": 16, "dropout": 0.25}}
    assert params(configuration) == f"lr={lr!r} model.width=16 model.dropout=0.25"
    assert dict(flat(configuration))["lr"] == lr


def test_a_printed_command_can_be_pasted() -> None:
    assert shlex.split(command("show", "/tmp/my studies/it's"))[-2:] == ["show", "/tmp/my studies/it's"]


def test_what_is_less_than_everything_is_never_a_hundred_percent() -> None:
    assert [share(part) for part in (0.5, 0.99, 0.9999, 1.0)] == ["50%", "99%", "over 99%", "100%"]


def test_a_sequence_of_another_version_is_shown_as_it_stands() -> None:
    assert params({"lr": {"sequence": "from the future", "x": 1}}) == "lr={'sequence': 'from the future', 'x': 1}"
