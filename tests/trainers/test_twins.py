"""The folders of the two frameworks have the same file names, and say which files have no twin."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TRAINERS = Path(__file__).resolve().parents[2] / "asyncsearch" / "trainers"


def names(framework: str) -> set[str]:
    """Return the modules of a framework, as ``packs.units``."""
    folder = TRAINERS / framework
    modules = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.py") if path.stem != "__init__")
    return {".".join(module.parts) for module in modules}


def test_each_trainer_file_has_a_twin_or_is_named_as_without_one() -> None:
    modules = {framework: names(framework) for framework in ("torch", "keras")}
    for framework, other in (("torch", "keras"), ("keras", "torch")):
        words = ast.get_docstring(ast.parse((TRAINERS / framework / "__init__.py").read_text())) or ""
        said = [name for row in re.findall(r"^    (\S.*?)  ", words, re.MULTILINE) for name in row.split(", ")]
        alone = modules[framework] - modules[other]
        assert sorted(name.rpartition(".")[2] for name in said) == sorted(name.rpartition(".")[2] for name in alone)
