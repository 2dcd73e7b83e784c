"""The code in README and docs runs as it stands there, each page in one process from top to bottom, in an empty folder.

A block that cannot run by itself is marked in its first line: ```python fragment.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python(?P<mark>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, *, fragments: bool) -> list[str]:
    found = BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [match["code"] for match in found if (match["mark"].strip() == "fragment") == fragments]


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, fragments=False)], ids=lambda page: page.name)
def test_code_runs_as_it_stands_in_the_page(page: Path, tmp_path: Path) -> None:
    for package in ("keras", "lightgbm", "optuna", "sklearn", "torch", "xgboost"):
        if re.search(rf"^(import|from) {package}\b", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
            pytest.importorskip(package)
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks(page, fragments=False)), encoding="utf-8")
    # Threads of OpenMP wait for each other by computing, which takes the processor from the tests beside them.
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_code_whose_heading_gives_its_length_is_no_longer_than_that() -> None:
    headed = re.compile(r"^#+ (?P<title>[^\n]* in (?P<most>\d+) lines)$.*?" + BLOCK.pattern, BLOCK.flags)
    found = [match for page in PAGES for match in headed.finditer(page.read_text(encoding="utf-8"))]
    assert "A launcher in 60 lines" in {match["title"] for match in found}
    lengths = [(match["title"], sum(map(bool, match["code"].splitlines())), int(match["most"])) for match in found]
    assert [title for title, length, most in lengths if length > most] == []


def test_the_readme_goes_from_installing_to_a_search_to_its_own_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    order = ["pip install .", "```python\n", "| | asyncsearch |", "![", "bash scripts/demo.sh", "bash scripts/test.sh"]
    places = [text.find(part) for part in order]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_fragments_are_python(page: Path) -> None:
    for code in blocks(page, fragments=True):
        ast.parse(code)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    from asyncsearch.cli.parser import make_parser

    known = make_parser().format_help()
    text = page.read_text(encoding="utf-8")
    code = "\n".join(part.strip("`") for part in re.findall(r"```bash.*?```|`[^`\n]+`", text, flags=re.DOTALL))
    for command in re.findall(r"^asyncsearch ([a-z]+)", code, flags=re.MULTILINE):
        assert re.search(rf"^    {command}\b", known, flags=re.MULTILINE), command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_are_not_much_longer_than_the_code_is_allowed_to_be(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 140 and not line.startswith("|")] == []


def linked(page: Path) -> list[Path]:
    """Return the files and folders of this repository to which a page links, pictures included."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
    return [(page.parent / link).resolve() for link in links]


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    assert [path for path in linked(page) if not path.exists()] == []
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", text):
        at = (page.parent / target).resolve() if target else page
        assert anchor in headings(at), f"{target}#{anchor}"


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs/index.md"
    assert {*linked(index)} == {*(ROOT / "docs").glob("*.md")} - {index}


def test_the_reference_has_the_present_docstrings_of_every_public_name() -> None:
    import asyncsearch

    command = [sys.executable, str(ROOT / "scripts/write_reference.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    entries = re.findall(r"^### (\w+)$", (ROOT / "docs/reference.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert {*dir(asyncsearch), *asyncsearch.sequences.__all__} - {"__version__", "sequences"} <= {*entries}


DEPENDS = "Each Python block of this page needs the ones before it."


def names_of(code: str) -> tuple[set[str], set[str]]:
    """Return the names that a block uses and does not define, and those that it defines."""
    nodes = list(ast.walk(ast.parse(code)))
    defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    defined |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    defined |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    imports = [alias for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names]
    defined |= {(alias.asname or alias.name).split(".")[0] for alias in imports}
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return used - defined, defined


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_says_that_a_block_needs_the_ones_before_it(page: Path) -> None:
    before: set[str] = set()
    needed: set[str] = set()
    for code in blocks(page, fragments=False):
        missing, defined = names_of(code)
        needed |= missing & before
        before |= defined
    says = DEPENDS in " ".join(page.read_text(encoding="utf-8").split())
    assert says == bool(needed), f"names that come from an earlier block: {', '.join(sorted(needed))}"
