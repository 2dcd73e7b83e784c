"""How a study stands, and the text and the page that say it."""

from __future__ import annotations

from collections.abc import Sequence
from html.parser import HTMLParser

import msgspec
import pytest

from asyncsearch.actions import AnyAction
from asyncsearch.engine.handling import handle
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, RunRequested
from asyncsearch.ids import NodeKey, TrialId
from asyncsearch.report.formatting import duration
from asyncsearch.report.live.lines import WIDTH, short_line
from asyncsearch.report.live.status import StudyStatus, TrialRow
from asyncsearch.report.live.status_of import row_of, status_of
from asyncsearch.report.live.table import cells, html, table
from asyncsearch.schedulers import ASHA, FIFO
from asyncsearch.simulate import Curves, Delays, Simulation
from asyncsearch.sizing.gangs import Gang
from asyncsearch.testing.recording import Histories
from asyncsearch.trial import Trial, TrialState
from tests.engine.tools import Recorded, make_state
from tests.report.tools import FAILING, SPACE, full_counts, make_status, simulated


def test_status_names_the_best_trial_as_the_engine_does() -> None:
    state = simulated().state
    status, best = status_of(state), state.best()
    assert best is not None
    assert status.best is not None
    assert (status.best.name, status.best.value) == (best.name, best.value)


def test_status_counts_every_trial_once() -> None:
    state = simulated().state
    status = status_of(state)
    assert status.trials == len(state.trials) == 20
    assert status.counts[TrialState.FAILED] == 1
    assert status.trained == sum(trial.trained for trial in state.trials)
    assert status.full == 9 * 20


class Following(Recorded):
    """Notes the status after every record."""

    def __init__(self, state: StudyState) -> None:
        super().__init__(state)
        self.followed: list[tuple[StudyStatus, int, int]] = []

    def __call__(self, now: float, event: AnyEvent, actions: Sequence[AnyAction]) -> None:
        super().__call__(now, event, actions)
        training = [attempt for attempt in self.state.attempts.values() if attempt.is_training]
        self.followed.append((status_of(self.state), len(training), len(self.state.open_attempts)))


def test_a_trial_whose_checkpoint_is_being_stored_runs_and_counts_once() -> None:
    state = make_state(ASHA(max_resource=9), space=SPACE)
    following = Following(state)
    Simulation(state, workload=Histories(), workers=2, delays=Delays(commit_s=3.0), watch=following).run(20)
    most = 0
    for status, training, running in following.followed:
        assert status.counts.get(TrialState.RUNNING, 0) == running
        assert len({row.name for row in status.rows}) == len(status.rows)
        assert training <= 2
        assert status.saving == running - training
        assert (f"{running} running ({status.saving} being saved)" in table(status)) == (running > 2)
        most = max(most, running)
    assert following.followed[-1][0].trials == len(state.trials) == 20
    assert most > 2, "no checkpoint was being stored while both workers trained"


def test_rows_stay_few_however_many_trials_there_are() -> None:
    few, many = status_of(simulated(20).state), status_of(simulated(300).state)
    assert len(few.rows) <= len(many.rows) <= 12
    assert len({row.name for row in many.rows}) == len(many.rows)


def test_best_rows_are_ordered_by_the_metric() -> None:
    rows = [row for row in status_of(simulated(60).state).rows if row.state is not TrialState.FAILED]
    values = [row.value for row in rows if row.value is not None]
    assert values == sorted(values)


def test_failure_shows_its_last_line() -> None:
    status = status_of(simulated().state)
    assert status.failures == 1
    assert status.last_failure == f"trial-{FAILING}: it raised as the script says"
    assert status.last_failure in table(status)


def test_status_of_a_run_in_progress_says_how_many_workers_it_wants() -> None:
    state = simulated().state
    handle(state, RunRequested(num_trials=40, parallelism=6), now=1e6)
    status = status_of(state, elapsed_s=72.0, place="Spark local[6]")
    assert (status.workers_alive, status.workers_wanted, status.num_trials) == (0, 6, 40)
    assert "20 of 40 configurations" in table(status)
    assert "0 of 6 workers (Spark local[6]) after 0:01:12" in table(status)


@pytest.mark.parametrize(
    ("trained", "full", "saved"), [(25, 100, 0.75), (100, 100, None), (120, 100, None), (5, None, None), (0, 0, None)]
)
def test_saved_training_is_said_only_where_there_is_some(trained: int, full: int | None, saved: float | None) -> None:
    status = make_status(trained=trained, full=full)
    assert status.saved == saved
    assert ("less than" in table(status)) == (saved is not None)


def test_table_keeps_to_its_width_and_to_plain_characters() -> None:
    long = TrialRow("trial-1", TrialState.RUNNING, 1, 9, 0.5, {f"name_{i}": 1 / 3 for i in range(50)}, "")
    bad = TrialRow("trial-2", TrialState.FAILED, 1, 9, None, {}, "\x1b[31mRed\r\nand\tmore " + "x" * 500)
    status = make_status(
        name="s" * 300,
        counts=full_counts(running=1, failed=1),
        rows=(long, bad),
        best=long,
        failures=1,
        last_failure="trial-2: " + "word " * 100,
        store="/tmp/studies/digits",
    )
    lines = table(status).split("\n")
    assert max(map(len, lines)) <= WIDTH
    assert all(line.isprintable() for line in lines)


def test_table_does_not_break_the_path_of_the_store() -> None:
    store = "/a/very/long/path" * 10
    assert f"in {store}" in " ".join(table(make_status(store=store)).split())


def test_table_of_a_study_without_trials_is_whole() -> None:
    assert table(make_status()) == "digits\n  0 configurations\n  no accuracy yet\n  0 units of training"


def test_one_line_says_time_trials_and_best() -> None:
    best = TrialRow("trial-3", TrialState.COMPLETED, 9, 9, 0.98765, {}, "")
    counts = full_counts(completed=2, running=1)
    status = make_status(counts=counts, best=best, elapsed_s=3661.0, workers_wanted=2, workers_alive=2)
    said = "3 configurations: 1 running, 2 trained to the end | best accuracy 0.98765 after 9 units: trial-3"
    assert short_line(status) == f"1:01:01 | {said}"
    missing = msgspec.structs.replace(status, workers_alive=1)
    assert short_line(missing) == f"1:01:01 | 1 of 2 workers | {said}", "as long as one is missing"
    released = msgspec.structs.replace(missing, workers_released=1)
    assert "1 of 2 workers, 1 gave its slot back until there is work" in short_line(released)
    assert "after 1:01:01, 1 gave its slot back until there is work" in table(released)


def test_a_finished_search_tells_its_configurations_outcome_and_its_time() -> None:
    counts = full_counts(paused=57, stopped=3, completed=4)
    status = make_status(counts=counts, elapsed_s=72.0, workers_had=2, place="Spark local[2]")
    first, second = table(status).splitlines()[:2]
    assert first == "digits: finished in 0:01:12 on 2 workers (Spark local[2])"
    assert second == "  64 configurations tried: 60 stopped early, 4 trained to the end"


def test_a_search_that_is_over_looks_finished() -> None:
    counts = full_counts(paused=11, completed=1)
    running = html(make_status(counts=counts, workers_wanted=1))
    over = html(make_status(counts=counts))
    assert "11 paused" in running
    assert "11 stopped early" in over
    assert "#8fb6d9" not in over, "the colour of trials that may go on"


def test_the_time_that_a_run_prints_at_its_end_is_the_one_shown_later() -> None:
    state = simulated().state
    at_its_end, later = status_of(state, elapsed_s=1e6), status_of(state)
    assert at_its_end.elapsed_s == later.total_s == state.times.last_s
    assert duration(state.times.last_s or 0.0) in table(at_its_end)
    assert f", after {duration(later.total_s or 0.0)}" in table(later)


def test_an_interrupted_search_tells_progress_content_and_how_to_resume() -> None:
    counts = full_counts(waiting=2, paused=17, completed=4)
    status = make_status(counts=counts, is_unfinished=True, num_trials=60, elapsed_s=12.0, store="/tmp/my studies/d")
    text = " ".join(table(status).split())
    assert text.startswith("digits: not finished, ended after 0:00:12 23 of 60 configurations begun: 2 to be continued")
    assert "all reports and checkpoints are kept" in text
    assert "asyncsearch resume '/tmp/my studies/d'" in text, "a command that can be pasted"


def test_nothing_is_said_to_be_saved_before_it_is_decided() -> None:
    counts = full_counts(running=1, paused=3)
    for options in ({"workers_wanted": 1}, {"is_unfinished": True}):
        assert "less than" not in table(make_status(counts=counts, trained=3, full=1_000, **options))
    assert "over 99% less than training all to the end (1,000)" in table(
        make_status(counts=full_counts(stopped=4), trained=3, full=1_000)
    )


class Tags(HTMLParser):
    """Reads a page back: what is open, what was seen, what is text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.seen: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.stack.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_page_closes_what_it_opens_and_asks_for_nothing_from_elsewhere() -> None:
    page = html(status_of(simulated().state, elapsed_s=1.0, store="/tmp/s"))
    tags = Tags(page)
    assert tags.stack == []
    assert tags.seen <= {"div", "span", "table", "thead", "tbody", "tr", "th", "td"}
    assert "http" not in page


def test_page_shows_names_errors_and_parameters_as_text() -> None:
    nasty = "<script>alert('x')</script>&\"'"
    row = TrialRow("trial-1", TrialState.RUNNING, 1, 9, 0.5, {nasty: nasty}, nasty)
    failed = TrialRow("trial-2", TrialState.FAILED, 1, 9, None, {}, nasty)
    page = html(
        make_status(
            name=nasty,
            metric=nasty,
            counts=full_counts(running=1, failed=1),
            rows=(row, failed),
            best=row,
            store=nasty,
            scheduler=nasty,
            failures=1,
            last_failure=nasty,
            stopping=nasty,
        )
    )
    tags = Tags(page)
    assert "script" not in tags.seen
    assert tags.text.count(nasty) >= 9


def test_page_colours_nothing_black_or_white() -> None:
    page = html(status_of(simulated().state))
    assert not {"black", "white", "#000", "#fff"} & set(page.replace(";", " ").replace(":", " ").split())


def test_a_search_whose_reports_were_all_nan_says_so() -> None:
    trial = Trial(TrialId(0), {"x": 1}, NodeKey("node"), value_resource=3)
    state = make_state(FIFO(max_resource=3), space=SPACE)
    state.trials.append(trial)
    assert status_of(state).nonfinite == 1
    assert "no finite accuracy yet: 2 trials reported NaN or infinity" in table(make_status(best=None, nonfinite=2))
    assert cells(row_of(trial), lambda state: state.value)[3] == "not finite"
    silent = Trial(TrialId(1), {"x": 1}, NodeKey("node"))
    assert cells(row_of(silent), lambda state: state.value)[3] == "-"


def test_a_run_that_its_timeout_ended_says_so() -> None:
    counts = {TrialState.PAUSED: 3}
    status = make_status(counts=counts, is_unfinished=True, elapsed_s=60.0, ended_by="its timeout of 60 s has passed")
    assert "not finished, ended after 0:01:00, as its timeout of 60 s has passed" in " ".join(table(status).split())


@pytest.mark.parametrize(
    ("failed", "failures", "failing", "words"),
    [
        (3, 3, 3, "last failure: trial-2: KeyError"),
        (3, 4, 4, "4 attempts of 4 trials failed, the last one trial-2: KeyError"),
        (1, 3, 1, "3 attempts of 1 trial failed, the last one trial-2: KeyError"),
        (0, 1, 1, "1 attempt of 1 trial failed, the last one trial-2: KeyError"),
    ],
)
def test_attempts_are_counted_only_where_they_are_not_failed_trials(
    failed: int, failures: int, failing: int, words: str
) -> None:
    counts = {TrialState.FAILED: failed} if failed else {TrialState.WAITING: 1}
    last = "trial-2: KeyError"
    status = make_status(counts=counts, failures=failures, failing=failing, last_failure=last)
    assert f"  {words}" in table(status)
    assert words in short_line(status)


def test_a_failed_attempt_made_up_for_is_counted_without_its_reason() -> None:
    status = make_status(counts={TrialState.COMPLETED: 2}, failures=1, failing=1, last_failure="")
    assert "  1 attempt of 1 trial failed" in table(status).splitlines()


def test_where_nothing_was_trained_nothing_is_said_to_be_kept() -> None:
    failed = table(make_status(is_unfinished=True, trained=0, failures=3))
    assert "once the code is corrected, run the script again" in failed
    assert "are kept" not in failed
    assert "are kept" in table(make_status(is_unfinished=True, trained=5, failures=3))


def test_the_table_says_which_workers_train_one_trial() -> None:
    state = make_state(FIFO(max_resource=9))
    state.gang = Gang(2)
    Simulation(state, Curves(seed=1), workers=5).run(9, until=3.0)
    status = status_of(state)
    assert status.gangs == ("trial-0 on worker-0, worker-1", "trial-1 on worker-2, worker-3")
    assert "together: trial-0 on worker-0, worker-1; trial-1 on worker-2, worker-3" in table(status)
