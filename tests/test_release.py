"""A release: news fragments become the changelog, and deprecated names go when the page on stability says so."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from asyncsearch import Study, uniform
from asyncsearch._version import __version__
from asyncsearch.sentences import warn_of_former_name

ROOT = Path(__file__).resolve().parent.parent
KINDS = {
    kind["directory"] for kind in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
}


def test_the_newest_release_of_the_changelog_is_this_version() -> None:
    headings = re.findall(r"^## \[([^]]+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert headings[0] == __version__


def test_pages_install_the_wheel_of_this_version() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert set(re.findall(r"asyncsearch-([\d.]+)-py3", text)) == {__version__}


def test_every_news_fragment_has_a_name_that_a_release_takes() -> None:
    names = [path.name for path in (ROOT / "newsfragments").iterdir() if path.name != "README.md"]
    known = re.compile(rf"(\d+|\+[\w-]+)\.({'|'.join(KINDS)})\.md")
    assert [name for name in names if not known.fullmatch(name)] == []


def test_a_release_joins_the_fragments_above_the_release_before(tmp_path: Path) -> None:
    pytest.importorskip("towncrier")
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "newsfragments", tmp_path / "newsfragments")
    for name in ("33.added.md", "+words.fixed.md"):
        (tmp_path / "newsfragments" / name).write_text(f"`{name}` is news.\n", encoding="utf-8")
    command = [sys.executable, "-m", "towncrier", "build", "--yes", "--version", "9.9.9", "--date", "2030-01-31"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    text = (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8")
    release, _, before = text.partition("## [9.9.9] - 2030-01-31\n")[2].partition(f"\n## [{__version__}]")
    assert "### Added" in release
    assert "- `33.added.md` is news. (issue 33)" in release
    assert "### Fixed" in release
    assert "- `+words.fixed.md` is news.\n" in release
    assert before, "the release before follows"
    assert [path.name for path in (tmp_path / "newsfragments").iterdir()] == ["README.md"]


def deprecated() -> dict[str, tuple[str, str]]:
    """Return the former names that warn, each with the name to write and the last minor version that has it."""
    calls = [
        node
        for path in (ROOT / "asyncsearch").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "warn_of_former_name"
    ]
    values = [[ast.literal_eval(value) for value in (*call.args, call.keywords[0].value)] for call in calls]
    return {former: (name, last) for former, name, last in values}


def test_the_page_lists_the_former_names_and_none_is_overdue() -> None:
    page = (ROOT / "docs/stability.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| `([\w.]+)` \| ([\d.]+) \|$", page, flags=re.MULTILINE)
    assert {former: (name, last) for former, name, last in rows} == deprecated()
    minor = [int(part) for part in __version__.split(".")[:2]]
    assert [former for former, _, last in rows if [int(part) for part in last.split(".")] < minor] == []


def test_a_former_name_warns_at_the_line_that_uses_it() -> None:
    def former() -> None:
        warn_of_former_name("Study.old", "Study.new", last="0.3")

    with pytest.warns(DeprecationWarning, match=r"Study\.old is now Study\.new, and goes after .* Write new") as caught:
        former()
    assert caught[0].filename == __file__


def test_a_former_name_does_what_the_present_one_does(tmp_path: Path) -> None:
    made = Study(
        lambda trial: trial.report(loss=trial.params["x"]),
        space={"x": uniform(0, 1)},
        metric="loss",
        mode="min",
        store=tmp_path / "s",
        backend="inline",
    )
    made.run(1, display="none")
    params = made.trials[0].params
    with pytest.warns(DeprecationWarning, match=r"Study\.evaluate"):
        assert made.eval(params, 1) == made.evaluate(params, 1)
