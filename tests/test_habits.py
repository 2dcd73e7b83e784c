"""Habits that no other tool of scripts/check.sh holds: a cheap import, small folders, one place for each danger."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("pyspark", "grpc", "torch", "tensorflow", "google.protobuf", "pandas", "scipy", "optuna", "altair")
FRAMEWORKS = ("torch", "tensorflow", "keras", "pandas", "scipy", "optuna", "altair", "matplotlib", "pyspark")
MOST_MODULES = 25


def test_import_pulls_in_no_framework() -> None:
    code = f"import sys, asyncsearch; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_everything_imports_at_once_where_no_framework_is_installed() -> None:
    code = f"""
import sys
sys.modules |= dict.fromkeys({FRAMEWORKS!r})  # None: an import of it fails as if it was not installed
from asyncsearch import *
Study, Hyperband, what_if, sequences
import asyncsearch
for name in asyncsearch.__dir__():
    try:
        getattr(asyncsearch, name)
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "asyncsearch.KerasTrainer needs keras, which is not installed: pip install 'asyncsearch[tensorflow]'.",
        "asyncsearch.TorchTrainer needs torch, which is not installed: pip install 'asyncsearch[torch]'.",
    ]


def test_no_folder_has_more_modules_side_by_side_than_a_reader_takes_in() -> None:
    folders = [path.parent for path in (ROOT / "asyncsearch").rglob("*.py") if path.name != "__init__.py"]
    assert [folder for folder, count in Counter(folders).items() if count > MOST_MODULES] == []


IMPORT_BY_NAME = re.compile(r"""(?:import_module|__import__)\(\s*f?["']asyncsearch""")


def test_no_module_of_the_package_is_imported_by_a_string() -> None:
    assert [name for name, text in sources().items() if IMPORT_BY_NAME.search(text)] == [], (
        "the contracts do not see it"
    )


@cache
def sources() -> dict[str, str]:
    """Return the text of every module of the package, generated ones left out."""
    paths = [path for path in (ROOT / "asyncsearch").rglob("*.py") if path.parent.name != "pb"]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


@cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(text) for name, text in sources().items()}


def test_shell_scripts_parse() -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    for script in sorted((ROOT / "scripts").glob("*.sh")):
        done = subprocess.run([bash, "-n", str(script)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_types_are_prepared_for_decoding_at_import() -> None:
    """msgspec prepares a struct when it is first decoded, and two threads that do so at once crash the process."""
    late = []
    for path, tree in trees().items():
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        for called, call in (found for function in functions for found in calls_of(function)):
            if called not in ("decode", "convert", "Decoder"):
                continue
            name = ast.unparse(call.func)
            has_type = name.endswith(".decode") and any(keyword.arg == "type" for keyword in call.keywords)
            if has_type or name == "msgspec.convert" or name.endswith(".Decoder"):
                late.append(f"{path}:{call.lineno}: {ast.unparse(call)}")
    assert late == []


RECURSIVE = ("rmtree", "copytree", "rglob", "removedirs")
"""Calls that call themselves for each level of a folder: 1,000 levels are an error."""
LISTING = ("scandir", "listdir", "iterdir")
READS_OWN_FILES = (
    "checking/", "doctor/", "launch/", "runner/process/kernel_files", "runner/packs/pack_timing",
    "runner/process/lifeline", "runner/process/process_holdings", "agent/runner_template", "rpc/forks",
    "wandb/small_wandb",
)  # fmt: skip
"""Modules that read what the system or they themselves have made: files of /proc and packages, pipes, probes."""


def calls_of(tree: ast.AST) -> list[tuple[str, ast.Call]]:
    """Return the calls in a tree, each with the last part of what is called."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [(getattr(call.func, "attr", getattr(call.func, "id", "")), call) for call in calls]


def is_for_reading(call: ast.Call) -> bool:
    """Return whether a call of ``open`` or ``Path.open`` reads: its mode is not given, or has an r."""
    modes = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    return isinstance(call.func, ast.Name) and not any(set(mode) & set("wax") for mode in modes[-1:])


def test_folders_are_walked_in_one_place_and_without_recursion() -> None:
    found = []
    for name, tree in trees().items():
        if name.startswith(("asyncsearch/testing/", "asyncsearch/packing/compile_")):
            continue
        for called, call in calls_of(tree):
            is_deep = called == "glob" and any("**" in ast.unparse(arg) for arg in call.args)
            is_walk = called == "walk" and ast.unparse(call.func) == "os.walk"
            if called in RECURSIVE or is_deep or is_walk:
                found.append(f"{name}:{call.lineno}: {called}")
        lists = any(word in sources()[name] for word in LISTING)
        for function in (node for node in ast.walk(tree) if lists and isinstance(node, ast.FunctionDef)):
            names = {called for called, _ in calls_of(function)}
            if function.name in names and names & set(LISTING):
                found.append(f"{name}:{function.lineno}: {function.name} calls itself")
    assert found == [], "asyncsearch.files.trees walks, removes and copies folders of any depth"


def test_files_of_others_are_opened_for_reading_in_one_place() -> None:
    found = []
    for name, tree in trees().items():
        inside = name.removeprefix("asyncsearch/")
        if inside.startswith(("testing/", "files/", *READS_OWN_FILES)):
            continue
        for called, call in calls_of(tree):
            if called in ("read_text", "read_bytes") and isinstance(call.func, ast.Attribute):
                found.append(f"{name}:{call.lineno}: {called}")
            if called == "open" and is_for_reading(call):
                found.append(f"{name}:{call.lineno}: open")
            words = ast.unparse(call) if called == "open" else ""
            if words.startswith("os.open(") and "O_RDONLY" in words and "O_DIRECTORY" not in words:
                found.append(f"{name}:{call.lineno}: os.open")
    allowed = {"asyncsearch/cli/__init__.py", "asyncsearch/runner/template.py"}  # /dev/null
    assert [one for one in found if one.partition(":")[0] not in allowed] == [], "asyncsearch.files.plain opens files"
