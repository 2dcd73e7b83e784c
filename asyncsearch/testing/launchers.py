"""The laws of every launcher, for those who write their own.

class TestMine(LauncherTests):
    def make(self) -> Launcher:
        return MyLauncher()

Each law starts real workers, and plays the driver that they attach to. They must run on this machine: that a process is
gone is seen by the end of a named pipe that it wrote to.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from asyncsearch.actions import DismissWorker
from asyncsearch.events import Outcome, Reported, TrainingEnded
from asyncsearch.ids import WorkerId
from asyncsearch.launch.base_launcher import Launcher
from asyncsearch.testing.base_suite import Suite
from asyncsearch.testing.recording_driver import W0, W1, RecordingDriver


class LauncherTests(Suite):
    """Laws that hold for any launcher; ``make`` gives the one to try. They take a second or two each."""

    patience_s = 60.0
    """How long an expected message may take."""
    end_patience_s = 60.0
    """How long it may take until the end of a launch is told."""

    def make(self) -> Launcher:
        """Return a new launcher, each time the same."""
        raise NotImplementedError(f"{type(self).__name__} must have a method make(self) that returns a new launcher.")

    @contextmanager
    def driver(self, parallelism: int = 1, launcher: Launcher | None = None) -> Iterator[RecordingDriver]:
        """Begin a run, and end it after the law."""
        with tempfile.TemporaryDirectory(prefix="asyncsearch-laws-") as folder:
            patience = (self.patience_s, self.end_patience_s)
            made = RecordingDriver(launcher or self.make(), Path(folder), parallelism, *patience)
            try:
                made.begin()
                yield made
            finally:
                made.close()

    def test_check_says_how_many_workers_there_will_be_and_warns_in_sentences(self) -> None:
        launcher = self.make()
        try:
            for wanted in (None, 1):
                found = launcher.check(wanted)
                assert found.parallelism >= 1, f"check({wanted}) promises {found.parallelism} workers"
                assert found.cpu_threads >= 1, f"check({wanted}) gives each worker {found.cpu_threads} cores"
                assert wanted in (None, found.parallelism), f"check({wanted}) promises {found.parallelism} workers"
                for warning in found.warnings:
                    assert len(warning.split()) >= 5, f"the warning {warning!r} is no sentence"
                    assert warning.endswith("."), f"the warning {warning!r} is no sentence"
        finally:
            launcher.stop(0.0)
            launcher.stop(0.0)  # it may come twice, also where nothing was started

    def test_its_name_is_one_word(self) -> None:
        name = self.make().name
        assert len(name.split()) == 1, f"its name is {name!r}"

    def test_a_launch_attaches_under_its_own_worker_and_epoch_and_trains(self) -> None:
        with self.driver() as driver:
            driver.attach(W0, 3)
            lease, pipe = driver.assign(W0, 3, units=2)
            driver.wait(lambda: bool(driver.of(TrainingEnded, lease)), "a training does not end")
            [end] = driver.of(TrainingEnded, lease)
            assert isinstance(end, TrainingEnded)
            assert (end.outcome, end.resource) == (Outcome.RETURNED, 2), f"the training ended so: {end}"
            driver.require_gone(pipe)

    def test_workers_train_side_by_side(self) -> None:
        with self.driver(parallelism=2) as driver:
            for worker in range(driver.preflight.parallelism):
                driver.attach(WorkerId(worker))
            for worker in range(driver.preflight.parallelism):
                driver.assign(WorkerId(worker))

    def test_the_token_is_neither_in_arguments_nor_in_the_environment(self) -> None:
        with self.driver() as driver:
            driver.attach()
            lease, _ = driver.assign(units=1)
            [first] = driver.of(Reported, lease)
            assert isinstance(first, Reported)
            assert first.metrics["seen"] == 0, "the token can be seen in the arguments or the environment of a process"

    def test_the_end_of_a_worker_that_is_dismissed_is_reported_once_with_a_reason(self) -> None:
        with self.driver() as driver:
            driver.attach()
            driver.send(W0, 1, DismissWorker(W0, 1, "nothing is left for it"))
            reason = driver.end_of(W0, 1)
            assert reason.strip(), "the end of a worker is told without a reason"
            driver.attach(W0, 2)
        self._require_one_end_each(driver)

    def test_kill_ends_a_worker_and_its_trial_and_that_is_reported_once(self) -> None:
        with self.driver() as driver:
            driver.attach()
            _, pipe = driver.assign()
            driver.launcher.kill(W0, 1)
            assert driver.end_of(W0, 1).strip(), "the end of a worker is told without a reason"
            driver.require_gone(pipe)
        self._require_one_end_each(driver)

    def test_kill_of_another_launch_ends_nobody(self) -> None:
        with self.driver() as driver:
            driver.attach(W0, 2)
            driver.launcher.kill(W0, 1)
            driver.launcher.kill(W1, 2)
            driver.assign(W0, 2)
            assert driver.ends == [], f"kill of another launch ended {driver.ends}"

    def test_a_slot_is_launched_again_after_its_worker_was_lost(self) -> None:
        with self.driver() as driver:
            for epoch in (1, 2):
                driver.attach(W0, epoch)
                driver.assign(W0, epoch)
                driver.launcher.kill(W0, epoch)
                driver.end_of(W0, epoch)
        self._require_one_end_each(driver)

    def test_a_worker_that_cannot_attach_is_reported_and_launch_raises_nothing(self) -> None:
        with self.driver() as driver:
            if driver.endpoint is None:
                return
            driver.endpoint = msgspec.structs.replace(driver.endpoint, address="127.0.0.1:9", spare_port=0)
            driver.reconnect_s = 0.2
            driver.launcher.launch(W0, 1)
            assert driver.end_of(W0, 1).strip(), "the end of a worker is told without a reason"

    def test_stop_ends_what_does_not_end_by_itself_and_leaves_nothing_behind(self) -> None:
        with self.driver() as driver:
            if driver.is_local:  # nothing trains there when ``train_here`` has returned
                return
            driver.attach()
            _, pipe = driver.assign()
            driver.launcher.stop(0.0)
            assert [end[:2] for end in driver.ends] == [(W0, 1)], "stop returned before the end of a worker was told"
            driver.require_gone(pipe)

    def test_stop_waits_for_workers_that_end_by_themselves(self) -> None:
        with self.driver() as driver:
            if driver.is_local:
                return
            driver.attach()
            driver.send(W0, 1, DismissWorker(W0, 1, "nothing is left for it"))
            driver.launcher.stop(self.patience_s)
            assert "nothing is left for it" in driver.end_of(W0, 1), "a worker was ended in its time of grace"

    def test_a_launch_after_stop_starts_nothing_and_is_reported(self) -> None:
        with self.driver() as driver:
            driver.launcher.stop(0.0)
            driver.launcher.launch(W0, 1)
            driver.end_of(W0, 1)
            assert driver.attachments == [], "a worker was started after stop"

    def test_it_serves_one_run_after_the_other(self) -> None:
        launcher = self.make()
        for _ in range(2):
            with self.driver(launcher=launcher) as driver:
                driver.attach()

    @staticmethod
    def _require_one_end_each(driver: RecordingDriver) -> None:
        launches = [end[:2] for end in driver.ends]
        assert len(launches) == len(set(launches)), f"an end is told more than once: {driver.ends}"
