"""Write docs/reference.md from the docstrings of the public names, or check that it is up to date.

    python scripts/write_reference.py          write it
    python scripts/write_reference.py --check  write nothing; exit with 1 if the page differs

The source is read, not imported: the page is the same whatever is installed.
"""

from __future__ import annotations

import argparse
import ast
import textwrap
from pathlib import Path

from _docstrings import as_markdown
from _source import Definition, ancestors, definition, is_record, members, public_names, signature

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference.md"
MODULES = {
    "asyncsearch": "What most searches need. `from asyncsearch import ...`",
    "asyncsearch.sequences": "Hyper-parameters that change during training ([sequences](sequences.md)).",
    "asyncsearch.simulate": "Searches on a virtual cluster ([simulation](simulate.md)).",
    "asyncsearch.checking": "What `check` returns ([checking a trainable](trainers.md#checking-a-trainable)).",
    "asyncsearch.doctor": "What a search runs on ([before the first search](clusters.md#before-the-first-search)).",
    "asyncsearch.space": "The classes behind the functions that make domains ([spaces](spaces.md)).",
    "asyncsearch.searchers": "For [searchers](searchers.md) of your own.",
    "asyncsearch.schedulers": "For [schedulers](write_your_own_scheduler.md) of your own.",
    "asyncsearch.store": "For [stores](write_your_own_store.md) of your own.",
    "asyncsearch.testing": "The laws of schedulers, searchers, stores and launchers, as tests.",
    "asyncsearch.packing": "Several torch models trained together ([packing](packing.md)).",
    "asyncsearch.errors": "All derive from `AsyncSearchError`.",
}
"""Public modules, in the order of the page. A name stands where it comes first."""


def code(text: str) -> list[str]:
    return ["```text", text, "```", ""]


def described(heading: str, node: ast.AST, text: str) -> list[str]:
    """Return the part of the page on a function, a method or a property."""
    found = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
    return [heading, "", *code(text), *as_markdown(found or "")]


def field(declaration: str, words: str) -> list[str]:
    text = f"- `{declaration}`: {' '.join(words.split()).replace('``', '`')}"
    return textwrap.wrap(text, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def class_members(found: Definition, documented: set[str]) -> list[str]:
    """Return the parts on the members of a class, with those that it inherits from classes without a part."""
    node = found.node
    assert isinstance(node, ast.ClassDef)
    lines: list[str] = []
    seen: set[str] = set()
    for owner in ancestors(found, stop=documented):
        fields, methods = members(owner)
        for name, text, words in fields:
            if name not in seen:
                lines += field(text, words)
                seen.add(name)
        if lines and lines[-1]:
            lines.append("")
        for method in methods:
            if method.name not in seen:
                lines += described(f"#### {node.name}.{method.name}", method, signature(method, is_method=True))
                seen.add(method.name)
    return lines


def entry(name: str, found: Definition, documented: set[str]) -> list[str]:
    """Return the part of the page on a public name."""
    node, heading = found.node, f"### {name}"
    if isinstance(node, ast.FunctionDef):
        return described(heading, node, signature(node))
    if not isinstance(node, ast.ClassDef):
        return [heading, "", *as_markdown(found.words)]
    lines = [heading, ""]
    init = next((part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"), None)
    if init is not None:
        lines += code(signature(init, is_method=True, name=name))
    elif is_record(node):
        lines += code(signature(node, name=name))
    lines += as_markdown(ast.get_docstring(node) or "")
    if init is not None:
        lines += as_markdown(ast.get_docstring(init) or "")
    return lines + class_members(found, documented - {name})


def page() -> str:
    """Return the whole page."""
    lines = [
        "# Reference",
        "",
        "<!-- scripts/write_reference.py writes this page from the docstrings. -->",
        "",
        "Every public name. Names that begin with an underscore, and modules that are not listed here, may change.",
        "",
    ]
    documented: set[str] = set()
    parts = []
    for module in MODULES:
        names = [name for name in public_names(module) if name not in documented]
        parts.append((module, names))
        documented |= {*names}
    for module, names in parts:
        lines += [f"## {module}", "", MODULES[module], ""]
        for name in sorted(names, key=str.lower):
            lines += entry(name, definition(module, name), documented)
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page differs")
    wanted = page()
    if parser.parse_args().check:
        is_same = PAGE.exists() and PAGE.read_text(encoding="utf-8") == wanted
        if not is_same:
            print("docs/reference.md does not have the present docstrings: run python scripts/write_reference.py.")
        return int(not is_same)
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
