"""``Study(..., pack_opt=)`` and ``Trainer.pack_by`` of the user's own: in whole searches, in the store, and resumed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, PackCandidate, PackChoice, Study, choice, randint, uniform
from asyncsearch.actions import Assign
from asyncsearch.errors import UsageError
from asyncsearch.journal.opening import read_records
from tests.study.test_packs import Line, lanes

SPACE = {"rate": uniform(0.1, 0.9), "warm_up": randint(1, 1000), "width": choice(8, 16)}


class Grouped(Line):
    """Its warm-up does not change how it is built."""

    pack_by = ("width",)


def in_pairs(choice: PackChoice) -> list[PackCandidate]:
    return list(choice.others[:1])


def study(store: Path, trainable: Any = Grouped, **options: Any) -> Study:
    settings: dict[str, Any] = {"scheduler": FIFO(max_resource=2), "backend": "inline", "pack": 4, "space": SPACE}
    settings |= options
    return Study(trainable, metric="loss", mode="min", store=store, **settings)


def values_in_packs(found: Study, name: str) -> list[set[Any]]:
    """Return the values of a hyper-parameter in each pack."""
    actions = [action for record in read_records(found.store) for action in record.actions]
    works = [action.work for action in actions if isinstance(action, Assign)]
    return [{lane.stages[0].params[name] for lane in work.lanes} for work in works]


def test_a_strategy_of_ones_own_chooses_and_its_name_is_in_the_store(tmp_path: Path) -> None:
    found = study(tmp_path / "s", pack_opt=in_pairs).run(6, parallelism=1, display="none")
    assert lanes(found)[0] == 2
    assert json.loads((tmp_path / "s/study.json").read_text())["pack_opt"] == "in_pairs"


def test_it_comes_with_the_code_when_another_process_resumes_the_study(tmp_path: Path) -> None:
    def at_most_three(choice: PackChoice) -> list[PackCandidate]:
        return list(choice.others[: min(2, choice.count)])

    study(tmp_path / "s", pack_opt=at_most_three).run(3, parallelism=1, display="none")
    script = f"from asyncsearch import Study; Study.resume({str(tmp_path / 's')!r}).run(6, parallelism=1)"
    subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[2], check=True, capture_output=True)
    found = Study.open(tmp_path / "s")
    assert len(found.trials) == 6
    assert lanes(found) == [3, 3]


def test_the_script_may_bring_another_strategy_and_the_change_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study(tmp_path / "s", pack_opt=in_pairs).run(2, display="none")
    said = []
    for trials in (4, 6):
        study(tmp_path / "s", resume=True, pack_opt="random").run(trials, display="plain")
        said.append("packed by pack_opt=in_pairs, and are by random now" in " ".join(capsys.readouterr().out.split()))
    assert said == [True, False]


def test_the_same_seed_and_order_of_events_give_the_same_search(tmp_path: Path) -> None:
    def records(name: str) -> list[Any]:
        found = study(tmp_path / name, name="same", pack_opt=in_pairs).run(6, parallelism=1, display="none")
        return [record.actions for record in read_records(found.store)]

    assert records("one") == records("two")


def test_a_mistake_is_found_before_the_search_begins(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"pack_opt=<lambda> raised KeyError: 'depth'"):
        study(tmp_path / "s", pack_opt=lambda choice: [choice.first.params["depth"]])
    with pytest.raises(UsageError, match=r"pack_opt=in_pairs says which trials to pack, and without pack= none are"):
        study(tmp_path / "s", pack=None, pack_opt=in_pairs)


def test_a_strategy_that_fails_in_a_search_ends_it_and_results_are_kept(tmp_path: Path) -> None:
    def only_begun(choice: PackChoice) -> list[PackCandidate]:
        return [] if choice.first.trial < 2 else [choice.first]

    with pytest.raises(UsageError, match=r"only_begun returned trial-2, which is not one of choice\.others"):
        study(tmp_path / "s", pack_opt=only_begun).run(6, parallelism=1, display="none")
    assert {trial.resource for trial in Study.open(tmp_path / "s").trials[:2]} == {2}
    found = study(tmp_path / "s", pack_opt=in_pairs, resume=True).run(6, parallelism=1, display="none")
    assert {trial.resource for trial in found.trials} == {2}
    assert sum(trial.failures + trial.losses for trial in found.trials) == 0


def test_trials_equal_in_what_pack_by_names_are_packed_whatever_differs(tmp_path: Path) -> None:
    found = study(tmp_path / "s").run(8, parallelism=1, display="none")
    assert max(lanes(found)) == 4
    assert all(len(one) == 1 for one in values_in_packs(found, "width"))
    alone = study(tmp_path / "default", Line).run(8, parallelism=1, display="none")
    assert max(lanes(alone)) == 1, "by default any integer tells groups"
    assert [trial.value for trial in found.trials] == [trial.value for trial in alone.trials]


def test_an_opened_study_knows_what_its_trials_were_packed_by(tmp_path: Path) -> None:
    study(tmp_path / "s").run(2, display="none")
    assert Study.open(tmp_path / "s").config.pack_by == ("width",)
    study(tmp_path / "s", Line, resume=True).run(4, display="none")
    assert Study.open(tmp_path / "s").config.pack_by is None


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("width", r"Named.pack_by='width' must be a sequence of names"),
        ((1,), r"Named.pack_by=\(1,\) must be a sequence of names"),
        (("widht",), r"Named.pack_by names 'widht', and the space has only 'rate', 'warm_up', 'width'"),
    ],
)
def test_names_that_are_none_of_the_space_are_refused(tmp_path: Path, names: Any, words: str) -> None:
    class Named(Line):
        pack_by = names

    with pytest.raises(UsageError, match=words):
        study(tmp_path / "s", Named)


def test_names_of_another_space_do_not_matter_where_nothing_is_packed(tmp_path: Path) -> None:
    class Named(Line):
        pack_by = ("depth",)

    assert study(tmp_path / "s", Named, pack=None).run(1, display="none").trials
