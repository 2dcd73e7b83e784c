"""Two processes of a search killed at one place, and drivers that are stopped while another one comes."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from asyncsearch import Study
from tests.faults.accounts import losses, tell
from tests.faults.places import PLACES
from tests.faults.tools import Search, counts, require_kept, require_whole
from tests.shares import IS_ALL, seeds, takes_long
from tests.system.tools import PATIENCE_S

pytestmark = pytest.mark.slow

LEASE_S = 4.0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Study | None:
    """A search without faults, of which the logs of --all tell."""
    if not IS_ALL:
        return None
    search = Search(tmp_path_factory.mktemp("undisturbed"))
    search.finish()
    return require_whole(search)


@pytest.mark.parametrize("who", [pytest.param("runner and driver", marks=takes_long), "agent and driver"])
@pytest.mark.parametrize("seed", seeds(4), ids="seed{}".format)
def test_a_driver_killed_with_its_worker_keeps_all_that_was_acknowledged(
    tmp_path: Path, seed: int, who: str, undisturbed: Study | None
) -> None:
    chance, search = random.Random(f"{who} {seed}"), Search(tmp_path)
    place = chance.choice(sorted(PLACES))
    victim = {"who": who, "place": place, "number": chance.randint(1, PLACES[place])}
    code, output = search.run(victims=[victim])
    assert code == -signal.SIGKILL, output
    require_kept(search)
    search.finish()
    study = require_whole(search)
    assert all(trial.failures == 0 for trial in study.trials)
    tell(f"seed {seed}, {who} killed at {place} {victim['number']}", study, undisturbed)


@pytest.mark.parametrize("seed", seeds(4), ids="seed{}".format)
def test_a_runner_and_an_agent_killed_at_once_are_replaced(
    tmp_path: Path, seed: int, undisturbed: Study | None
) -> None:
    chance, search = random.Random(f"runner and agent {seed}"), Search(tmp_path)
    place = chance.choice(sorted(PLACES))
    victim = {"who": "runner and agent", "place": place, "number": chance.randint(1, PLACES[place])}
    search.finish(victims=[victim])
    study = require_whole(search)
    assert all(trial.failures == 0 for trial in study.trials)
    assert len(losses(study)) == 1
    tell(f"seed {seed}, runner and agent killed at {place} {victim['number']}", study, undisturbed)


def wait_until_stopped(driver: psutil.Popen) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while driver.status() != psutil.STATUS_STOPPED:
        assert time.monotonic() < deadline, "it was not stopped"
        time.sleep(0.02)  # nothing depends on how long this is


def require_second_refused(search: Search, driver: psutil.Popen) -> None:
    """Another driver of the same study is refused in words that name the one that has it."""
    second = subprocess.run(
        [sys.executable, "-m", "asyncsearch", "resume", str(search.study)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert second.returncode != 0
    assert str(driver.pid) in second.stdout + second.stderr, second.stdout + second.stderr


STOPS = ("write:{}:within", "fdatasync:{}:before", "received:{}:before", "write:{}:after")


@pytest.mark.parametrize("moment", [STOPS[number] for number in seeds(len(STOPS))])
def test_a_driver_stopped_beyond_its_lease_shuts_others_out_without_loss(
    tmp_path: Path, moment: str, undisturbed: Study | None
) -> None:
    search = Search(tmp_path)
    call = moment.split(":", maxsplit=1)[0]
    at = moment.format(counts().get(call, 2) // 2)

    def stopped(driver: psutil.Popen) -> None:
        wait_until_stopped(driver)
        require_second_refused(search, driver)
        with pytest.raises(psutil.TimeoutExpired):
            psutil.Process(driver.pid).wait(1.5 * LEASE_S)  # the silence itself is what is tested
        driver.send_signal(signal.SIGCONT)

    code, output = search.run(meanwhile=stopped, stop=at, lease_timeout=LEASE_S)
    assert code == 0, output
    study = require_whole(search)
    assert losses(study) == []
    tell(f"driver stopped at {at}", study, undisturbed)


def test_a_stopped_driver_that_is_killed_leaves_its_study_to_the_next_one(
    tmp_path: Path, undisturbed: Study | None
) -> None:
    search = Search(tmp_path)

    def killed(driver: psutil.Popen) -> None:
        wait_until_stopped(driver)
        require_second_refused(search, driver)
        driver.kill()

    code, output = search.run(meanwhile=killed, stop=f"write:{counts()['write'] // 2}:within")  # in mid-search
    assert code == -signal.SIGKILL, output
    require_kept(search)
    search.finish()
    tell("stopped driver killed", require_whole(search), undisturbed)
