"""Several studies side by side in one process: the short form of a ``Cluster``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from asyncsearch.arguments import positive, seconds_of, workers_of
from asyncsearch.checked_calls import answering
from asyncsearch.driver.interrupts import interruption
from asyncsearch.errors import UsageError
from asyncsearch.study.script_runs import note_run
from asyncsearch.study.several.cluster import Cluster, require_apart, require_no_inline
from asyncsearch.study.study import Study, backend_of, require_end

DISPLAYS = ("auto", "plain", "none")


@answering("run_together", "run_together([study, another], num_trials=64, parallelism=8)")
def run_together(
    studies: Sequence[Study],
    *,
    num_trials: int | Sequence[int | None] | None = None,
    parallelism: int | None = None,
    timeout: float | timedelta | None = None,
    display: str = "auto",
) -> list[Study]:
    """Run several studies side by side until each has ended; one that fails does not stop the others.

    Studies of one ``version`` train once what they have in common, as docs/sharing.md says. For weights, and for
    studies that begin at different times, use a ``Cluster``.

    Args:
        studies: at least one, each with a store of its own.
        num_trials: of each study, as in ``Study.run``: one number, or a list with one for each.
        parallelism: workers of all studies together, shared out evenly, at least one each, and as many as train
            one trial; None means as many as the cluster has slots. A cluster of fewer slots is refused; on this
            machine they share its cores. Workers that a study cannot use, or has no use for any more, go to the others.
        timeout: seconds after which the runs end, with what they have by then.
        display: ``"auto"`` or ``"plain"``: lines, which name their study; or ``"none"``.

    Returns:
        The studies.

    Raises:
        UsageError: they cannot run side by side.
        AsyncSearchError: one of them failed; the others came to their end before this is raised.
        KeyboardInterrupt: it was interrupted; all results are kept, and each study goes on where it stopped.
    """
    _require_runnable(studies, display)
    totals = _totals(num_trials, studies)
    timeout_s = None if timeout is None else seconds_of("timeout", timeout)
    total = parallelism if parallelism is None else workers_of("parallelism", parallelism)
    note_run(studies[0], totals[0], total)
    shown = "none" if display == "none" else "plain"
    with Cluster(total, backend=backend_of(studies[0]), display=shown) as cluster:
        cluster.require_slots(studies)
        submissions = cluster.submit_all(studies, totals, timeout_s)
        cluster.watch(submissions)
    if any(submission.was_interrupted for submission in submissions):
        raise interruption()
    return list(studies)


def _totals(num_trials: object, studies: Sequence[Study]) -> list[int | None]:
    """Return how many trials each study is to have; None means as many as its searcher proposes.

    Raises:
        UsageError: a number is invalid, their count is another one than that of the studies, or a search has no end.
    """
    many = isinstance(num_trials, Sequence) and not isinstance(num_trials, str)
    totals = list(num_trials) if many else [num_trials] * len(studies)  # type: ignore[call-overload]
    if len(totals) != len(studies):
        some = ", ".join(["64"] * len(studies))
        raise UsageError(
            f"num_trials={num_trials!r} has {len(totals)} numbers for {len(studies)} studies: write one for each, "
            f"num_trials=[{some}], or one number for all, num_trials=64."
        )
    found = [None if total is None else positive("num_trials", total) for total in totals]
    for study, total in zip(studies, found, strict=True):
        require_end(study, total)
    return found


def _require_runnable(studies: Sequence[Study], display: str) -> None:
    if isinstance(studies, Study):
        raise UsageError(f"run_together({studies.name!r}) got one study: write run_together([study, another]).")
    if not studies or not all(isinstance(study, Study) for study in studies):
        raise UsageError(f"run_together({studies!r}): name the studies, run_together([study, another]).")
    if display not in DISPLAYS:
        raise UsageError(f"display={display!r} is unknown here. Use one of {', '.join(map(repr, DISPLAYS))}.")
    require_apart(studies)
    for study in studies:
        require_no_inline(study)
