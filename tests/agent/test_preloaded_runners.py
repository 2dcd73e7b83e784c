"""Each later process of an agent begins with what the first one has imported, or its log says what it has not."""

from __future__ import annotations

import functools
import itertools
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.agent import next_runner, runner_template
from asyncsearch.agent.next_runner import PreloadedTemplate
from asyncsearch.events import Outcome, Reported
from asyncsearch.runner.process.preloading import Preload
from asyncsearch.trainable import TrialContext
from tests.agent.driver import DEADLINE_S, FakeDriver, agent

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks runners")

KILLED, STOPPED = 1, 2
"""Trainings whose process is killed, and ended by SIGTERM."""
MANY = 50_000
KEPT: list[list[object]] = []
MODULES = {
    "plain_one": "",
    "threaded_one": "import threading\n"
    "threading.Thread(target=threading.Event().wait, name='mine', daemon=True).start()",
}


def train(trial: TrialContext) -> None:
    """Report whether the process had a module when it began, and end as its number says."""
    import gc
    import os
    import signal
    import sys
    import time

    had, number = "plain_one" in sys.modules, trial.params["number"]
    for name in trial.params["imports"]:
        __import__(name)
    trial.report(accuracy=float(had), process=os.getpid(), frozen=gc.get_freeze_count())
    if trial.params["lacks"]:
        from asyncsearch.runner import runner

        vars(runner)["lacking_room"] = lambda: "there is no room"
    if trial.params["keeps"]:
        time.sleep(1.1)  # a shorter training is followed by no collection
        KEPT.extend([] for _ in range(MANY))
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    while number == 2:  # it heeds no stop, so its process gets SIGTERM
        time.sleep(0.01)


@contextmanager
def worker(
    folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any
) -> Iterator[tuple[FakeDriver, threading.Event]]:
    """An agent with a template, and the event that its second one is settled."""
    packages = folder / "site-packages"
    packages.mkdir()
    for name, code in MODULES.items():
        (packages / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.setattr(runner_template, "_STARTED", [])
    settled, on_answer = threading.Event(), PreloadedTemplate._on_answer

    def noted(self: PreloadedTemplate, mask: int) -> None:
        on_answer(self, mask)
        if not self.is_awaited:
            settled.set()

    monkeypatch.setattr(PreloadedTemplate, "_on_answer", noted)
    # At the lowest priority the imports would wait for all other tests.
    monkeypatch.setattr(next_runner, "Preload", functools.partial(Preload, nice=0))
    options = {"keeps_template": True, "recycle_after": 2, "stop_grace_s": 0.1, **changes}
    try:
        with agent(train, folder, **options) as driver:
            yield driver, settled
    finally:
        runner_template.close_template()


def trained(
    driver: FakeDriver, number: int, *imports: str, keeps: bool = False, lacks: bool = False
) -> tuple[float, float]:
    """Train, and return whether the process had the module when it began, and which process it was."""
    params = {"number": number, "imports": list(imports), "keeps": keeps, "lacks": lacks}
    driver.train(number, stop=1, max_resource=1, params=params)
    driver.first(Reported, number)
    if number == STOPPED:
        driver.stop(number)
    driver.end(number)
    [(_, found)] = driver.reports(number)
    return found["accuracy"], found["process"]


def test_process_after_a_killed_stopped_or_old_one_has_its_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with worker(tmp_path, monkeypatch) as (driver, settled):
        found = [trained(driver, 0, "plain_one")]
        assert settled.wait(DEADLINE_S)
        found += [trained(driver, number) for number in range(1, 6)]
        assert driver.end(KILLED).outcome is Outcome.FAILED
        assert driver.end(STOPPED).outcome is Outcome.STOPPED
    processes = [process for _, process in found]
    changes = [before != after for before, after in itertools.pairwise(processes)]
    assert changes == [False, True, True, False, True], "the last one has trained as many as it may"
    assert [had for had, _ in found] == [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_log_says_what_each_later_process_has_to_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with worker(tmp_path, monkeypatch) as (driver, settled):
        trained(driver, 0, "plain_one", "threaded_one")
        assert settled.wait(DEADLINE_S)
        trained(driver, 3)
        said = [line for line in driver.text(3) if "imports" in line]
    words = "asyncsearch: each process that replaces the first one of this worker imports these modules itself: "
    assert said == [f"{words}threaded_one (it starts the thread 'mine')"]


def test_no_second_process_has_the_modules_where_a_container_is_too_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with worker(tmp_path, monkeypatch, given_bytes=50 << 20) as (driver, _):
        found = [trained(driver, number, "plain_one") for number in (0, KILLED, 3)]
        assert [had for had, _ in found] == [0.0, 1.0, 0.0]
        [said] = [line for line in driver.text(KILLED) if "all modules itself" in line]
    assert "the worker has 50 MB in its container, less than 3 times that" in said


def test_log_says_that_memory_lacks_for_a_second_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with worker(tmp_path, monkeypatch) as (driver, _):
        trained(driver, 0, "plain_one", lacks=True)
        trained(driver, KILLED)
        assert trained(driver, 3)[0] == 0.0
        said = driver.text(KILLED)
    assert said == ["asyncsearch: each process that replaces this one imports all modules itself: there is no room"]


def test_collections_look_no_more_through_what_a_later_process_has_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with worker(tmp_path, monkeypatch, recycle_after=3) as (driver, settled):
        trained(driver, 0, "plain_one")
        assert settled.wait(DEADLINE_S)
        trained(driver, KILLED)
        found = [trained(driver, number, keeps=number < 5) for number in (3, 4, 5)]
        assert {had for had, _ in found} == {1.0}
        frozen = [driver.reports(number)[0][1]["frozen"] for number in (3, 4, 5)]
    assert frozen[1] - frozen[0] > MANY / 2
    assert frozen[2] <= frozen[1], "of later trials nothing is frozen that may become garbage"
