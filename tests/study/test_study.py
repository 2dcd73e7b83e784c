"""What a study refuses before anything starts, and what it shows afterwards."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import (
    ASHA,
    FIFO,
    PBT,
    SHA,
    Checkpoints,
    GridSearch,
    Hyperband,
    Study,
    Trainer,
    WorkerOptions,
    choice,
    uniform,
)
from asyncsearch.driver.loop import Driver
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import (
    CannotPauseError,
    JournalDamagedError,
    MetricNotReportedError,
    NotPicklableError,
    NoTrialsError,
    ResourceError,
    SpaceError,
    StoreError,
    StudyExistsError,
    StudyNotFoundError,
    TrialsFailedError,
    UsageError,
)
from asyncsearch.journal.opening import Replayed, StudyFile
from asyncsearch.journal.reading import read_state
from asyncsearch.launch import chosen, own_modules, value_pickler
from asyncsearch.schedulers import Scheduler
from asyncsearch.sequences import multistep
from asyncsearch.store import LocalStore, Store
from asyncsearch.trial import TrialState
from tests.system.test_several import wait_until

SPACE = {"x": uniform(0.0, 1.0)}


def train(trial: Any) -> None:
    for _ in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
        trial.report(loss=trial.params["x"])


def chatty(trial: Any) -> None:
    for _ in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
        sys.stdout.write(f"lr {trial.params['lr']}\n")
        trial.report(loss=1.0)


def study(store: Path, trainable: Any = train, **options: Any) -> Study:
    settings: dict[str, Any] = {"space": SPACE, "metric": "loss", "mode": "min", "backend": "inline"}
    return Study(trainable, store=store, **(settings | options))


def run(made: Study, num_trials: int | None = 2, **options: Any) -> Study:
    return made.run(num_trials, parallelism=1, display="none", **options)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"space": {}}, SpaceError, "empty"),
        ({"space": {"x": (0, 1)}}, SpaceError, r"x.*randint"),
        ({"space": 5}, SpaceError, "5"),
        ({"mode": "maximum"}, UsageError, r"maximum.*mode='max'"),
        ({"metric": ""}, UsageError, "metric"),
        ({"metric": "lo\ud800ss"}, UsageError, r"metric='lo\\ud800ss' is not valid Unicode"),
        ({"name": "\ud800"}, UsageError, r"name='\\ud800' is not valid Unicode"),
        ({"version": "\ud800"}, UsageError, r"version='\\ud800' is not valid Unicode"),
        ({"space": {"\ud800": choice(1, 2)}}, SpaceError, r"name '\\ud800' is not valid Unicode"),
        ({"seed": -1}, UsageError, "seed=-1"),
        ({"max_failures": -1}, UsageError, "max_failures=-1"),
        ({"share": "no"}, UsageError, "share='no' is neither True nor False: write share=True or share=False"),
        ({"resume": "studies/s"}, UsageError, "resume='studies/s' is neither True nor False"),
        ({"scheduler": ASHA}, UsageError, r"scheduler=ASHA\(max_resource=81\)"),
        ({"searcher": "best"}, UsageError, "searcher='best'.*'random', 'grid'"),
        ({"workers": WorkerOptions}, UsageError, r"is not a WorkerOptions: write WorkerOptions\(\.\.\.\)"),
        ({"lease_timeout": 3}, UsageError, r"write workers=WorkerOptions\(lease_timeout=3\)"),
        ({"lease_time": 3}, UsageError, r"Study\(\) got an unexpected keyword argument 'lease_time'.*lease_timeout"),
        ({"save_every": 0}, UsageError, "save_every=0"),
        ({"searcher": GridSearch()}, SpaceError, "x"),
        ({"backend": "sparc"}, UsageError, r"sparc.*spark"),
    ],
)
def test_what_cannot_be_is_refused_with_value_and_next_step(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        run(study(tmp_path / "s", **options))
    assert not (tmp_path / "s").exists(), "nothing was written"


def test_resources_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ResourceError, match="min_resource"):
        ASHA(max_resource=3, min_resource=9)


@pytest.mark.parametrize(
    ("argument", "value"), [("num_trials", 0), ("num_trials", 2.5), ("parallelism", 0), ("timeout", -1)]
)
def test_run_refuses_what_does_not_count(tmp_path: Path, argument: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{argument}={value}"):
        study(tmp_path / "s").run(**({"num_trials": 1} | {argument: value}))


def test_an_endless_search_without_a_number_of_trials_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="num_trials=64"):
        run(study(tmp_path / "s"), None)


def test_a_trainable_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Trainer"):
        study(tmp_path / "s", "train")


def test_an_unpicklable_trainable_is_refused_naming_what_does_not_pickle(tmp_path: Path) -> None:
    guard = threading.Lock()

    def locked(trial: Any) -> None:
        with guard:
            trial.report(loss=1.0)

    with pytest.raises(NotPicklableError, match="guard"):
        run(study(tmp_path / "s", locked))


class Unpausable(Trainer):
    def train(self) -> None:
        pass

    def evaluate(self) -> dict[str, float]:
        return {"loss": 1.0}


def never_saves(trial: Any) -> None:
    trial.report(loss=trial.params["x"])


@pytest.mark.parametrize("trainable", [Unpausable, never_saves])
def test_a_pausing_scheduler_refuses_unpausable_code_before_the_search(tmp_path: Path, trainable: Any) -> None:
    with pytest.raises(CannotPauseError, match=r"save.*variant='stopping'"):
        study(tmp_path / "s", trainable, scheduler=ASHA(max_resource=9))


def hides_its_loop(trial: Any) -> None:
    def inner(context: Any) -> None:
        for _ in context.epochs():
            context.report(loss=1.0)

    inner(trial)


def test_hidden_unpausable_code_ends_the_search_at_its_first_trial(tmp_path: Path) -> None:
    made = study(tmp_path / "s", hides_its_loop, scheduler=ASHA(max_resource=9))
    with pytest.raises(CannotPauseError, match="save"):
        run(made, 9)
    assert len(made.trials) == 1


def reports_another_name(trial: Any) -> None:
    trial.report(accuracy=1.0, error=0.0)


def test_a_metric_never_reported_ends_the_search_and_names_those_that_were(tmp_path: Path) -> None:
    with pytest.raises(MetricNotReportedError, match=r"'loss'.*'accuracy', 'error'"):
        run(study(tmp_path / "s", reports_another_name))


def test_a_store_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        run(study(tmp_path / "file" / "s"))


def test_an_existing_study_is_refused_and_offers_resume(tmp_path: Path) -> None:
    run(study(tmp_path / "s", scheduler=FIFO(max_resource=1)))
    with pytest.raises(StudyExistsError, match=r"Study\.resume.*resume=True"):
        run(study(tmp_path / "s", scheduler=FIFO(max_resource=1)))


def test_resuming_as_another_study_is_refused_and_names_each_difference(tmp_path: Path) -> None:
    run(study(tmp_path / "s", scheduler=FIFO(max_resource=1)))
    with pytest.raises(UsageError, match=r"mode: 'min' in the store, 'max' now"):
        run(study(tmp_path / "s", scheduler=FIFO(max_resource=1), mode="max", resume=True))


def test_a_folder_without_a_study_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(StudyNotFoundError, match=r"study\.json"):
        Study.open(tmp_path)


def test_a_bundle_that_was_changed_is_not_unpickled(tmp_path: Path) -> None:
    run(study(tmp_path / "s", scheduler=FIFO(max_resource=1)))
    with (tmp_path / "s" / "bundle.bin").open("ab") as file:
        file.write(b"x")
    with pytest.raises(StoreError, match=r"bundle\.bin"):
        Study.resume(tmp_path / "s")


def test_a_study_opened_for_looking_cannot_run(tmp_path: Path) -> None:
    run(study(tmp_path / "s", scheduler=FIFO(max_resource=1)))
    with pytest.raises(UsageError, match=r"Study\.resume"):
        Study.open(tmp_path / "s").run(5)


def test_a_journal_cut_off_in_a_record_is_recovered_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(study(tmp_path / "s", scheduler=FIFO(max_resource=1)))
    for snapshot in (tmp_path / "s" / "snapshots").iterdir():
        snapshot.unlink()
    segment = next((tmp_path / "s" / "journal").iterdir())
    segment.write_bytes(segment.read_bytes()[:-20])
    with pytest.raises(JournalDamagedError, match="remove head"):
        run(Study.resume(tmp_path / "s"))
    (tmp_path / "s" / "head.json").unlink()
    Study.resume(tmp_path / "s").run(2, display="plain")
    assert "cut off by a crash" in capsys.readouterr().out


def test_a_journal_damaged_elsewhere_is_refused_with_the_place(tmp_path: Path) -> None:
    run(study(tmp_path / "s", scheduler=FIFO(max_resource=1)))
    segment = next((tmp_path / "s" / "journal").iterdir())
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join([*lines[:2], b"?" + lines[2][1:], *lines[3:]]))
    with pytest.raises(JournalDamagedError, match=r"000001\.jsonl.*line 3"):
        run(Study.resume(tmp_path / "s"))


def raises(trial: Any) -> None:
    raise ValueError("no such layer")


def reports_what_cannot_be_written(trial: Any) -> None:
    trial.report({"loss": 1.0, "x\ud800": 2.0})


@pytest.mark.parametrize("backend", ["inline", "processes"])
def test_a_metrics_unwritable_name_fails_its_trial_and_not_the_search(tmp_path: Path, backend: str) -> None:
    made = study(tmp_path / "s", reports_what_cannot_be_written, backend=backend)
    with pytest.raises(TrialsFailedError, match="all 2 trials failed"):
        run(made)
    assert [trial.state for trial in made.trials] == [TrialState.FAILED] * 2
    assert "'x\\ud800' is not valid Unicode" in made.trials[0].reason


def test_the_best_of_nothing_says_what_went_wrong(tmp_path: Path) -> None:
    made = study(tmp_path / "s", raises)
    with pytest.raises(TrialsFailedError, match="no such layer"):
        run(made)
    assert [trial.state for trial in made.trials] == [TrialState.FAILED] * 2
    with pytest.raises(NoTrialsError, match="no such layer"):
        _ = made.best_trial
    assert "no such layer" in made.explain(0)


def test_a_timeout_ends_the_run_with_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reported = tmp_path / "reported"
    stop_after = Driver.stop_after

    def forever(trial: Any) -> None:
        while True:
            trial.report(loss=trial.params["x"])
            reported.touch()

    def faster_but_not_before_a_report(driver: Driver, seconds: float, reason: str) -> None:
        def begin() -> None:
            wait_until(reported.exists)
            stop_after(driver, seconds / 1000, reason)

        threading.Thread(target=begin, daemon=True).start()

    monkeypatch.setattr(Driver, "stop_after", faster_but_not_before_a_report)
    made = run(study(tmp_path / "s", forever), timeout=600.0)
    assert made.trials[0].state is TrialState.WAITING
    assert "timeout of 600 s" in made.trials[0].reason


def test_a_shared_log_names_who_shares_it_and_their_logs_name_it(tmp_path: Path) -> None:
    space = {"lr": choice(multistep(0.1, [2]), multistep(0.1, [3]))}
    options: dict[str, Any] = {"searcher": GridSearch(), "scheduler": FIFO(max_resource=4)}
    made = study(tmp_path / "s", chatty, space=space, backend="processes", **options)  # inline, nobody has its lines
    run(made, 2)
    assert "... units 0 to 2 are trained for trial-1 too ..." in list(made.logs(0))
    first, second, *rest = made.logs(1)
    assert first == "... units 0 to 2 were trained with trial-0: see its log ..."
    assert second == "... goes on from unit 2 on worker-0 ..."
    assert [line.split(" ", 2)[2] for line in rest] == [f"lr {multistep(0.1, [2]).at(t)}" for t in (2, 3)]


def test_its_first_trials_read_as_a_person_writes_them(tmp_path: Path) -> None:
    grid = {"space": {"x": choice(0.5, 0.25)}, "searcher": "grid", "scheduler": FIFO(max_resource=2)}
    made = run(study(tmp_path / "s", backend="inline", **grid), None)
    assert repr(made.trials[:3]) == (
        "[<trial-0: 0.5 after 2 units, trained to the end; x=0.5>,"
        " <trial-1: 0.25 after 2 units, trained to the end; x=0.25>]"
    )


def test_a_study_that_is_only_viewed_knows_every_kept_checkpoint(tmp_path: Path) -> None:
    made = run(study(tmp_path / "s", scheduler=FIFO(max_resource=3), checkpoints=Checkpoints(keep_checkpoints=2)), 4)
    kept = [trial.checkpoint for trial in made.trials]
    assert sum(checkpoint is not None for checkpoint in kept) == 2
    assert [trial.checkpoint for trial in Study.open(tmp_path / "s").trials] == kept


def test_a_viewed_study_shows_what_came_since_and_reads_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run(study(tmp_path / "s", backend="inline", scheduler=FIFO(max_resource=1)), 1)
    opened = Study.open(tmp_path / "s")
    assert len(made.trials) == len(opened.trials) == 1
    run(Study.resume(tmp_path / "s"), 3)
    looks: list[Store] = []

    def counted(store: Store, file: StudyFile) -> tuple[StudyState, Replayed]:
        looks.append(store)
        return read_state(store, file)

    monkeypatch.setattr("asyncsearch.study.read_study.read_state", counted)
    for one in (made, opened):
        assert len(one.history("trial-2")) == 1
        assert one.best_trial == min(one.trials, key=lambda trial: trial.value or 0.0)
        assert "3 configurations" in one.summary()
    assert looks == [made.store, opened.store]


def test_a_study_that_runs_can_be_looked_at_again_and_again(tmp_path: Path) -> None:
    opened: list[Study] = []

    def looking(trial: Any) -> None:
        opened[:] = opened or [Study.open(tmp_path / "s")]
        now = len(Study.open(tmp_path / "s").trials)
        with (tmp_path / "looks").open("a") as file:
            file.write(f"{now} {len(opened[0].trials)}\n")
        train(trial)

    run(study(tmp_path / "s", looking, backend="inline", scheduler=FIFO(max_resource=1)), 4)
    looks = [tuple(map(int, line.split())) for line in (tmp_path / "looks").read_text().splitlines()]
    assert [number for number, now in enumerate(looks, 1) if now[0] > now[1]] == []
    assert looks[0][0] < looks[-1][0] <= 4


def test_what_was_seen_is_shown_where_the_store_cannot_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run(study(tmp_path / "s", backend="inline", scheduler=FIFO(max_resource=2)))

    def unreachable(store: Store) -> int:
        raise StoreError("Cannot list.")

    monkeypatch.setattr(LocalStore, "journal_size", unreachable)
    assert len(made.trials) == 2


def test_results_of_a_trial_can_be_looked_at(tmp_path: Path) -> None:
    made = run(study(tmp_path / "s", scheduler=FIFO(max_resource=3)), 3)
    best = made.best_trial
    assert best.value == min(trial.value for trial in made.trials if trial.value is not None)
    assert made.history(best) == [(n, {"loss": best.value}) for n in (1, 2, 3)]
    with made.checkpoint() as path:
        assert path.read_text() == "x"
    losers = [trial for trial in made.trials if trial.id != best.id]
    with pytest.raises(NoTrialsError, match="keep_checkpoints"), made.checkpoint(losers[0]):
        pass
    with pytest.raises(UsageError, match="no trial 7"):
        made.explain(7)
    assert "best loss" in made.summary()


def test_a_finished_study_goes_on_with_more_trials_and_keeps_the_old_ones(tmp_path: Path) -> None:
    first = run(study(tmp_path / "s", scheduler=FIFO(max_resource=2)), 2).trials
    more = run(Study.resume(tmp_path / "s"), 4).trials
    assert more[:2] == first
    assert len(more) == 4


def test_the_same_seed_proposes_the_same_trials(tmp_path: Path) -> None:
    one, two = (run(study(tmp_path / name, scheduler=FIFO(max_resource=1)), 3) for name in "ab")
    assert [trial.params for trial in one.trials] == [trial.params for trial in two.trials]


def test_a_preview_takes_the_cost_of_a_unit_from_an_earlier_study(tmp_path: Path) -> None:
    earlier = run(study(tmp_path / "earlier", scheduler=ASHA(max_resource=9)), 9)
    made = study(tmp_path / "s", scheduler=ASHA(max_resource=9))
    assert made.preview(9).seconds is None
    for like in (earlier, tmp_path / "earlier"):
        assert (made.preview(9, like=like).seconds or 0.0) > 0
        assert "as measured in 'earlier'" in str(made.preview(9, like=like))
    assert (earlier.preview(18).seconds or 0.0) > 0, "a study that has run knows its own cost"
    assert "at 2 s a unit" in str(made.preview(9, seconds_per_unit=2.0, like=earlier))
    with pytest.raises(StudyNotFoundError, match=r"like: .*nowhere holds no study"):
        made.preview(9, like=tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"like": 3}, "like=3 is neither a study nor a store: write e.g."),
        ({"like": ["studies/digits"]}, "is neither a study nor a store"),
        ({"seconds_per_unit": 0}, "seconds_per_unit=0 must be a positive, finite number of seconds"),
        ({"seconds_per_unit": float("inf")}, "seconds_per_unit=inf must be"),
        ({"seconds_per_unit": "fast"}, "seconds_per_unit='fast' must be"),
        ({"parallelism": 0}, "parallelism=0 must be"),
        (
            {"num_trials": None},
            r"RandomSearch\(\), whose number of proposals is not known: say how many trials, e.g. preview",
        ),
    ],
)
def test_a_preview_that_cannot_be_is_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    made = study(tmp_path / "s", scheduler=FIFO(max_resource=2))
    with pytest.raises(UsageError, match=words):
        made.preview(**({"num_trials": 9} | options))


def test_a_preview_like_a_study_that_measured_nothing_says_so(tmp_path: Path) -> None:
    def broken(trial: Any) -> None:
        raise RuntimeError("no")

    earlier = study(tmp_path / "earlier", broken, backend="inline")
    with pytest.raises(TrialsFailedError):
        earlier.run(1, display="none")
    with pytest.raises(
        UsageError, match="has reported enough to measure what a unit takes: name another study, or say"
    ):
        study(tmp_path / "s", scheduler=FIFO(max_resource=2)).preview(9, like=earlier)


def test_a_study_opened_for_viewing_says_how_to_preview_and_run_it(tmp_path: Path) -> None:
    study(tmp_path / "s", scheduler=FIFO(max_resource=2), backend="inline").run(1, display="none")
    opened = Study.open(tmp_path / "s")
    with pytest.raises(UsageError, match=r"To preview it, write Study.resume\(.*\).preview\(...\)"):
        opened.preview(9)
    with pytest.raises(UsageError, match=r"To run it, write Study.resume\(.*\).run\(...\)"):
        opened.run(9)


@pytest.mark.parametrize("place", [3, None, ["studies/digits"], b"studies"])
def test_what_is_no_place_is_no_store(place: Any) -> None:
    with pytest.raises(UsageError, match="is no place of a study: write a path or a URL, such as"):
        Study.open(place)


def test_a_preview_says_what_a_search_will_cost_before_it_runs(tmp_path: Path) -> None:
    made = study(tmp_path / "s", scheduler=ASHA(max_resource=9))
    assert "9" in str(made.preview(27))
    assert not (tmp_path / "s").exists()
    grid = Study(
        train, space={"x": choice(1, 2)}, metric="loss", mode="min", searcher=GridSearch(), store=tmp_path / "g"
    )
    assert "2" in str(grid.preview())


@pytest.mark.parametrize("backend", ["inline", "processes"])
def test_a_preview_counts_the_workers_that_the_run_will_have(tmp_path: Path, backend: str) -> None:
    made = study(tmp_path / "s", scheduler=FIFO(max_resource=2), backend=backend)
    with chosen(backend) as launcher:
        workers = launcher.check(None).parallelism
    plan = made.preview(9)
    assert plan.parallelism == workers
    assert "as many as a run without parallelism= would have here" in str(plan)
    assert made.preview(9, parallelism=5).parallelism == 5


def test_a_preview_of_more_trials_than_proposals_is_one_of_all_proposals(tmp_path: Path) -> None:
    made = study(
        tmp_path / "g",
        space={"x": choice(1, 2, 3)},
        searcher=GridSearch(),
        scheduler=SHA(max_resource=27, min_resource=9),
    )
    plan, whole = made.preview(64), made.preview()
    assert (plan.num_trials, plan.rungs, plan.total, plan.expected) == (3, whole.rungs, whole.total, whole.expected)
    assert plan.warnings == (
        *whole.warnings,
        "The searcher has only 3 proposals: this is a search of 3 trials, not of 64.",
    )
    assert not any("proposals" in note for made in (whole, made.preview(3), made.preview(2)) for note in made.warnings)


def test_warnings_of_a_run_are_of_as_many_trials_as_there_will_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options: dict[str, Any] = {"space": {"x": choice(1, 2, 3)}, "searcher": GridSearch(), "backend": "inline"}
    study(tmp_path / "s", scheduler=ASHA(max_resource=9), **options).run(64, display="plain")
    assert "3 trials are fewer than 3^2 = 9" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("scheduler", "is_bracketed"),
    [
        (SHA(max_resource=3), True),
        (Hyperband(max_resource=3, variant="synchronous"), True),
        (Hyperband(max_resource=3), False),
        (ASHA(max_resource=3), False),
        (PBT(max_resource=3, perturbation_interval=1), False),
    ],
)
def test_a_preview_of_a_begun_study_is_of_it_all_and_says_what_a_run_adds(
    scheduler: Scheduler, is_bracketed: bool, tmp_path: Path
) -> None:
    made = study(tmp_path / "s", scheduler=scheduler, backend="inline")
    before = made.preview(9, seconds_per_unit=1.0)
    run(made, 4)
    plan, over = made.preview(9, seconds_per_unit=1.0), made.preview(3, seconds_per_unit=1.0)
    added = plan.warnings[len(before.warnings) :]
    assert (plan.rungs, plan.total, plan.seconds) == (before.rungs, before.total, before.seconds)
    assert "4 trials exist already" in added[0]
    assert added[0].endswith("A run of 9 trials would add 5.")
    assert [("open new brackets" in note) for note in added] == [False] + is_bracketed * [True]
    assert over.warnings[-1].endswith("A run of 3 trials would add 0: no new trial begins.")
    assert len(run(Study.resume(tmp_path / "s"), 9).trials) == 4 + 5


def test_a_plan_is_pickled_while_no_other_study_sends_its_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumps, alone = value_pickler.dumps, list[bool]()

    def watched(value: object) -> bytes:
        alone.append(own_modules._LOCK.locked())
        return dumps(value)

    monkeypatch.setattr("asyncsearch.study.kept.definition.dumps", watched)
    run(study(tmp_path, backend="inline", scheduler=FIFO(max_resource=2)))
    assert alone == [True]


def test_a_value_that_a_pausing_trial_would_return_belongs_into_the_loop(tmp_path: Path) -> None:
    def train(trial: Any) -> dict[str, float]:
        for _ in trial.epochs(state={}):
            pass
        return {"loss": 1.0}

    made = study(tmp_path / "s", train, backend="inline", scheduler=ASHA(max_resource=9))
    with pytest.raises(MetricNotReportedError, match=r"was to pause at 1 and never .* inside the loop"):
        made.run(2, display="none")
