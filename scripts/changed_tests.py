"""Print the tests that a change touches, for scripts/check.sh --changed: one path a line.

A change is the difference between the working tree and the point where its branch left main, new files included. It
touches the tests that import a changed module, or a module that imports one; the tests that lie where it does
(asyncsearch/plan/ has tests/plan/); those that name a changed script; and those that read all files. A change of
pyproject.toml or of what all tests have in common touches every test.

Two steps of imports are a choice. Without a limit every change of the engine touches nearly every test; a fault that
only a third step shows is found by the whole suite, which CI runs. Coverage that was measured before (pytest-testmon)
would choose more finely, but tests take twice as long under it where Python has no sys.monitoring.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath

ROOT = Path(__file__).resolve().parent.parent
OF_ALL_FILES = ("tests/test_habits.py", "tests/test_names.py", "tests/test_documentation.py")
OF_PICTURES = ("tests/test_pictures.py",)
OF_EVERYTHING = ("pyproject.toml", "tests/conftest.py")
STEPS = 2


def changed_files(root: Path) -> list[str]:
    """Return the files that differ from main's last common commit, deleted and untracked ones included."""
    names = [_git(root, "rev-parse", "--verify", "--quiet", name) for name in ("origin/main", "main", "HEAD")]
    main = next(name for name in names if name)
    base = _git(root, "merge-base", "HEAD", main)
    files = _git(root, "diff", "--name-only", "--no-renames", "-z", base)
    files += _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return sorted({file for file in files.split("\0") if file})


def _git(root: Path, *command: str) -> str:
    done = subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.rstrip("\n")


def touched_tests(root: Path, changed: Iterable[str]) -> list[str]:
    """Return the files and folders of tests that changed files touch; empty if nothing has changed."""
    changed = [*changed]
    if any(file in OF_EVERYTHING for file in changed):
        return ["tests"]
    imports = {module_of(path): set(imports_of(root, path)) for path in _sources(root)}
    near = set(importers(imports, {module_of(PurePath(file)) for file in changed if file.endswith(".py")}))
    found = {name.replace(".", "/") + ".py" for name in near if name.rpartition(".")[2].startswith("test_")}
    for file in changed:
        found |= set(_beside(root, PurePath(file)))
    found |= set(OF_ALL_FILES) if changed else set()
    paths = [path for path in sorted(found) if (root / path).exists()]
    return [path for path in paths if not any(path.startswith(f"{folder}/") for folder in paths)]


def _beside(root: Path, file: PurePath) -> Iterator[str]:
    """Yield the tests of a file by its place."""
    folder = file.parts[1] if len(file.parts) > 2 else file.stem
    match file.parts[0]:
        case "asyncsearch":
            yield from (f"tests/{folder}", f"tests/test_{folder}.py")
        case "tests" if file.suffix != ".py":
            yield f"tests/{folder}"
        case "scripts":
            yield from (_name(root, path) for path in _tests(root) if file.stem in path.read_text(encoding="utf-8"))
        case "notebooks" | "rpc":
            yield f"tests/{file.parts[0]}"
        case _ if file.suffix == ".md":
            yield "tests/test_page_code.py"
        case _ if file.suffix == ".svg":
            yield from OF_PICTURES


def importers(imports: Mapping[str, set[str]], modules: Iterable[str]) -> set[str]:
    """Return modules, those that import them, and so on, as many steps as count."""
    found = {*modules}
    for _ in range(STEPS):
        found |= {name for name, known in imports.items() if known & found}
    # A helper of tests is a part of those that import it, however far it is from the change.
    helpers = {name for name in found if name.startswith("tests.")}
    while further := {name for name, known in imports.items() if known & helpers} - helpers:
        helpers |= further
    return found | helpers


def imports_of(root: Path, path: PurePath) -> Iterator[str]:
    """Yield the modules from which a file gets its names: of ``from package import name`` the one that defines it."""
    for node in ast.walk(ast.parse((root / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (defined_in(root, node.module, alias.name) for alias in node.names)


def defined_in(root: Path, module: str, name: str) -> str:
    """Return the module that defines a name of a module: itself, a module below it, or what its package imports."""
    package = root / module.replace(".", "/")
    if not (package / "__init__.py").exists():
        return module
    if (package / f"{name}.py").exists() or (package / name).is_dir():
        return f"{module}.{name}"
    for node in ast.walk(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and name in {alias.name for alias in node.names}:
            return defined_in(root, node.module, name)
    return module


def module_of(path: PurePath) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _sources(root: Path) -> Iterator[PurePath]:
    paths = [path for top in ("asyncsearch", "tests") for path in (root / top).rglob("*.py")]
    return (path.relative_to(root) for path in paths if path.parent.name != "pb")


def _tests(root: Path) -> Iterator[Path]:
    return (root / "tests").rglob("test_*.py")


def _name(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


if __name__ == "__main__":
    print(*touched_tests(ROOT, changed_files(ROOT)), sep="\n")
