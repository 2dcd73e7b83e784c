"""The agent and its runner as one: warmth, order, stops, logs, refusals, ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from asyncsearch.actions import DismissWorker
from asyncsearch.agent import runner_process
from asyncsearch.agent.config import LogLimits
from asyncsearch.events import Outcome, Reported, TrainingEnded
from asyncsearch.ids import WorkerId
from asyncsearch.rpc.messages import LogLines, Refused, TrialAnswer
from asyncsearch.runner.protocol import UNASKED
from asyncsearch.runner.seal import Seal
from asyncsearch.work import Lane
from tests.agent import trials
from tests.agent.driver import WORKER, FakeDriver, agent, lease, make_stage


def run_all(driver: FakeDriver, count: int) -> list[float]:
    """Train some trials one after the other, and return what each reported: its process."""
    for number in range(count):
        driver.train(number)
        assert driver.end(number).outcome is Outcome.RETURNED
    return [driver.values(number)[0][1] for number in range(count)]


def test_a_trial_reports_and_ends(tmp_path: Path) -> None:
    with agent(trials.good, tmp_path) as driver:
        driver.train(3, stop=4, max_resource=4)
        end = driver.end(3)
    assert end == TrainingEnded(lease(3), Outcome.RETURNED, 4)
    assert driver.values(3) == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]
    assert isinstance(driver.sent[-1], TrainingEnded)
    assert driver.result == "dismissed: the test is over"


def test_a_trainer_class_is_the_same_to_the_agent(tmp_path: Path) -> None:
    with agent(trials.Digits, tmp_path) as driver:
        driver.train(0, stop=3, max_resource=3)
        assert driver.end(0).outcome is Outcome.RETURNED
    assert driver.values(0) == [(1, 0.5), (2, 1.0), (3, 1.5)]


def test_a_closure_is_a_trainable(tmp_path: Path) -> None:
    factor = 3.0

    def train(trial) -> float:  # type: ignore[no-untyped-def]
        return factor * trial.params["lr"]  # type: ignore[no-any-return]

    with agent(train, tmp_path) as driver:
        driver.train(0)
        assert driver.end(0).outcome is Outcome.RETURNED
    assert driver.values(0) == [(1, 1.5)]


def test_the_runner_stays_warm(tmp_path: Path) -> None:
    with agent(trials.process_id, tmp_path) as driver:
        pids = run_all(driver, 5)
    assert len(set(pids)) == 1
    assert pids[0] != os.getpid()


def test_the_runner_is_replaced_after_a_number_of_trainings(tmp_path: Path) -> None:
    with agent(trials.process_id, tmp_path, recycle_after=2) as driver:
        pids = run_all(driver, 5)
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4]


def test_a_fresh_process_for_each_trial_if_wanted(tmp_path: Path) -> None:
    with agent(trials.process_id, tmp_path, fresh_process=True) as driver:
        assert len(set(run_all(driver, 3))) == 3


def test_the_runner_is_replaced_when_its_memory_has_grown(tmp_path: Path) -> None:
    with agent(trials.grows, tmp_path, recycle_growth_bytes=1) as driver:
        run_all(driver, 1)
        for number in range(1, 10_000):  # memory is looked at every now and then only
            driver.train(number)
            driver.end(number)
            if driver.values(number) != driver.values(0):
                break
            driver.wait(lambda before=driver.heartbeats: driver.heartbeats > before)  # type: ignore[misc]
        else:
            pytest.fail("it was never replaced")


def test_what_a_trial_knows_its_beginning_before_it_has_begun_waits_for_it(tmp_path: Path) -> None:
    with agent(trials.knows_its_beginning, tmp_path) as driver:
        for number in range(2):
            driver.train(number)
        for number in (1, 0):
            told = Seal(b"", is_driver=True).closed(UNASKED, b"%d" % number)
            driver.deliver(TrialAnswer(lease(number), UNASKED, told))
        assert [driver.end(number).outcome for number in range(2)] == [Outcome.RETURNED] * 2
        assert [driver.values(number) for number in range(2)] == [[(1, 0.0)], [(1, 1.0)]]


def test_collections_look_no_more_through_what_the_first_trial_left(tmp_path: Path) -> None:
    with agent(trials.keeps_many, tmp_path) as driver:
        for number in range(2):
            driver.train(number)
            driver.end(number)
        [(_, before)], [(_, after)] = driver.values(0), driver.values(1)
    assert after - before > trials.MANY / 2


@pytest.mark.parametrize(
    ("rooms", "growth"), [([], 1_000), ([100_000, 3_000], 750), ([100_000], 1_000), ([10], 64), ([0], 64)]
)
def test_process_may_grow_by_less_where_memory_is_scarce(
    rooms: list[int], growth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_process, "_LEAST_GROWTH", 64)
    assert runner_process.growth_limit(1_000, rooms) == growth


def test_lanes_are_trained_one_after_the_other(tmp_path: Path) -> None:
    with agent(trials.good, tmp_path) as driver:
        driver.assign(0, [Lane((make_stage(n, stop=2, max_resource=2),)) for n in range(3)])
        driver.wait(lambda: len(driver.of(TrainingEnded)) == 3)
    assert [end.lane for end in driver.of(TrainingEnded)] == [0, 1, 2]
    assert [report.lane for report in driver.of(Reported)] == [0, 0, 1, 1, 2, 2]


def test_work_that_is_assigned_again_is_trained_once(tmp_path: Path) -> None:
    with agent(trials.good, tmp_path) as driver:
        for _ in range(2):
            driver.train(0, stop=2, max_resource=2)
        driver.train(1, stop=1, max_resource=1)
        driver.end(1)
        driver.train(0, stop=2, max_resource=2)
        driver.train(2, stop=1, max_resource=1)
        driver.end(2)
    assert [end.lease.number for end in driver.of(TrainingEnded)] == [0, 1, 2]


def test_what_was_reported_and_printed_knows_its_beginning_before_the_end(tmp_path: Path) -> None:
    with agent(trials.prints, tmp_path) as driver:
        for number in range(20):
            driver.train(number)
        driver.end(19)
    for number in range(20):
        kinds = [type(m) for m in driver.sent if getattr(m, "lease", None) == lease(number)]
        assert kinds[-1] is TrainingEnded
        assert {Reported, LogLines} <= set(kinds)
        assert kinds.count(TrainingEnded) == 1


def test_each_line_belongs_to_the_trial_that_printed_it(tmp_path: Path) -> None:
    with agent(trials.prints, tmp_path) as driver:
        for number in range(20):
            driver.train(number)
        driver.end(19)
    for number in range(20):
        ways = ("print", "stderr", "write", "puts", "echo", "last")
        assert sorted(driver.text(number)) == sorted(f"trial-{number} {way}" for way in ways)
    stderr = [line for batch in driver.of(LogLines, 7) for line in batch.lines if line.is_stderr]
    assert [line.text for line in stderr] == ["trial-7 stderr"]


def test_lines_come_while_the_trial_still_runs(tmp_path: Path) -> None:
    with agent(trials.prints_for_ever, tmp_path) as driver:
        driver.train(0)
        assert driver.first(LogLines).lines[0].text.startswith("and again")
        assert driver.of(TrainingEnded) == []
        driver.stop(0)
        driver.end(0)


def test_lines_are_left_out_while_the_driver_does_not_listen(tmp_path: Path) -> None:
    with agent(trials.prints_many_lines, tmp_path) as driver:
        driver.backlog = 10**6
        driver.train(0)
        # The report stays in the runner, so the trial has not ended; but it is not kept from printing.
        driver.wait(lambda: driver.heartbeats > 1)
        assert driver.sent == []
        driver.backlog = 0
        assert driver.end(0).outcome is Outcome.RETURNED
        assert sum(len(b.lines) + b.left_out for b in driver.of(LogLines)) == trials.MANY


def test_reports_wait_in_the_runner_while_the_driver_does_not_listen(tmp_path: Path) -> None:
    with agent(trials.reports_every_millisecond, tmp_path, heartbeat_s=0.05) as driver:
        driver.train(0)
        driver.first(Reported)
        driver.backlog = 10**6
        driver.wait(lambda beats=driver.heartbeats: driver.heartbeats > beats + 2)  # type: ignore[misc]
        held, beats = len(driver.of(Reported)), driver.heartbeats
        driver.wait(lambda: driver.heartbeats > beats + 4)
        assert len(driver.of(Reported)) == held
        driver.stop(0)
        driver.backlog = 0
        assert driver.end(0).outcome is Outcome.STOPPED
        resources = [m.resource for m in driver.of(Reported)]
        assert resources == list(range(1, len(resources) + 1))


def test_a_stop_before_the_start_ends_at_once(tmp_path: Path) -> None:
    with agent(trials.reports_every_millisecond, tmp_path) as driver:
        driver.train(0)
        driver.train(1, start=5)
        driver.stop(1)
        assert driver.end(1) == TrainingEnded(lease(1), Outcome.STOPPED, 5)
        driver.stop(0)
        driver.end(0)


def test_a_stop_for_what_is_over_is_ignored(tmp_path: Path) -> None:
    with agent(trials.process_id, tmp_path) as driver:
        driver.train(0)
        driver.end(0)
        driver.stop(0)
        driver.train(1)
        assert driver.end(1).outcome is Outcome.RETURNED


def test_refused_work_is_dropped_without_a_word(tmp_path: Path) -> None:
    with agent(trials.reports_every_millisecond, tmp_path) as driver:
        driver.train(0)
        driver.train(1)
        driver.first(Reported, 0)
        driver.deliver(Refused(lease(0), "another worker has it"))
        driver.first(Reported, 1)
        driver.stop(1)
        driver.end(1)
    assert driver.of(TrainingEnded, 0) == []


@pytest.mark.parametrize("is_unheard", [False, True])
def test_an_agent_waits_for_its_last_acknowledgements_unless_none_can_come(is_unheard: bool, tmp_path: Path) -> None:
    with agent(trials.good, tmp_path) as driver:
        driver.deliver(DismissWorker(WORKER, 1, "the store cannot be used", is_unheard=is_unheard))
    (waited_s,) = driver.flushes_s
    assert (waited_s == 0) == is_unheard


def test_a_dismissal_stops_what_runs_and_drops_what_waits(tmp_path: Path) -> None:
    with agent(trials.reports_every_millisecond, tmp_path) as driver:
        driver.train(0)
        driver.train(1)
        driver.first(Reported, 0)
        driver.deliver(DismissWorker(WORKER, 1, "nothing is left"))
    assert driver.result == "dismissed: nothing is left"
    assert driver.end(0).outcome is Outcome.STOPPED
    assert driver.of(Reported, 1) == []


def test_the_agent_ends_when_the_driver_is_lost(tmp_path: Path) -> None:
    with agent(trials.reports_every_millisecond, tmp_path) as driver:
        driver.train(0)
        driver.first(Reported, 0)
        driver.closed(ConnectionError("gone for 30 s"))
    assert driver.result == "disconnected: gone for 30 s"


def test_heartbeats_go_on_while_a_trial_keeps_the_interpreter_busy(tmp_path: Path) -> None:
    with agent(trials.hangs_for_ever, tmp_path, heartbeat_s=0.01, stop_grace_s=0.05, kill_grace_s=0.05) as driver:
        driver.train(0)
        driver.first(Reported)
        before = driver.heartbeats
        driver.wait(lambda: driver.heartbeats > before + 10)


def test_a_runner_that_dies_between_trials_is_replaced(tmp_path: Path) -> None:
    with agent(trials.process_id, tmp_path) as driver:
        (pid,) = run_all(driver, 1)
        os.kill(int(pid), signal.SIGKILL)
        ends = []
        for number in range(1, 3):
            driver.train(number)
            ends.append(driver.end(number).outcome)
        assert ends[-1] is Outcome.RETURNED  # the first may still have been given to the dying one
        assert driver.values(2)[0][1] != pid


def test_the_runner_sees_its_environment_and_imports_nothing_heavy(tmp_path: Path) -> None:
    with agent(trials.tells_its_environment, tmp_path, cpu_threads=3, gpus=("GPU-7",)) as driver:
        driver.train(0)
        driver.end(0)
    threads = [f"{name}_NUM_THREADS=3" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")]
    assert driver.text(0) == [*threads, "CUDA_VISIBLE_DEVICES=GPU-7", "imported"]
    assert "OMP_NUM_THREADS" not in os.environ


def test_log_limits_are_those_of_the_configuration(tmp_path: Path) -> None:
    with agent(trials.prints_many_lines, tmp_path, log=LogLimits(lines_per_s=10, line_chars=4)) as driver:
        driver.train(0)
        driver.end(0)
    assert all(len(batch.lines) <= 10 for batch in driver.of(LogLines))
    assert {line.text for batch in driver.of(LogLines) for line in batch.lines} == {"line ..."}


AGENT_IN_A_PROCESS = """
    import sys, threading
    from pathlib import Path
    from asyncsearch.agent.agent import run_agent
    from tests.agent.driver import FakeDriver, make_config
    from tests.agent.trials import tells_its_children

    driver = FakeDriver()
    driver.open = lambda: driver.train(0, params={"pipe": sys.argv[2]})
    run_agent(make_config(tells_its_children, Path(sys.argv[1])), connect=driver)
"""


def test_no_process_outlives_an_agent_that_is_killed(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    command = [sys.executable, "-c", textwrap.dedent(AGENT_IN_A_PROCESS), str(tmp_path / "store"), str(fifo)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, env=environment) as process, fifo.open("rb", buffering=0) as pipe:
        assert pipe.readline() == b"ready\n"
        process.kill()
        assert pipe.read() == b""  # the runner, which is busy, and the script that it started are both gone


def test_the_configuration_hides_its_secrets_and_can_be_sent(tmp_path: Path) -> None:
    import cloudpickle

    from asyncsearch.rpc.messages import Endpoint
    from tests.agent.driver import make_config

    config = make_config(trials.good, tmp_path, endpoint=Endpoint("host:1", b"pem", "secret"))
    again = cloudpickle.loads(cloudpickle.dumps(config))
    assert again.endpoint == config.endpoint
    assert again.worker == WorkerId(0)
    assert "secret" not in repr(config)


def test_an_agent_starts_without_the_modules_that_decide() -> None:
    code = """
import sys
import asyncsearch.launch.child_process
from asyncsearch.launch.base_launcher import import_agent
import_agent()
print([name for name in ("sequences", "plan", "space", "engine", "searchers") if f"asyncsearch.{name}" in sys.modules])
"""
    assert subprocess.check_output([sys.executable, "-P", "-c", code], text=True).strip() == "[]"
