"""A stage tree as a few lines for a terminal: the nodes that most trials read, and the number of the others."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from asyncsearch.ids import NodeKey, TrialId
from asyncsearch.report.formatting import cut, many
from asyncsearch.report.tree.sentences import branched_text, nothing_shared, reader_names, savings, values, varying
from asyncsearch.report.tree.view import Kind, TreeNode, TreeView

WIDTH = 100
_DEEPEST = 12
_TRAINED = (Kind.SHARED, Kind.TRAINED)


def text_tree(tree: TreeView, lines: int = 30) -> str:
    """Return the nodes that most trials read, as an indented tree of about ``lines`` lines."""
    if alone := nothing_shared(tree):
        return f"{savings(tree)}\n{textwrap.fill(alone, WIDTH)}"
    # Sorting is stable, and a parent comes before its children and has no fewer readers than they have.
    ranked = sorted(tree.nodes, key=lambda key: -tree.nodes[key].intervals[0].count)
    return "\n".join([savings(tree), *_lines(tree, set(ranked[:lines]))])


def _lines(tree: TreeView, shown: set[NodeKey]) -> Iterator[str]:
    nodes, only = tree.nodes, varying(tree)
    work: list[tuple[NodeKey | int, int]] = _level(tree.roots, 0, shown)
    while work:
        key, depth = work.pop()
        indent = "  " * min(depth, _DEEPEST)
        if isinstance(key, int):
            yield f"{indent}... and {key:,} more"
            continue
        yield _cut_right(f"{indent}{_line(nodes[key], only)}")
        # The only child of a node is not indented further: a long chain stays on the page.
        deeper = depth if len(nodes[key].children) == 1 and not nodes[key].ends else depth + 1
        children = sorted(nodes[key].children, key=lambda child: nodes[child].start)
        work += _level(children, deeper, shown)


def _level(keys: list[NodeKey], depth: int, shown: set[NodeKey]) -> list[tuple[NodeKey | int, int]]:
    """Return the siblings to write, the last one first, and the number of hidden ones."""
    visible: list[tuple[NodeKey | int, int]] = [(key, depth) for key in keys if key in shown]
    hidden = len(keys) - len(visible)
    return [*([(hidden, depth)] if hidden else []), *reversed(visible)]


def _line(node: TreeNode, only: set[str]) -> str:
    first, last = node.intervals[0], node.intervals[-1]
    kinds = [interval.kind for interval in node.intervals]
    states = ", ".join(dict.fromkeys("trained" if kind in _TRAINED else kind.value for kind in kinds))
    who = _readers(node)
    branched = branched_text(node)
    who += f", {branched}" if branched else ""
    return f"{first.start:,}-{last.stop:,} {states} for {who}: {values(node.params, first.start, last.stop, only)}"


def _readers(node: TreeNode) -> str:
    """Return who reads a node, and who reads it further than the others: "trial-0, trial-1, from 6 trial-0"."""
    parts: list[str] = []
    seen: tuple[int, tuple[TrialId, ...]] | None = None
    for interval in node.intervals:
        if (interval.count, interval.named) != seen:
            names = reader_names(interval) if interval.count <= 3 else many(interval.count, "trial")
            parts.append(f"from {interval.start:,} {names}" if parts else names)
        seen = interval.count, interval.named
    return ", ".join(parts)


def _cut_right(words: str) -> str:
    """Cut a line at the width of a terminal, and keep its indentation."""
    bare = words.lstrip(" ")
    indent = len(words) - len(bare)
    return " " * indent + cut(bare, WIDTH - indent)
