"""What schedulers say to people: reasons, standings, warnings. One place, so that all of them say it alike."""

from __future__ import annotations

from collections.abc import Sequence

from asyncsearch.schedulers.base_scheduler import RungForecast


def short(description: str) -> str:
    """Return a description without what follows the call, to stand in a sentence: "ASHA(max_resource=81)"."""
    return description.partition(": ")[0]


def go_on(quota: int) -> str:
    """Return "4 go on"."""
    return f"{quota} goes on" if quota == 1 else f"{quota} go on"


def place(rank: int, size: int, level: int) -> str:
    """Return "rank 2 of 12 at resource 3"."""
    return f"rank {rank} of {size} at resource {level}"


def promoted(rank: int, size: int, quota: int, level: int, above: int) -> str:
    """Return why a trial trains on."""
    return f"{place(rank, size, level)}, {go_on(quota)} to {above}"


def closing(level: int, above: int, max_resource: int) -> str:
    """Return why a trial trains on although its rung does not promote it."""
    return f"best at resource {level}, goes on to {above} since no other trial will reach {max_resource} (finish_best)"


def stopped(rank: int, size: int, quota: int, level: int, resource: int) -> str:
    """Return why a trial is stopped."""
    where = f" at the rung of {level}" if resource != level else ""
    return f"stopped at resource {resource}: rank {rank} of {size}{where}, {go_on(quota)}"


def stopped_without_value(size: int, level: int, resource: int) -> str:
    """Return why a trial without a finite value at a rung is stopped, and what to do if it is all of them."""
    if resource == level:
        return f"stopped at resource {resource}: its value there is not finite, which counts as the worst of {size}"
    return (
        f"stopped at resource {resource}: no finite value was reported at or before the rung of {level}, which counts "
        f"as the worst of {size} (report at every rung, or use min_resource={resource} or more)"
    )


def on_its_way(level: int) -> str:
    """Return that a trial trains, or waits for a worker."""
    return f"on its way to resource {level}"


def worst(size: int, level: int) -> str:
    """Return where a trial without a finite score stands."""
    return f"counts as the worst of {size} at resource {level}: it failed or had no finite value, so it does not go on"


def rungs(levels: Sequence[int]) -> str:
    """Return the rungs for a description."""
    return ("rungs at " if len(levels) > 1 else "one rung at ") + ", ".join(str(level) for level in levels)


def endless_rungs(levels: Sequence[int]) -> str:
    """Return rungs that have no end for a description; ``levels`` are the first of them."""
    return f"rungs at {', '.join(str(level) for level in levels)}, ... without end"


def none_promoted(num_trials: int | None, reduction_factor: int) -> list[str]:
    """Warn if an endless search is so small that no trial is ever promoted."""
    if num_trials is None or num_trials >= reduction_factor:
        return []
    trials = "1 trial is" if num_trials == 1 else f"{num_trials} trials are"
    note = f"No trial will go on from the first rung: each rung passes one of {reduction_factor}, and {trials} fewer."
    return [f"{note} Use num_trials >= {reduction_factor}."]


def one_rung(levels: Sequence[int], min_resource: int, reduction_factor: int) -> list[str]:
    """Warn if nothing can ever be stopped early."""
    if len(levels) > 1:
        return []
    top = levels[-1]
    ways = [f"max_resource >= {min_resource * reduction_factor}"]
    if top // reduction_factor >= 1:
        ways.append(f"min_resource <= {top // reduction_factor}")
    if top // min_resource >= 2:
        ways.append(f"reduction_factor <= {top // min_resource}")
    return [
        (
            f"There is one rung only, at max_resource={top}, so that no trial is stopped early: "
            f"min_resource={min_resource} times reduction_factor={reduction_factor} lies beyond it. "
            f"Use {' or '.join(ways)}."
        )
    ]


def too_few(
    num_trials: int, what: str, levels: Sequence[int], min_resource: int, reduction_factor: int, remedies: Sequence[str]
) -> list[str]:
    """Warn if ``num_trials`` trials, each rung passing one of η, leave none for the last rung.

    Args:
        num_trials: How many compete with each other.
        what: What they are, e.g. "20 trials are".
        levels: The rungs.
        min_resource: As the user gave it.
        reduction_factor: η.
        remedies: What else would help, e.g. "finish_best=True".
    """
    steps = len(levels) - 1
    if num_trials >= reduction_factor**steps:
        return []
    need = f"{reduction_factor}^{steps} = {reduction_factor**steps}"
    ways = [*remedies, f"max_resource <= {_reachable(num_trials, min_resource, reduction_factor)}"]
    return [
        (
            f"No trial is expected to reach max_resource={levels[-1]}: {what} fewer than {need}, and each rung "
            f"passes one of {reduction_factor}. Use {' or '.join(ways)}."
        )
    ]


def _reachable(num_trials: int, min_resource: int, reduction_factor: int) -> int:
    """Return the highest ``max_resource`` whose last rung ``num_trials`` trials can fill."""
    rungs_above = min_resource * reduction_factor
    while num_trials >= reduction_factor:
        num_trials //= reduction_factor
        rungs_above *= reduction_factor
    return rungs_above - 1


def ideal(
    levels: Sequence[int], groups: Sequence[tuple[int, int]], reduction_factor: int, least: int = 0
) -> list[RungForecast]:
    """Return how many trials train over which interval if each rung passes exactly ⌊n/η⌋.

    Args:
        levels: The rungs.
        groups: (how many groups of this size, size); trials of a group compete with each other.
        reduction_factor: η.
        least: How many of each group, which has as many, go on from every rung all the same.
    """
    forecasts = []
    start = 0
    for index, level in enumerate(levels):
        trials = sum(count * max(size // reduction_factor**index, least) for count, size in groups)
        forecasts.append(RungForecast(start, level, trials))
        start = level
    return forecasts


def judged_at(points: Sequence[int]) -> str:
    """Return where trials are compared for a description; ``points`` are the first of them."""
    return f"trials are judged at {', '.join(str(point) for point in points)}, ..."


def worse_than_median(resource: int, point: int, others: int) -> str:
    """Return why a trial is stopped by the median rule."""
    where = "there" if point == resource else f"at {point}"
    return (
        f"stopped at resource {resource}: its best value is worse than the median of the averages of {others} other "
        f"trials {where}"
    )


def worst_of_all(resource: int, point: int, others: int) -> str:
    """Return why a trial without a finite value is stopped by the median rule."""
    where = "there" if point == resource else f"at or before {point}"
    return (
        f"stopped at resource {resource}: its last value {where} is missing or not finite, which counts as worse than "
        f"the median of {others} other trials"
    )


def compared(point: int, others: int) -> str:
    """Return where a trial was compared with others last."""
    return f"last compared with others at resource {point}, where {others} had been before"


def not_compared(point: int) -> str:
    """Return that a trial was not compared with others yet."""
    return f"not compared with others before resource {point}"


def never_judged(max_resource: int) -> str:
    """Warn that the grace lasts to the end."""
    return (
        f"No trial is ever judged: min_resource is max_resource={max_resource}, where trials are complete. "
        f"Use a lower min_resource."
    )


def too_few_to_compare(num_trials: int, min_trials: int) -> str:
    """Warn that there are never enough others to compare with."""
    trials = "is 1 trial" if num_trials == 1 else f"are {num_trials} trials"
    return (
        f"No trial is ever stopped: a trial is compared with {min_trials} others or more, and there {trials}. "
        f"Use num_trials > {min_trials} or a smaller min_trials."
    )


def brackets(levels: Sequence[Sequence[int]]) -> str:
    """Return brackets for a description, by where each begins."""
    starts = ", ".join(str(rungs[0]) for rungs in levels)
    return f"{'brackets' if len(levels) > 1 else 'one bracket'} from {starts} to {levels[0][-1]}"


def nobody_stops(max_resource: int) -> str:
    """Warn if all brackets have one rung by the user's wish."""
    return (
        f"The only bracket has one rung, at max_resource={max_resource}, so that no trial is stopped early. "
        "Use brackets with more rungs, or FIFO."
    )


def small_brackets(
    small: Sequence[tuple[int, int]], reduction_factor: int, max_resource: int, enough: str
) -> list[str]:
    """Warn of brackets with too few trials for one of them to come to the last rung.

    Args:
        small: (rungs, trials) of each such bracket.
        reduction_factor: η.
        max_resource: Where the last rung is.
        enough: Which number of trials helps, e.g. "num_trials >= 90".
    """
    if not small:
        return []
    parts = [
        f"1 rung takes 1 and gets {trials}"
        if rungs == 1
        else f"{rungs} rungs take {reduction_factor ** (rungs - 1)} and get {trials}"
        for rungs, trials in small
    ]
    what = "1 bracket has" if len(small) == 1 else f"{len(small)} brackets have"
    note = f"{what} too few trials to bring one to max_resource={max_resource}: {', '.join(parts)}."
    return [f"{note} Use {enough}, or other brackets."]
