"""Who is charged with a runner's death: the trial with what it did, nobody with what was done to it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from asyncsearch.agent import runner_deaths
from asyncsearch.agent.runner_deaths import OomCounters, OomKills, cause_of_death
from asyncsearch.events import KILLED
from asyncsearch.runner.process import kernel_files
from asyncsearch.runner.process.kernel_files import events_file

MIB = 1024 * 1024
NONE, SOME = OomKills(0, 0), OomKills(1, 1, 512 * MIB)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_from_outside_is_charged_to_nobody(number: signal.Signals) -> None:
    assert cause_of_death(-number, 0, NONE) == (KILLED, f"its process was killed by {number.name} from outside")


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGBUS, signal.SIGILL])
def test_a_crash_is_charged_to_the_trial(number: signal.Signals) -> None:
    text = f"The trial's process was killed by {number.name}; compiled code crashed."
    assert cause_of_death(-number, 0, SOME) == ("signal", text)


@pytest.mark.parametrize("returncode", [0, 3, 137])
def test_an_exit_is_charged_to_the_trial(returncode: int) -> None:
    assert cause_of_death(returncode, 0, SOME)[0] == "exit"


def test_memory_that_ran_out_is_charged_to_the_trial_with_what_it_held() -> None:
    kind, text = cause_of_death(-signal.SIGKILL, 700 * MIB, SOME)
    assert kind == "out_of_memory"
    assert "because memory ran out: it held 700 MiB at most, and all processes of its cgroup may hold 512 MiB." in text


def test_sigterm_is_no_sign_of_memory() -> None:
    assert cause_of_death(-signal.SIGTERM, 0, SOME) == (KILLED, "its process was killed by SIGTERM from outside")


@pytest.mark.parametrize(
    ("kills", "doubt"), [(OomKills(), True), (OomKills(None, 1), True), (OomKills(None, 0), False)]
)
def test_where_the_kernel_does_not_say_who_was_killed_nobody_is_charged(kills: OomKills, doubt: bool) -> None:
    kind, text = cause_of_death(-signal.SIGKILL, 700 * MIB, kills)
    assert kind == KILLED
    words = "; memory may have run out" if doubt else " from outside"
    assert text == f"its process was killed by SIGKILL{words} (it held 700 MiB at most)"


V1 = "4:memory:/yarn/one\n3:cpu,cpuacct:/\n0::/ignored\n"
V2 = "0::/kube/pod/one\n"
V1_MOUNTS = """\
32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
33 31 0:30 {root} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
V2_MOUNTS = "30 23 0:26 {root} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


@pytest.mark.parametrize(
    ("cgroups", "mounts", "file"),
    [
        (V1, V1_MOUNTS.format(root="/"), "/sys/fs/cgroup/memory/yarn/one/memory.oom_control"),
        (V1, V1_MOUNTS.format(root="/yarn/one"), "/sys/fs/cgroup/memory/memory.oom_control"),
        (V2, V2_MOUNTS.format(root="/"), "/sys/fs/cgroup/kube/pod/one/memory.events"),
        (V2, V2_MOUNTS.format(root="/kube/pod"), "/sys/fs/cgroup/one/memory.events"),
        ("0::/\n", V2_MOUNTS.format(root="/"), "/sys/fs/cgroup/memory.events"),
        ("0::/../other\n", V2_MOUNTS.format(root="/"), "/sys/fs/cgroup/memory.events"),
        (V2, V1_MOUNTS.format(root="/"), "/sys/fs/cgroup/unified/kube/pod/one/memory.events"),
        ("", V2_MOUNTS.format(root="/"), None),
        (V2, "", None),
    ],
)
def test_the_counter_of_a_cgroup_is_found_in_both_versions(cgroups: str, mounts: str, file: str | None) -> None:
    assert events_file(cgroups, mounts) == (None if file is None else Path(file))


class Kernel:
    """Counters, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kills, self.now = 0, 100.0
        texts = {"/proc/7/cgroup": V2, "/proc/self/mountinfo": V2_MOUNTS.format(root="/")}
        counted = "/sys/fs/cgroup/kube/pod/one/memory.events"
        for reader in (runner_deaths, kernel_files):
            monkeypatch.setattr(
                reader,
                "text_of",
                lambda file: f"oom 9\noom_kill {self.kills}\n" if str(file) == counted else texts.get(str(file), ""),
            )
        monkeypatch.setattr("asyncsearch.agent.runner_deaths.time.monotonic", lambda: self.now)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


def test_what_was_killed_long_before_is_not_taken_for_this_death(kernel: Kernel) -> None:
    counters = OomCounters(7)
    counters.look()
    kernel.kills = 3
    for _ in range(2):
        kernel.now += 1.0
        counters.look()
    assert counters.kills() == OomKills(0)


def test_a_kill_counted_at_the_last_look_still_explains_this_death(kernel: Kernel) -> None:
    counters = OomCounters(7)
    counters.look()
    kernel.now += 1.0
    kernel.kills = 1
    counters.look()
    assert counters.kills() == OomKills(1)


def test_a_stale_look_is_compared_with_no_more(kernel: Kernel) -> None:
    counters = OomCounters(7)
    counters.look()
    kernel.now += 60.0
    kernel.kills = 1
    counters.look()
    assert counters.kills() == OomKills(0)
    assert OomCounters(7).kills() == OomKills(), "nothing was looked at"


HUNGRY = "import sys; sys.stdin.read(1); kept = [bytearray(b'x' * 2**20) for _ in range(256)]"


def test_the_kernel_says_that_memory_ran_out_in_a_cgroup(cgroup: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HUNGRY], stdin=subprocess.PIPE) as process:
        (cgroup / "cgroup.procs").write_text(str(process.pid))
        counters = OomCounters(process.pid)
        counters.look()
        process.communicate(b"x")
    kills = counters.kills()
    assert process.returncode == -signal.SIGKILL
    assert (kills.in_cgroup, kills.limit_bytes) == (1, 64 * MIB)
    assert cause_of_death(process.returncode, 0, kills)[0] == "out_of_memory"


def test_a_kill_from_outside_is_none_of_the_kernel(cgroup: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HUNGRY], stdin=subprocess.PIPE) as process:
        (cgroup / "cgroup.procs").write_text(str(process.pid))
        counters = OomCounters(process.pid)
        counters.look()
        process.kill()
    assert counters.kills().in_cgroup == 0
    assert cause_of_death(process.returncode, 0, counters.kills())[0] == KILLED
