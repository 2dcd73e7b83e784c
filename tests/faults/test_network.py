"""Networks that drop, delay, cut and swallow what one worker and the driver say to each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, Study, WorkerOptions
from asyncsearch.events import WorkerAttached, WorkerLost
from asyncsearch.journal.opening import read_records
from tests.faults.accounts import losses, require_accounted, tell, wait_until, wasted
from tests.faults.network import Network, wary_agent
from tests.rpc.proxy import DOWN, FAIR, UP, Weather
from tests.shares import takes_long
from tests.system.tools import Running, make_study, require_gone
from tests.system.trained import Gate, make_trainable

pytestmark = pytest.mark.slow

LEVELS = [1, 3]
LEASE_S = 5.0
LATE_S = 0.8
"""How late messages come: less than a lease, and much more than they usually need."""
BYTES = (4_500, 5_000, 6_000, 8_000, 12_000)
"""Carried by each connection in turn before it drops: that which attaches a worker takes most of the first."""
NOTHING = Weather(swallows=frozenset({UP, DOWN}))
DOWN_HILL = Weather(is_down=True)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path).make()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """The same search on a network without faults."""
    folder = tmp_path_factory.mktemp("undisturbed")
    gate = Gate(folder)
    (folder / "passed").touch()  # nobody waits at the gate
    study = make_study(make_trainable(gate), folder / "study", scheduler=ASHA(max_resource=3))
    Running(study).wait()
    require_accounted(study, range(1, 10), LEVELS)
    assert wasted(study) == 0
    return study


@pytest.fixture
def networks() -> Iterator[Callable[..., Network]]:
    made: list[Network] = []

    def make(*args: Any, **options: Any) -> Network:
        made.append(Network(*args, **options))
        return made[-1]

    yield make
    for network in made:
        network.close()


def begin(gate: Gate, tmp_path: Path, network: Network, *, at: int = 2, **workers: Any) -> tuple[Study, Running]:
    """Start a search whose first trial waits at the gate in the middle of a unit, on either worker."""
    study = make_study(
        make_trainable(gate, at=at),
        tmp_path / "study",
        scheduler=ASHA(max_resource=3),
        backend=network,
        workers=WorkerOptions(**workers),
    )
    return study, Running(study)


def end(study: Study, running: Running, undisturbed: Study, request: pytest.FixtureRequest) -> None:
    running.wait()
    require_accounted(study, [trial.params["x"] for trial in undisturbed.trials], LEVELS)
    tell(request.node.name, study, undisturbed)


def worker_of(agent: int, study: Study) -> int:
    """Return the worker whose agent is this process."""
    events = [record.event for record in read_records(study.store)]
    return next(event.worker for event in events if isinstance(event, WorkerAttached) and event.pid == agent)


def test_connections_that_drop_again_and_again_cost_no_lease_and_no_report(
    gate: Gate, tmp_path: Path, networks: Any, undisturbed: Study, request: pytest.FixtureRequest
) -> None:
    network = networks(lambda worker, epoch: Weather(drops_after=BYTES))
    study, running = begin(gate, tmp_path, network)
    gate.pids()
    gate.open()
    end(study, running, undisturbed, request)
    assert sum(link.accepted for worker in (0, 1) for link in network.links(worker)) >= 4, "too few drops"
    assert losses(study) == []
    assert wasted(study) == 0


def test_a_worker_whose_messages_all_come_late_keeps_its_lease(
    gate: Gate, tmp_path: Path, networks: Any, undisturbed: Study, request: pytest.FixtureRequest
) -> None:
    network = networks()
    study, running = begin(gate, tmp_path, network, at=1, lease_timeout=10 * LATE_S)
    slow = worker_of(gate.pids()[1], study)
    network.link(slow).set(Weather(delay_s=LATE_S))
    gate.open()
    end(study, running, undisturbed, request)
    assert losses(study) == []
    assert wasted(study) == 0


def test_a_worker_that_is_cut_off_for_less_than_its_lease_goes_on_under_it(
    gate: Gate, tmp_path: Path, networks: Any, undisturbed: Study, request: pytest.FixtureRequest
) -> None:
    network = networks()
    study, running = begin(gate, tmp_path, network)
    gate.pids()
    for link in (network.link(0), network.link(1)):
        link.set(DOWN_HILL)
        link.wait_for(lambda link: link.refused >= 2)
        link.set(FAIR)
    gate.open()
    end(study, running, undisturbed, request)
    assert losses(study) == []
    assert wasted(study) == 0


@pytest.mark.parametrize("weather", [DOWN_HILL, pytest.param(NOTHING, marks=takes_long)], ids=["cut", "half-open"])
def test_a_worker_cut_off_beyond_its_lease_is_replaced_and_refused_later(
    gate: Gate, tmp_path: Path, networks: Any, undisturbed: Study, request: pytest.FixtureRequest, weather: Weather
) -> None:
    network = networks(is_split=True, agent=wary_agent)
    study, running = begin(gate, tmp_path, network, lease_timeout=LEASE_S)
    pids = gate.pids()
    with_trial = worker_of(pids[1], study)
    network.link(with_trial).set(weather)
    wait_until(study, lambda event: isinstance(event, WorkerLost) and event.worker == with_trial)
    network.link(with_trial).set(FAIR)
    gate.open()  # the trial that nobody waits for any more goes on, too
    running.wait()
    assert "silent" in network.end_of(with_trial, 1)
    end(study, running, undisturbed, request)
    assert all("silent" in lost.reason for lost in losses(study))
    require_gone(list(pids))


def test_a_worker_without_a_word_of_the_driver_reattaches_under_its_lease(
    gate: Gate, tmp_path: Path, networks: Any, undisturbed: Study, request: pytest.FixtureRequest
) -> None:
    network = networks(agent=wary_agent)
    study, running = begin(gate, tmp_path, network)
    agent = gate.pids()[1]
    link = network.link(worker_of(agent, study))
    before = link.accepted
    link.set(Weather(swallows=frozenset({DOWN})))
    gate.open()
    link.wait_for(lambda link: link.accepted > before)
    link.set(FAIR)
    end(study, running, undisturbed, request)
    assert losses(study) == []
    assert wasted(study) == 0


@takes_long
def test_a_worker_cut_off_for_a_minute_is_replaced_within_the_usual_lease(
    gate: Gate, tmp_path: Path, networks: Any, undisturbed: Study, request: pytest.FixtureRequest
) -> None:
    network = networks(is_split=True)
    study, running = begin(gate, tmp_path, network)
    with_trial = worker_of(gate.pids()[1], study)
    network.link(with_trial).set(DOWN_HILL)
    threading.Event().wait(60.0)  # the fault itself
    network.link(with_trial).set(FAIR)
    end(study, running, undisturbed, request)
    [loss] = losses(study)
    assert "30 s" in loss.reason, "who notices first says so: the driver, or the agent that gives up"
