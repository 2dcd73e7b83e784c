"""The source of a trainable, and the use of its trial that it shows."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator

from asyncsearch.other_libraries.trainables import answer_on_trial
from asyncsearch.trainable import Trainable


def foreign_uses(function: Trainable, metric: str) -> Iterator[str]:
    """Yield the uses of its trial, in the source, that no trial allows and that each trial comes to.

    A wrapper may give the function something else than the trial, and a name that is bound again is something else. A
    function that asks what its trial is may be for several libraries.
    """
    tree = None if hasattr(function, "__wrapped__") else source_of(function)
    name = trial_argument(function, tree)
    if not isinstance(tree, ast.FunctionDef) or tree.decorator_list or not name:
        return
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    bound = [node for node in ast.walk(tree) if isinstance(node, ast.arg) and node.arg == name]
    if any(not isinstance(node.ctx, ast.Load) for node in uses) or len(bound) > 1:
        return
    nodes = list(_sure_to_run(tree))
    if any(isinstance(node, ast.Call) and _asks_about(name, node) for node in nodes):
        return
    for node in nodes:
        match node:
            case ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=str() as key)) if owner == name:
                yield f"{name} is a trial, no mapping. Write `def {tree.name}(trial):` and trial.params[{key!r}]."
            case ast.Attribute(value=ast.Name(id=owner), attr=attribute) if owner == name:
                answer = answer_on_trial(attribute, metric)
                if answer:
                    yield f"a trial has no {attribute}: {answer}"
            case _:
                pass


def _sure_to_run(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and the nodes below it, except those that a condition or an error may keep from running."""
    yield node
    perhaps = _MAY_BE_LEFT_OUT.get(type(node), ())
    for field, value in ast.iter_fields(node):
        if field not in perhaps:
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, ast.AST):
                    yield from _sure_to_run(one)


_MAY_BE_LEFT_OUT: dict[type[ast.AST], tuple[str, ...]] = {
    ast.If: ("body", "orelse"),
    ast.IfExp: ("body", "orelse"),
    ast.Match: ("cases",),
    ast.Try: ("body", "handlers", "orelse"),
    ast.TryStar: ("body", "handlers", "orelse"),
}
_ASKING = frozenset({"hasattr", "getattr", "isinstance", "type"})


def _asks_about(name: str, call: ast.Call) -> bool:
    """Return whether a call asks what the object of a name is."""
    is_asking = isinstance(call.func, ast.Name) and call.func.id in _ASKING
    return is_asking and any(isinstance(one, ast.Name) and one.id == name for one in call.args)


def given_to_epochs(function: object) -> set[str]:
    """Return the names of what a function gives ``trial.epochs()`` by its source, None excepted."""
    tree = source_of(function)
    calls = [] if tree is None else [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {
        keyword.arg or ""
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "epochs"
        for keyword in call.keywords
        if not (isinstance(keyword.value, ast.Constant) and keyword.value.value is None)
    }


def never_asks_for(function: object, method: str) -> bool:
    """Whether the source shows that the trial never leaves the function and is never asked for a method."""
    tree = source_of(function)
    name = trial_argument(function, tree)
    if tree is None or not name:
        return False
    owners = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    if any(id(node) not in owners for node in uses):
        return False
    attributes = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and _is_name(n.value, name)}
    return method not in attributes


def trial_argument(function: object, tree: ast.stmt | None) -> str:
    """Return the name under which a function gets its trial, by its source; empty if the source does not say."""
    if not isinstance(tree, ast.FunctionDef):
        return ""
    names = [arg.arg for arg in (*tree.args.posonlyargs, *tree.args.args)][inspect.ismethod(function) :]
    return names[0] if names else ""


def source_of(function: object) -> ast.stmt | None:
    """Return the source of a function as a tree; None where it cannot be had."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]  # type: ignore[arg-type]
    except (OSError, TypeError, SyntaxError, IndexError):
        return None


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
