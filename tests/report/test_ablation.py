"""Effects are differences to the base of the same seed, where both have trained, with intervals and corrected tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from statistics import NormalDist
from typing import Any

import pytest

from asyncsearch.errors import NoTrialsError, UsageError
from asyncsearch.ids import NodeKey, TrialId
from asyncsearch.journal.projection import Report
from asyncsearch.report.ablation import AblationTable, Effect, _tested, effects_of
from asyncsearch.trial import Trial, TrialState

Curves = Mapping[tuple[str, int], Sequence[float]]
"""(what is left out, seed) -> the metric after 1, 2, ... units."""


def trial_of(number: int, params: dict[str, Any]) -> Trial:
    return Trial(TrialId(number), params, NodeKey("node"))


def effects(curves: Curves, failed: Sequence[tuple[str, int]] = ()) -> list[Effect]:
    trials, reports = [], []
    for number, ((ablated, seed), values) in enumerate(curves.items()):
        trial = trial_of(number, {"ablated": ablated, "seed": seed})
        if (ablated, seed) in failed:
            trial.state = TrialState.FAILED
        trials.append(trial)
        reports += [Report(trial.id, at, {"loss": value}, 0.0) for at, value in enumerate(values, 1)]
    return effects_of(trials, reports, "loss")


def test_differences_are_of_pairs_of_one_seed_and_tested_as_scipy_does() -> None:
    stats = pytest.importorskip("scipy.stats")
    base, other = [1.0, 5.0, 9.0, 2.0], [1.5, 5.4, 9.7, 2.2]
    curves: dict[tuple[str, int], Sequence[float]] = {}
    for seed in range(4):
        curves["nothing", seed] = [base[seed]]
        curves["layer:fc", seed] = [other[seed]]
    (found,) = effects(curves)
    test = stats.ttest_rel(other, base)
    interval = test.confidence_interval(0.95)
    assert found.ablated == "layer fc"
    assert (found.seeds, found.base, found.value) == (4, 4.25, 4.7)
    assert found.difference == pytest.approx(0.45)
    assert (found.low, found.high, found.p) == pytest.approx((interval.low, interval.high, test.pvalue))


def test_many_comparisons_are_corrected_as_holm_wrote() -> None:
    stats = pytest.importorskip("scipy.stats")
    noise = [0.0, 0.3, -0.2, 0.1, -0.1]
    shifts = {"layer:a": 0.2, "layer:b": 0.21, "layer:c": 0.0, "layer:d": 3.0}
    curves: dict[tuple[str, int], Sequence[float]] = {("nothing", seed): [0.0] for seed in range(5)}
    curves |= {(name, seed): [shift + noise[seed]] for name, shift in shifts.items() for seed in range(5)}
    raw = {name: stats.ttest_1samp([shift + one for one in noise], 0.0).pvalue for name, shift in shifts.items()}
    ordered = sorted(raw, key=raw.__getitem__)
    wanted, most = {}, 0.0
    for place, name in enumerate(ordered):
        most = max(most, min(1.0, raw[name] * (4 - place)))
        wanted[name] = most
    found = {f"layer:{one.ablated.split()[1]}": one.p for one in effects(curves)}
    assert found == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("base", "variant", "p"),
    [
        ([0.85, 0.75], [0.80, 0.70], 0.5),  # the differences are not equal to the last bit
        ([0.5] * 6, [0.75] * 6, 2 / 2**6),
        ([0.85, 0.75], [0.85, 0.75], 1.0),
    ],
)
def test_differences_that_are_equal_for_all_seeds_are_tested_by_their_sign(
    base: list[float], variant: list[float], p: float
) -> None:
    curves = {("nothing", seed): [value] for seed, value in enumerate(base)}
    (found,) = effects(curves | {("layer:fc", seed): [value] for seed, value in enumerate(variant)})
    assert (found.low, found.high, found.p) == (None, None, p)
    assert "sign test" in str(AblationTable("s", "loss", "min", [found]))


@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize("spread", [0.5, 1.0])
def test_where_a_metric_has_few_values_at_most_5_percent_are_called_clear(count: int, spread: float) -> None:
    pytest.importorskip("scipy.stats")
    normal = NormalDist(0, spread)
    weights = {step: normal.cdf(step + 0.5) - normal.cdf(step - 0.5) for step in range(-3, 4)}
    wrong = 0.0
    for steps in combinations_with_replacement(weights, count):
        orders = math.factorial(count) / math.prod(math.factorial(steps.count(step)) for step in set(steps))
        _, _, p = _tested([(0.5, 0.5 + step / 100) for step in steps])
        wrong += orders * math.prod(weights[step] for step in steps) * (p is not None and p < 0.05)
    assert wrong <= 0.05


def test_a_variant_that_was_stopped_early_is_compared_where_it_ended() -> None:
    (found,) = effects({("nothing", 0): [8.0, 4.0, 2.0, 1.0], ("layer:fc", 0): [9.0, 7.0]})
    assert (found.base, found.value, found.units) == (4.0, 7.0, 2)
    assert (found.low, found.high, found.p) == (None, None, None)


def test_the_units_of_an_effect_are_the_fewest_of_its_pairs() -> None:
    pytest.importorskip("scipy.stats")
    curves = {("nothing", seed): [8.0, 4.0, 2.0] for seed in (0, 1)}
    (found,) = effects(curves | {("layer:fc", 0): [9.0, 7.0, 5.0], ("layer:fc", 1): [9.0]})
    assert found.units == 1


def test_failed_trials_and_nonfinite_values_are_counted_and_left_out() -> None:
    curves: Curves = {
        ("nothing", 0): [1.0],
        ("nothing", 1): [1.0],
        ("layer:fc", 0): [math.nan],
        ("layer:fc", 1): [3.0],
        ("layer:gc", 0): [],
        ("layer:hc", 7): [1.0],
    }
    first, second = effects(curves, failed=[("layer:gc", 0)])
    assert (first.seeds, first.difference, first.failed) == (1, 2.0, 1)
    assert (second.seeds, second.failed) == (0, 1)
    assert math.isnan(second.difference)


def test_without_anything_to_compare_it_says_what_is_missing() -> None:
    with pytest.raises(NoTrialsError, match="run the study first"):
        effects({("nothing", 0): [], ("layer:fc", 0): []})
    with pytest.raises(NoTrialsError, match="the base failed"):
        effects({("nothing", 0): [], ("layer:fc", 0): [1.0]}, failed=[("nothing", 0)])
    with pytest.raises(UsageError, match=r"searcher=Ablation\("):
        effects_of([trial_of(0, {"lr": 0.1})], [], "loss")


def row(name: str, difference: float, **more: Any) -> Effect:
    defaults: dict[str, Any] = {"seeds": 5, "base": 0.9, "value": 0.9 + difference, "low": difference - 0.1}
    return Effect(name, difference=difference, **{**defaults, "high": difference + 0.1, "p": 0.01, "units": 3, **more})


RISING = ["falls", "stays", "rises"]


@pytest.mark.parametrize(("mode", "order"), [("max", RISING), ("min", RISING[::-1])])
def test_the_table_begins_with_what_harms_most_and_ends_with_what_failed(mode: str, order: list[str]) -> None:
    rows = [
        row("stays", 0.0, p=0.6),
        row("lost", math.nan, seeds=0, failed=5, p=None),
        row("rises", 0.3),
        row("falls", -0.3),
    ]
    table = AblationTable("digits", "accuracy", mode, rows)
    assert [one.ablated for one in table] == [*order, "lost"]
    text = str(table)
    assert "2 clear at 5%" in text
    assert "5 failed" in text
    assert "-0.3" in text
    assert "-0.4 to -0.2" in text


def test_the_base_of_the_heading_is_that_of_all_units_and_seeds() -> None:
    rows = [
        row("stopped early", -0.5, base=0.3, units=1),
        row("failed once", -0.4, base=0.5, seeds=4),
        row("whole", 0.1, base=0.8),
    ]
    assert "accuracy with everything 0.8 (" in str(AblationTable("digits", "accuracy", "max", rows))
    assert "accuracy with everything 0.5 (" in str(AblationTable("digits", "accuracy", "max", rows[:2]))


def test_comparisons_are_counted_and_failures_and_single_seeds_are_named() -> None:
    rows = [row("whole", -0.3), row("lost", math.nan, seeds=0, failed=5, p=None)]
    single = row("failed often", -0.2, seeds=1, failed=4, p=None, low=None, high=None)
    text = str(AblationTable("digits", "accuracy", "max", [*rows, single]))
    assert "corrected for 1 comparison (Holm); 1 clear" in text
    assert "without p: one seed shows no uncertainty" in text
    assert "9 trials failed or had no finite value and are left out of the means: study.trials_dataframe() says" in text
    assert "write Ablation(..., seeds=5)" in str(AblationTable("digits", "accuracy", "max", [single]))


def test_a_variant_that_equals_the_base_is_named_as_code_may_ignore_it() -> None:
    same = row("typo", 0.0, p=1.0, low=None, high=None)
    assert "no difference at all without typo; should there be one" in str(AblationTable("s", "a", "max", [same]))
    chance = row("chance", 0.0, p=1.0)
    assert "no difference at all" not in str(AblationTable("s", "a", "max", [chance]))


def test_names_are_shown_as_text_in_notebooks() -> None:
    html = AblationTable("<b>", "a", "max", [row("<script>x</script>", 0.1)])._repr_html_()
    assert "<script>" not in html
    assert "<b>" not in html


def test_the_picture_has_every_variant_and_nothing_outside() -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    from tests.pictures import ink_outside, texts

    rows = [row(f"layer {'very.' * 8}long{number}", number / 10) for number in range(12)]
    plot = AblationTable("digits", "accuracy", "max", [*rows, row("lost", math.nan, seeds=0)]).plot()
    assert ink_outside(plot.svg) == []
    found = "".join(texts(plot.svg))
    assert all(f"long{number}" in found for number in range(12))
    assert "lost" not in found
