"""Names: one word has one meaning, and the name of a file says what is inside (docs/glossary.md)."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "asyncsearch"
GLOSSARY = ROOT / "docs" / "glossary.md"
MOST_ROOT_FILES = 17

# fmt: off
VAGUE_STEMS = {
    "answers", "asking", "base", "call", "chance", "common", "courses", "exact", "generators", "helpers", "kinds",
    "known", "legal", "middle", "misc", "once", "own", "parts", "points", "proof", "ready", "runs", "tools",
    "undecided", "utils", "values", "words",
}
"""Names of modules that need a noun beside them: known_reports.py, not known.py."""
# fmt: on


@cache
def sources() -> dict[Path, ast.Module]:
    """Return the modules of the package; read when a test runs, since each worker of xdist imports this file."""
    return {
        path.relative_to(PACKAGE): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
        if "pb" not in path.parts
    }


def words(identifier: str) -> set[str]:
    """Return the words of a name: ``is_on_its_way`` and ``PlanPath`` have four and two."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)}


def table(heading: str) -> list[list[str]]:
    """Return the cells of each row of the table under a heading of the glossary."""
    section = GLOSSARY.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def definitions(tree: ast.Module) -> Iterator[str]:
    """Yield the public classes of a module, and its aliases of types."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript | ast.BinOp | ast.Name):
            yield from (t.id for t in node.targets if isinstance(t, ast.Name) and re.fullmatch(r"[A-Z][a-zA-Z]+", t.id))


def identifiers(tree: ast.Module) -> Iterator[str]:
    """Yield every name that a module gives: to classes, functions, arguments, variables and attributes."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.ClassDef(name=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.arg(arg=name)
            ):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass


@cache
def all_identifiers() -> dict[Path, set[str]]:
    return {path: set(identifiers(tree)) for path, tree in sources().items()}


def test_names_of_tests_have_at_most_70_characters() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and len(node.name) > 70
    ]
    assert long == [], "say subject, verb and object: a line of pytest's summary is not wrapped twice"


def test_no_two_public_classes_share_a_name() -> None:
    places = defaultdict(list)
    for path, tree in sources().items():
        for name in definitions(tree):
            places[name].append(str(path))
    of_others = {"MedianStoppingRule"}  # programs of Maggy and of Ray Tune import it by this name
    shared = {name: paths for name, paths in places.items() if not name.startswith("_") and len(paths) > 1}
    assert shared.keys() <= of_others, shared


def test_nothing_shadows_the_path_of_pathlib() -> None:
    shadows = [
        f"{path}: {ast.unparse(node)}"
        for path, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module != "pathlib"
        and any((alias.asname or alias.name) == "Path" for alias in node.names)
    ]
    shadows += [str(path) for path, names in all_identifiers().items() if "Path" in names]
    assert shadows == []


@cache
def all_bases() -> dict[str, list[str]]:
    return {
        node.name: [ast.unparse(base) for base in node.bases]
        for tree in sources().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


def inherits(name: str, root: str) -> bool:
    return name == root or any(inherits(base, root) for base in all_bases().get(name, ()))


def asked_classes(tree: ast.Module) -> set[str]:
    """Return the classes that a module names in ``isinstance(...)`` and in ``case Class(...)``."""
    asked = [node.cls for node in ast.walk(tree) if isinstance(node, ast.MatchClass)]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and len(node.args) == 2]
    asked += [call.args[1] for call in calls if getattr(call.func, "id", "") in ("isinstance", "issubclass")]
    return {word for node in asked for word in re.findall(r"\w+", ast.unparse(node))}


@pytest.mark.parametrize(("root", "place"), [("Store", "store"), ("BasePlan", "plan"), ("Launcher", "launch")])
def test_only_makers_of_stores_plans_and_launchers_ask_for_their_class(root: str, place: str) -> None:
    classes = {name for name in all_bases() if inherits(name, root)}
    outside = {path: tree for path, tree in sources().items() if path.parts[0] != place}
    askers = [f"{path}: {name}" for path, tree in outside.items() for name in sorted(asked_classes(tree) & classes)]
    assert len(classes) > 2
    assert askers == []


def test_the_name_of_a_module_says_what_is_inside() -> None:
    assert [str(path) for path in sources() if path.stem in VAGUE_STEMS] == []


def test_the_root_of_the_package_is_the_vocabulary_and_the_front_door() -> None:
    files = [path.name for path in PACKAGE.iterdir() if path.is_file()]
    assert len(files) <= MOST_ROOT_FILES, sorted(files)


def test_what_the_glossary_names_is_in_the_code() -> None:
    places = {row[0]: re.findall(r"`([^`]+)`", row[2]) for row in table("We say")}
    assert [word for word, names in places.items() if not names] == []
    names = {name for given in all_identifiers().values() for name in given}
    missing = [
        place
        for given in places.values()
        for place in given
        if not ((PACKAGE / place).exists() if "/" in place or "." in place else place in names)
    ]
    assert missing == []


def test_no_word_of_the_glossary_stands_twice() -> None:
    known = [row[0] for row in table("We say")]
    refused = [word for row in table("We do not say") for word in row[0].split(", ")]
    assert sorted({word for word in known + refused if (known + refused).count(word) > 1}) == []
    assert known == sorted(known, key=str.lower)


def test_no_refused_word_is_in_an_identifier() -> None:
    refused = {word for row in table("We do not say") for word in row[0].split(", ")}
    found = [
        f"{path}: {name}"
        for path, names in all_identifiers().items()
        for name in sorted(names)
        if words(name) & refused
    ]
    assert found == []
