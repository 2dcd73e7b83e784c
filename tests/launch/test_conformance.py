"""Every launcher keeps the laws; each fault of a launcher is found, and told in words that name it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from asyncsearch.ids import WorkerId
from asyncsearch.launch.base_launcher import ConfigFor, Launcher, OnWorkerEnded
from asyncsearch.launch.inline import InlineLauncher
from asyncsearch.launch.processes import ProcessLauncher
from asyncsearch.launch.threads.launcher import ThreadLauncher
from asyncsearch.testing import LauncherTests

pytestmark = pytest.mark.slow


class TestProcessLauncher(LauncherTests):
    def make(self) -> Launcher:
        return ProcessLauncher()


class TestInlineLauncher(LauncherTests):
    def make(self) -> Launcher:
        return InlineLauncher()


class TestThreadLauncher(LauncherTests):
    def make(self) -> Launcher:
        return ThreadLauncher()


class AlwaysTheFirstEpoch(ProcessLauncher):
    def start(self, config_for: ConfigFor, ended: OnWorkerEnded) -> None:
        super().start(lambda worker, epoch: config_for(worker, 1), ended)


class KillsNobody(ProcessLauncher):
    def kill(self, worker: WorkerId, epoch: int) -> None:
        """Forgets to."""


class KillsWhoeverHasTheSlot(ProcessLauncher):
    def kill(self, worker: WorkerId, epoch: int) -> None:
        for number in range(1, 4):
            super().kill(worker, number)


class TellsTwice(ProcessLauncher):
    def start(self, config_for: ConfigFor, ended: OnWorkerEnded) -> None:
        def twice(worker: WorkerId, epoch: int, reason: str) -> None:
            ended(worker, epoch, reason)
            ended(worker, epoch, reason)

        super().start(config_for, twice)


class TellsNoReason(ProcessLauncher):
    def start(self, config_for: ConfigFor, ended: OnWorkerEnded) -> None:
        super().start(config_for, lambda worker, epoch, reason: ended(worker, epoch, ""))


class StopsNobody(ProcessLauncher):
    is_for_good = False

    def stop(self, grace_s: float) -> None:
        if self.is_for_good:
            super().stop(grace_s)
        self.is_for_good = True  # the second time, so that this test leaves nothing behind


class HasNoPatience(ProcessLauncher):
    def stop(self, grace_s: float) -> None:
        super().stop(0.0)


class LaunchesAfterStop(ProcessLauncher):
    def launch(self, worker: WorkerId, epoch: int) -> None:
        self._is_stopped = False
        super().launch(worker, epoch)


class ShowsItsToken(ProcessLauncher):
    def launch(self, worker: WorkerId, epoch: int) -> None:
        assert self._config_for is not None
        endpoint = self._config_for(worker, epoch).endpoint
        os.environ["ASYNCSEARCH_TEST_TOKEN"] = "" if endpoint is None else endpoint.token
        super().launch(worker, epoch)


FAULTS = [
    (AlwaysTheFirstEpoch, "attaches_under", "worker 0 attached under epoch 1"),
    (KillsNobody, "kill_ends", "the end of worker 0, epoch 1 is not told"),
    (KillsWhoeverHasTheSlot, "kill_of_another", "kill of another launch ended|does not train"),
    (TellsTwice, "dismissed", "an end is told more than once"),
    (TellsNoReason, "kill_ends", "without a reason"),
    (StopsNobody, "stop_ends", "stop returned before the end"),
    (HasNoPatience, "stop_waits", "ended in its time of grace"),
    (LaunchesAfterStop, "launch_after_stop", "started after stop|is not told"),
    (ShowsItsToken, "token", "the token can be seen"),
]


NEVER_TOLD_S: dict[type[Launcher], float] = {KillsNobody: 0.5, LaunchesAfterStop: 0.5}
"""How long the end of a launch is waited for where it never comes; all else may take what a busy machine needs."""


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    yield
    os.environ.pop("ASYNCSEARCH_TEST_TOKEN", None)


@pytest.mark.parametrize(("launcher", "law", "words"), FAULTS)
def test_a_launcher_with_a_fault_is_refused_in_words_that_name_it(
    launcher: type[Launcher], law: str, words: str
) -> None:
    class Suite(LauncherTests):
        end_patience_s = NEVER_TOLD_S.get(launcher, LauncherTests.end_patience_s)

        def make(self) -> Launcher:
            return launcher()

    suite = Suite()
    [name] = [name for name in dir(suite) if name.startswith("test_") and law in name]
    with pytest.raises(AssertionError, match=words):
        getattr(suite, name)()
