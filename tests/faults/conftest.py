"""Counts the damages and kills of the tests that passed, wherever they ran, and prints them at the end."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from asyncsearch.files.trees import remove_tree, walk


@pytest.fixture(autouse=True)
def _counted(request: pytest.FixtureRequest) -> Iterator[None]:
    """Note how many damages or kills a test is, see ``shares.counted``; leave no deep folder, on which pytest fails."""
    counts = getattr(request.function, "counts", {})
    request.node.user_properties.extend(counts.items())
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    if folder is not None and folder.is_dir():
        deep = [entry.name for entry in walk(folder, into=lambda entry: entry.base != "deep") if entry.base == "deep"]
        for name in deep:
            remove_tree(folder / name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts: Counter[str] = Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            if report.when == "call":
                for name, value in report.user_properties:
                    counts[f"{name} {outcome}"] += value if name in ("damages", "kills") else 0
    found = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()) if count)
    if found and os.environ.get("ASYNCSEARCH_TESTS") == "all":
        terminalreporter.write_line(f"of the tests of faults: {found}")
