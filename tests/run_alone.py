"""A pytest plugin: failed tests run once more, alone, after all others have ended.

A test that fails beside others and passes alone shows a fault of the test or of the code that depends on the machine's
pace. It does not fail the run, and it is not hidden: its first failure is printed, and the closing line counts it.
Many failures are no accident; then nothing runs again.

    pytest -p tests.run_alone
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from _pytest.terminal import TerminalReporter

MOST = 8
"""More failures than this count as they are."""
PASSED_ALONE = "passed only alone"
"""Name of these tests in the closing line."""
_KINDS = ("failed", "error")


@pytest.hookimpl(trylast=True)  # the workers of xdist have ended by then
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Run the failed tests again, and take back the failures of those that pass."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if hasattr(session.config, "workerinput") or session.exitstatus != pytest.ExitCode.TESTS_FAILED or reporter is None:
        return
    names = sorted({_name(report) for kind in _KINDS for report in reporter.stats.get(kind, [])})
    if 0 < len(names) <= MOST:
        reporter.write_sep("=", f"{len(names)} failed; again, alone", bold=True)
        passed = {name for name in names if _passes(name, session)}
        _take_back(reporter, passed)
        if len(passed) == len(names):
            session.exitstatus = pytest.ExitCode.OK


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print the first failures of the tests that passed alone."""
    for report in terminalreporter.stats.get(PASSED_ALONE, []):
        terminalreporter.write_sep("_", f"{_name(report)}: failed beside others, passed alone", bold=True)
        report.toterminal(terminalreporter._tw)


def _name(report: pytest.TestReport) -> str:
    """Return a test's name without the group that xdist appends to it."""
    name, _, group = report.nodeid.rpartition("@")
    return name if name and "]" not in group else report.nodeid


def _passes(name: str, session: pytest.Session) -> bool:
    """Run one test in a process of its own."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "--no-header", "-rN", name]
    return subprocess.run(command, cwd=session.config.rootpath, env=clean, check=False).returncode == 0


def _take_back(reporter: TerminalReporter, passed: set[str]) -> None:
    for kind in _KINDS:
        reports = reporter.stats.pop(kind, [])
        for report in reports:
            reporter.stats.setdefault(PASSED_ALONE if _name(report) in passed else kind, []).append(report)
