"""What may be reported, and what is said of the rest."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from asyncsearch.runner.metrics import as_metrics, as_number
from asyncsearch.trainable import ReportError


class TorchTensor:
    """Behaves as a 0-dimensional torch tensor does, with or without ``requires_grad``."""

    def __init__(self, value: float | None) -> None:
        self.value = value

    def numpy(self) -> Any:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")

    def item(self) -> float:
        if self.value is None:
            raise RuntimeError("a Tensor with 3 elements cannot be converted to Scalar")
        return self.value


class TensorFlowTensor:
    """Behaves as an eager TensorFlow tensor does: no ``item``."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def numpy(self) -> Any:
        return self.value


class Metric:
    """Has only ``__float__``."""

    def __float__(self) -> float:
        return 0.5


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0.5, 0.5),
        (3, 3.0),
        (True, 1.0),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3.0),
        (np.bool_(True), 1.0),
        (np.array(0.5), 0.5),
        (np.array([0.5]), 0.5),
        (np.ma.array(0.5), 0.5),
        (np.ma.array([0.5], mask=[False]), 0.5),
        (Decimal("0.5"), 0.5),
        (Fraction(1, 2), 0.5),
        (TorchTensor(0.5), 0.5),
        (TensorFlowTensor(np.float32(0.5)), 0.5),
        (TensorFlowTensor(np.array(0.5)), 0.5),
        (Metric(), 0.5),
        (math.inf, math.inf),
        (np.float64(-math.inf), -math.inf),
    ],
)
def test_one_number_of_any_kind_is_a_float(value: Any, number: float) -> None:
    got = as_number("accuracy", value)
    assert got == number
    assert type(got) is float


def test_real_tensors_of_torch_are_numbers() -> None:
    torch = pytest.importorskip("torch")
    weight = torch.tensor([2.0, 4.0], requires_grad=True)
    values = {"loss": weight.mean(), "half": torch.tensor(0.5, dtype=torch.bfloat16), "one": torch.tensor([1])}
    assert as_metrics(values, {"right": torch.tensor(True)}) == {"loss": 3.0, "half": 0.5, "one": 1.0, "right": 1.0}
    with pytest.raises(ReportError, match=r"loss=.* is not a number"):
        as_number("loss", weight)


@pytest.mark.slow
def test_real_tensors_of_tensorflow_are_numbers() -> None:
    tensorflow = pytest.importorskip("tensorflow")
    values = {"loss": tensorflow.constant(0.5), "variable": tensorflow.Variable(2.0), "one": tensorflow.constant([1])}
    assert as_metrics(values, {}) == {"loss": 0.5, "variable": 2.0, "one": 1.0}
    with pytest.raises(ReportError, match=r"loss=.* is not a number"):
        as_number("loss", tensorflow.constant([0.5, 0.6]))


@pytest.mark.parametrize("value", [math.nan, np.float16(math.nan), Decimal("NaN"), TorchTensor(math.nan)])
def test_nan_is_a_number_here(value: Any) -> None:
    assert math.isnan(as_number("accuracy", value))


@pytest.mark.parametrize(
    "value",
    [
        None,
        "0.5",
        b"0.5",
        np.str_("0.5"),
        [0.5],
        (0.5,),
        {"a": 1},
        1 + 2j,
        np.complex64(1),
        np.array([0.5, 0.6]),
        np.array([]),
        np.datetime64("2026-01-01"),
        datetime.timedelta(seconds=1),
        TorchTensor(None),
        TensorFlowTensor(np.array([1.0, 2.0])),
        Decimal("sNaN"),
        10**400,
        object(),
        float,
    ],
)
def test_anything_else_is_an_error_that_names_metric_value_and_rule(value: Any) -> None:
    with pytest.raises(ReportError, match=r"^accuracy=.* is not a number .*; report takes one number for each name"):
        as_number("accuracy", value)


def test_an_error_shows_a_large_value_in_short() -> None:
    with pytest.raises(ReportError) as caught:
        as_number("text", "x" * 100_000)
    assert len(str(caught.value)) < 400


def test_a_mapping_and_names_are_merged() -> None:
    assert as_metrics({"val/accuracy": 0.5, "loss": 1}, {"loss": 2}) == {"val/accuracy": 0.5, "loss": 2.0}


@pytest.mark.parametrize(
    "metrics", [None, {}, 0.5, "accuracy", [("accuracy", 0.5)], {1: 0.5}, {"": 0.5}, {"x\ud800": 0.5}]
)
def test_no_metrics_and_names_that_are_no_text_are_errors(metrics: Any) -> None:
    with pytest.raises(ReportError, match=r"report\(|not valid Unicode"):
        as_metrics(metrics, {})


def test_a_number_without_a_name_is_answered_by_the_line_with_a_name() -> None:
    with pytest.raises(ReportError, match=r"write trial\.report\(loss=0\.5\)"):
        as_metrics(0.5, {})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [
        np.ma.masked,
        np.ma.array([1.0, 2.0], mask=True).mean(),
        np.ma.array(5.0, mask=True),
        np.ma.array([3], mask=[True]),
        np.ma.array([[0.5]], mask=[[True]], dtype=np.float32),
        TensorFlowTensor(np.ma.array(5.0, mask=True)),
    ],
)
def test_a_masked_number_is_none(value: Any) -> None:
    assert math.isnan(as_number("loss", value))


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
def test_a_masked_tensor_of_torch_is_no_number_behind_its_mask() -> None:
    torch = pytest.importorskip("torch")
    masked = pytest.importorskip("torch.masked").masked_tensor
    one, no, yes = torch.tensor(5.0), torch.tensor(False), torch.tensor(True)
    assert math.isnan(as_number("loss", masked(one, no)))
    assert as_number("loss", masked(one, yes)) == 5.0


@pytest.mark.parametrize(
    "value",
    [
        None,
        np.array(None, dtype=object),
        np.datetime64("NaT", "s"),
        np.timedelta64("NaT", "ns"),
        np.timedelta64(5, "ns"),
        np.datetime64(5, "ns"),
        np.complex64(1 + 2j),
        1 + 0j,
        np.ma.array([1.0, 2.0]),
        np.ma.array([1.0, 2.0], mask=True),
        np.array("0.5", dtype=object),
        np.void(b"12"),
        datetime.timedelta(seconds=1),
        Decimal("sNaN"),
    ],
)
def test_what_is_no_number_is_refused_and_never_0(value: Any) -> None:
    with pytest.raises(ReportError, match="is not a number"):
        as_number("loss", value)


def test_nothing_of_pandas_and_no_tensor_without_data_is_a_number() -> None:
    pandas, torch = pytest.importorskip("pandas"), pytest.importorskip("torch")
    for value in (pandas.NA, pandas.NaT, torch.empty((), device="meta")):
        with pytest.raises(ReportError, match="is not a number"):
            as_number("loss", value)


@pytest.mark.parametrize(("value", "advised"), [(np.zeros(3), True), ([0.5, 1], True), (None, False), ("0.5", False)])
def test_only_several_values_are_advised_to_be_reduced(value: Any, advised: bool) -> None:
    with pytest.raises(ReportError) as refused:
        as_number("loss", value)
    assert ("Reduce several values" in str(refused.value)) == advised


def test_an_empty_metric_name_is_called_empty() -> None:
    with pytest.raises(ReportError, match="'' is not a metric name: it is empty"):
        as_metrics({"": 1.0}, {})
