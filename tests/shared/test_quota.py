"""``quota_bytes`` of a study that shares with nobody: the contents of its store, and the messages to the user."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from asyncsearch import ASHA, FIFO, Checkpoints, GridSearch, Sharing, Study, choice
from asyncsearch.errors import NoTrialsError
from asyncsearch.report.live.display import Plain
from asyncsearch.report.live.status import StudyStatus
from asyncsearch.shared.cleaning import clean
from asyncsearch.shared.folder import SharedFolder
from asyncsearch.shared.options import keep_within
from asyncsearch.study.run import _show_status

SIZE = 100_000
ALL = [5.0, 3.0, 4.0, 1.0, 2.0]


def train(trial: Any) -> None:
    for _ in trial.epochs(save=lambda path: path.write_bytes(b"x" * SIZE), load=lambda path: None):
        trial.report(loss=trial.params["x"])


def study(store: Path, **options: Any) -> Study:
    settings: dict[str, Any] = {
        "space": {"x": choice(*ALL)},
        "metric": "loss",
        "mode": "min",
        "searcher": GridSearch(),
        "scheduler": FIFO(max_resource=2),
        "checkpoints": Checkpoints(keep_checkpoints=4),
        "backend": "inline",
        "store": store,
    }
    return Study(train, **(settings | options))


def kept(made: Study) -> list[float]:
    return sorted(float(trial.params["x"]) for trial in made.trials if trial.checkpoint is not None)


def in_store(made: Study) -> int:
    return sum(SharedFolder(made.store).usage().values())


def test_as_many_of_the_best_keep_their_checkpoint_as_fit_into_the_quota(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    quota = 2 * SIZE + SIZE // 2
    made = study(tmp_path / "s", sharing=Sharing(quota_bytes=quota)).run(display="none")
    assert kept(made) == kept(Study.open(tmp_path / "s")) == [1.0, 2.0]
    assert in_store(made) <= quota
    assert "quota_bytes" not in caplog.text
    loser = next(trial for trial in made.trials if trial.params["x"] == ALL[1])
    with (
        pytest.raises(NoTrialsError, match=r"raise Checkpoints\(keep_checkpoints=\.\.\.\) or Sharing\(quota_bytes="),
        made.checkpoint(loser),
    ):
        pass
    assert clean(made.store).kept == 2


def test_without_a_quota_all_keep_theirs_that_are_to(tmp_path: Path) -> None:
    assert kept(study(tmp_path / "s").run(display="none")) == [1.0, 2.0, 3.0, 4.0]


def test_what_does_not_fit_and_may_be_gone_on_from_stays_and_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = study(
        tmp_path / "s", scheduler=ASHA(max_resource=4, reduction_factor=2), sharing=Sharing(quota_bytes=1)
    ).run(display="none")
    paused = {trial.params["x"]: trial.checkpoint for trial in made.trials if not trial.state.is_finished}
    assert {x for x, checkpoint in paused.items() if checkpoint is not None} == {2.0}, "the others cannot be promoted"
    assert set(paused) > {2.0}
    said = [record.message for record in caplog.records if "quota_bytes=1:" in record.message]
    assert len(said) == 1
    assert "of trials that may go on, or of the best one" in said[0]
    with made.checkpoint() as path:
        assert path.stat().st_size == SIZE


def test_a_status_that_comes_again_says_it_no_second_time(capsys: pytest.CaptureFixture[str]) -> None:
    run: Any = SimpleNamespace(is_quota_shown=False)
    beyond = StudyStatus(name="s", metric="loss", mode="min", counts={}, beyond_quota="too much")
    for _ in range(2):
        _show_status(run, Plain(logs=False), beyond)
    assert capsys.readouterr().out.count("note: too much") == 1


def test_the_quota_of_a_shared_folder_is_not_that_of_a_study(tmp_path: Path) -> None:
    assert study(tmp_path / "s", sharing=Sharing(quota_bytes=SIZE)).config.quota_bytes == SIZE
    assert study(tmp_path / "s", sharing=Sharing(quota_bytes=SIZE), version="v1").config.quota_bytes is None


def test_a_study_may_be_resumed_with_another_quota_and_counts_what_it_has(tmp_path: Path) -> None:
    made = study(tmp_path / "s", space={"x": choice(*ALL[:2])}, searcher=None)
    made.run(4, display="none")
    assert len(kept(made)) == 4
    again = study(
        tmp_path / "s",
        space={"x": choice(*ALL[:2])},
        searcher=None,
        sharing=Sharing(quota_bytes=SIZE + SIZE // 2),
        resume=True,
    ).run(5, display="none")
    assert len({trial.checkpoint for trial in again.trials} - {None}) == 1
    assert in_store(again) < 2 * SIZE
    wide = study(tmp_path / "s", space={"x": choice(*ALL[:2])}, searcher=None, resume=True).run(6, display="none")
    for trial in (trial for trial in wide.trials if trial.checkpoint is not None):
        with wide.checkpoint(trial) as path:
            assert path.stat().st_size == SIZE


def shared_study(tmp_path: Path, name: str = "s", **options: Any) -> Study:
    settings: dict[str, Any] = {
        "version": "v1",
        "checkpoints": Checkpoints(),
        "sharing": Sharing(quota_bytes=2 * SIZE + SIZE // 2),
    }
    return study(tmp_path / name, **(settings | options))


def in_folder(made: Study) -> int:
    assert made.shared is not None
    return sum(SharedFolder(made.shared).usage().values())


def test_what_evaluations_keep_in_a_shared_folder_gives_way_to_the_quota(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = shared_study(tmp_path).run(1, display="none")
    assert made.shared is not None
    for x in ALL[1:]:
        assert made.evaluate({"x": x}, 2) == {"loss": x}
        assert in_folder(made) <= 2 * SIZE + SIZE // 2
    with made.checkpoint() as path:
        assert path.stat().st_size == SIZE
    assert made.shared.list("drivers") == []
    assert "quota_bytes" not in caplog.text
    assert [made.evaluate({"x": x}, 2) for x in ALL] == [{"loss": x} for x in ALL]


def test_evaluations_of_other_studies_and_running_ones_keep_their_holds(tmp_path: Path) -> None:
    made, other = shared_study(tmp_path, sharing=Sharing()), shared_study(tmp_path, "other", sharing=Sharing())
    made.evaluate({"x": 1.0}, 2)
    made.evaluate({"x": 2.0}, 2)
    other.evaluate({"x": 3.0}, 2)
    assert in_folder(made) > 3 * SIZE
    assert made.shared is not None
    plan = SharedFolder(made.shared)
    running = made.store.child(f"evals/{min(made.store.list('evals'))}")
    with running.lock():
        keep_within(plan, 1, made.store)
    held = {hold.study for hold in plan.current_holds().holds.values()}
    assert len(held) == 2
    assert running.url in held
    assert any(name.startswith(f"{other.store.url}/evals/") for name in held)


def test_what_studies_need_beyond_the_quota_of_a_shared_folder_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = shared_study(tmp_path, sharing=Sharing(quota_bytes=1)).run(2, display="none")
    assert made.shared is not None
    said = [record.message for record in caplog.records if "quota_bytes=1:" in record.message]
    assert len(said) == 1
    assert repr(made.shared.url) in said[0]
    assert made.shared.list("drivers") == [], "looking what may go leaves no sign of life behind"
