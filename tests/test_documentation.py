"""The links, commands, paths and lists of the pages lead to what there is.

A test reads all pages, and names the page and the line of each finding; tests/test_page_code.py runs the code of pages.
"""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import asyncsearch
from asyncsearch.cli.parser import make_parser

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "asyncsearch"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
DOCUMENTS = sorted({*ROOT.glob("*.md"), *PAGES, *(ROOT / "rpc").glob("*.md"), *PACKAGE.rglob("*.md")})
BLOCK = re.compile(r"^```python(?P<mark>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def text_of(page: Path | str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def place(page: Path, at: int) -> str:
    """Return the page and the line of a position in its text, as editors and terminals open them."""
    return f"{page.relative_to(ROOT)}:{text_of(page).count(chr(10), 0, at) + 1}"


def prose(page: Path) -> str:
    """Return the text of a page with its blocks of code blank, each line in its place."""
    text = text_of(page)
    for code in re.findall(r"^```.*?^```$", text, flags=re.MULTILINE | re.DOTALL):
        text = text.replace(code, "\n" * code.count("\n"))
    return text


def blocks(page: Path, *, fragments: bool) -> list[re.Match[str]]:
    found = BLOCK.finditer(text_of(page))
    return [match for match in found if (match["mark"].strip() == "fragment") == fragments]


def codes(page: Path) -> list[str]:
    """Return the blocks of a page that run."""
    return [match["code"] for match in blocks(page, fragments=False)]


def test_code_whose_heading_gives_its_length_is_no_longer_than_that() -> None:
    headed = re.compile(r"^#+ (?P<title>[^\n]* in (?P<most>\d+) lines)$.*?" + BLOCK.pattern, BLOCK.flags)
    found = [match for page in PAGES for match in headed.finditer(text_of(page))]
    assert "A launcher in 60 lines" in {match["title"] for match in found}
    lengths = [(match["title"], sum(map(bool, match["code"].splitlines())), int(match["most"])) for match in found]
    assert [title for title, length, most in lengths if length > most] == []


def test_the_readme_goes_from_installing_to_a_search_to_its_own_commands() -> None:
    order = ["pip install .", "```python\n", "| | asyncsearch |", "![", "bash scripts/demo.sh", "bash scripts/test.sh"]
    places = [text_of("README.md").find(part) for part in order]
    assert -1 not in places
    assert places == sorted(places)


def faults_of_fragments(page: Path) -> Iterator[str]:
    for block in blocks(page, fragments=True):
        try:
            ast.parse(block["code"])
        except SyntaxError as error:
            yield f"{place(page, block.start())}: {error}"


def unknown_commands(page: Path) -> Iterator[str]:
    known = make_parser().format_help()
    for code in re.finditer(r"```bash.*?```|`[^`\n]+`", text_of(page), flags=re.DOTALL):
        for command in re.finditer(r"^`?asyncsearch ([a-z]+)", code[0], flags=re.MULTILINE):
            if not re.search(rf"^    {command[1]}\b", known, flags=re.MULTILINE):
                yield f"{place(page, code.start() + command.start())}: asyncsearch {command[1]}"


def broken_links(page: Path) -> Iterator[str]:
    for link in re.finditer(r"\]\(<?([^)>\s#]*)#?([^)>\s]*)>?[^)]*\)", prose(page)):
        if re.match(r"[a-z]+:", link[1]):
            continue
        target = (page.parent / link[1]).resolve() if link[1] else page
        if not target.exists() or (link[2] and link[2] not in headings(target)):
            yield f"{place(page, link.start())}: {link[0]}"


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def missing_paths(page: Path) -> Iterator[str]:
    folders = r"(?:scripts|notebooks|docs|rpc|tests|asyncsearch|newsfragments|\.ci|\.github)"
    for code in re.finditer(r"```.*?```|`[^`\n]+`", text_of(page), flags=re.DOTALL):
        for path in re.finditer(rf"(?<![\w./-]){folders}/[\w./-]*\w", code[0]):
            if not (ROOT / path[0]).exists():
                yield f"{place(page, code.start() + path.start())}: {path[0]}"


def modules_that_are_gone() -> Iterator[str]:
    files = [
        path.relative_to(ROOT)
        for folder in ("asyncsearch", "scripts", "tests")
        for path in (ROOT / folder).rglob("*.py")
    ]
    known = {"/".join(file.parts[start:]) for file in files for start in range(len(file.parts))}
    pages = [page for page in DOCUMENTS if not page.stem.startswith("migrate_")]  # they name other people's programs
    for path in (*pages, *PACKAGE.rglob("*.py")):
        text = text_of(path)
        for name in re.findall(r"`([\w/]+\.py)`", text):
            if name not in known:
                yield f"{path.relative_to(ROOT)}: {name}"
        for name in re.findall(rf"`((?:{'|'.join(NO_VARIABLES)})(?:\.\w+)+)`", text):
            parts = name.split(".")
            places = [PACKAGE.joinpath(*parts[:end]) for end in range(2, len(parts) + 1)]
            if not any(place.is_dir() or place.with_suffix(".py").exists() for place in places) and name != SERVER:
                yield f"{path.relative_to(ROOT)}: {name}"


NO_VARIABLES = (
    "agent",
    "checking",
    "driver",
    "engine",
    "fair",
    "launch",
    "packing",
    "plan",
    "rpc",
    "runner",
    "trainers",
)
"""Folders whose names nobody gives to a variable in an example."""
SERVER = "driver.asyncsearch"
"""The name in the driver's certificate."""
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


def unsaid_needs(page: Path) -> Iterator[str]:
    before: set[str] = set()
    needed: set[str] = set()
    for code in codes(page):
        missing, defined = names_of(code)
        needed |= missing & before
        before |= defined
    if (DEPENDS in " ".join(text_of(page).split())) != bool(needed):
        yield f"{place(page, 0)}: names that come from an earlier block: {', '.join(sorted(needed))}"


def test_fragments_are_python() -> None:
    assert [fault for page in DOCUMENTS for fault in faults_of_fragments(page)] == []


def test_every_command_that_a_page_names_exists() -> None:
    assert [command for page in PAGES for command in unknown_commands(page)] == []


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    assert [link for page in DOCUMENTS for link in broken_links(page)] == []


def test_every_path_of_the_repository_in_a_page_exists() -> None:
    assert [path for page in DOCUMENTS for path in missing_paths(page)] == []


def test_every_module_that_a_page_a_docstring_or_a_comment_names_exists() -> None:
    assert list(modules_that_are_gone()) == []


def test_a_page_says_that_a_block_needs_the_ones_before_it() -> None:
    assert [need for page in PAGES for need in unsaid_needs(page)] == []


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs/index.md"
    links = {(index.parent / link).resolve() for link in re.findall(r"\]\(([^)#\s]+)", prose(index))}
    assert {*links} == {*(ROOT / "docs").glob("*.md")} - {index}


def run_script(*command: str) -> tuple[int, str]:
    """Return the exit status and the output of a script of this repository."""
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_reference_has_the_present_docstrings_of_every_public_name() -> None:
    assert run_script("scripts/write_reference.py", "--check") == (0, "")
    entries = re.findall(r"^### (\w+)$", text_of("docs/reference.md"), flags=re.MULTILINE)
    assert {*dir(asyncsearch), *asyncsearch.sequences.__all__} - {"__version__", "sequences"} <= {*entries}


def test_the_floors_in_contributing_are_those_of_the_contracts() -> None:
    assert run_script("scripts/write_floors.py", "--check") == (0, "")


def test_there_is_one_list_of_laws_and_the_other_pages_link_to_it() -> None:
    numbers = re.findall(r"^(\d+)\. ", text_of("docs/laws.md"), flags=re.MULTILINE)
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
    others = [page for page in DOCUMENTS if page.name != "laws.md"]
    lists = [
        page
        for page in others
        for part in re.split(r"^#+ ", text_of(page), flags=re.MULTILINE)
        if re.match(r".*\b[Ll]aws?\b.*\n", part) and re.search(r"^\d+\. ", part, re.MULTILINE)
    ]
    assert lists == []
    linking = {page.name for page in others if re.search(r"\]\((docs/)?laws\.md", text_of(page))}
    assert linking >= {"CONTRIBUTING.md", "README.md", "architecture.md"}


def listed(page: str, section: str, pattern: str) -> set[str]:
    """Return the names in code in the first cells of the rows below a heading of a page."""
    _, _, text = text_of(page).partition(section)
    cells = [line.split("|")[1] for line in text.split("\n## ")[0].splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(pattern, cell)}


def test_architecture_lists_the_folders_and_modules_of_the_root() -> None:
    inside = [path for path in PACKAGE.iterdir() if not path.name.startswith("_") or path.name == "__main__.py"]
    names = {f"{path.name}/" if path.is_dir() else path.name for path in inside if path.name != "py.typed"}
    found = listed("docs/architecture.md", "## Folders", r"`([\w./]+)`")
    assert names - found == set()
    assert [name for name in sorted(found) if not (PACKAGE / name).exists()] == []


def test_architecture_names_no_folder_that_is_gone() -> None:
    _, _, text = text_of("docs/architecture.md").partition("## Folders")
    rows = [line for line in text.split("\n## ")[0].splitlines() if line.startswith("| `")]
    inner = {
        name: [PACKAGE / top.strip("`") / name for top in re.findall(r"`[\w.]+/`", row.split("|")[1])]
        + [PACKAGE / name]
        for row in rows
        for name in re.findall(r"`(\w+/)`", row.split("|", 2)[2])
    }
    assert [name for name, places in inner.items() if not any(path.exists() for path in places)] == []


def test_the_engines_page_lists_each_of_its_modules() -> None:
    home = PACKAGE / "engine"
    modules = {path.relative_to(home).as_posix() for path in home.rglob("*.py") if path.name != "__init__.py"}
    assert listed("asyncsearch/engine/DESIGN.md", "\n| file", r"`([\w/]+\.py)`") == modules


def test_contributing_lists_the_folders_of_scenarios() -> None:
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/__init__.py")}
    by_path = {path.name for path in PACKAGE.iterdir()} | {"scripts", "notebooks"}
    assert listed("CONTRIBUTING.md", "## Tests", r"`(\w+)/`") == folders - by_path


def test_each_function_in_the_life_of_a_report_exists() -> None:
    names = sorted(set(re.findall(r"`([a-z_.]+:[A-Za-z_.]+)`", text_of("docs/life_of_a_report.md"))))
    missing = []
    for name in names:
        module, _, attributes = name.partition(":")
        try:
            reduce(getattr, attributes.split("."), importlib.import_module(f"asyncsearch.{module}"))
        except (ImportError, AttributeError) as error:
            missing.append(f"{name}: {error}")
    assert missing == []
    packages = {re.split("[.:]", name)[0] for name in names}
    assert packages >= {"runner", "agent", "rpc", "driver", "engine", "schedulers", "searchers", "plan", "journal"}
