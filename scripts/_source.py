"""Public names and their definitions, read from the source of the package without importing it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 100


class Definition(NamedTuple):
    """Where a name is defined."""

    module: str
    node: ast.stmt
    words: str = ""
    """The text below an assignment."""


@cache
def tree(module: str) -> ast.Module:
    """Return the parsed source of a module."""
    path = ROOT / Path(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def public_names(module: str) -> list[str]:
    """Return the names that a module is for: its ``__all__``, those of the package, or its classes."""
    if module == "asyncsearch":
        typed = next(node for node in tree(module).body if isinstance(node, ast.If))
        imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
        return [alias.name for node in imports for alias in node.names if alias.name != "sequences"]
    for node in tree(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    return [node.name for node in tree(module).body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]


@cache
def definition(module: str, name: str) -> Definition:
    """Return where a name of a module is defined, following its imports.

    Raises:
        LookupError: the module has no such name.
    """
    body = [inner for node in tree(module).body for inner in (node.body if isinstance(node, ast.If) else [node])]
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return Definition(module, node)
        if isinstance(node, ast.ImportFrom) and node.module and any(alias.name == name for alias in node.names):
            return definition(node.module, name)
        if isinstance(node, ast.Assign | ast.AnnAssign) and name in _targets(node):
            return Definition(module, node, _text(after))
    raise LookupError(f"{module} has no {name}")


def ancestors(found: Definition, *, stop: set[str]) -> Iterator[ast.ClassDef]:
    """Yield a class and the classes of this package that it derives from, except those named in ``stop``."""
    if not isinstance(found.node, ast.ClassDef):
        return
    yield found.node
    for base in found.node.bases:
        name = ast.unparse(base).split("[")[0]
        if name in stop or not _is_ours(found.module, name):
            continue
        yield from ancestors(definition(found.module, name), stop=stop)


def _is_ours(module: str, name: str) -> bool:
    for node in tree(module).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return True
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            return (node.module or "").startswith("asyncsearch")
    return False


def members(node: ast.ClassDef) -> tuple[list[tuple[str, str, str]], list[ast.FunctionDef]]:
    """Return the documented public fields of a class as (name, declaration, text), and its documented methods."""
    fields = []
    for part, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(part, ast.Assign | ast.AnnAssign) and _text(after):
            [name, *_] = _targets(part)
            # A field that is stored under another name is read by that name.
            if not name.startswith("_") and "field(name=" not in ast.unparse(part):
                fields.append((name, _declaration(part), _text(after)))
    methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
    return fields, [method for method in methods if method.name[0] != "_" and ast.get_docstring(method)]


def is_record(node: ast.ClassDef) -> bool:
    """Whether a class gets its ``__init__`` from its fields."""
    makers = [ast.unparse(part).split("(")[0] for part in (*node.decorator_list, *node.bases)]
    return any(maker in ("dataclass", "msgspec.Struct", "NamedTuple") for maker in makers) and bool(_fields(node))


def signature(node: ast.FunctionDef | ast.ClassDef, *, is_method: bool = False, name: str = "") -> str:
    """Return a call with its parameters; a property is a name with its type."""
    if isinstance(node, ast.ClassDef):
        options = [*node.keywords, *(word for maker in node.decorator_list for word in getattr(maker, "keywords", []))]
        is_kw_only = any(word.arg == "kw_only" and ast.unparse(word.value) == "True" for word in options)
        return _call(name, (["*"] if is_kw_only else []) + [_declaration(part) for part in _fields(node)], "")
    makers = {ast.unparse(maker).split(".")[-1] for maker in node.decorator_list}
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None and node.name != "__init__" else ""
    if makers & {"property", "cached_property"}:
        return f"{node.name}{returns.replace(' -> ', ': ')}"
    parameters = _parameters(node.args)
    if is_method and "staticmethod" not in makers:
        parameters = parameters[1:]
    return _call(name or node.name, parameters, returns)


def _call(name: str, parameters: list[str], returns: str) -> str:
    line = f"{name}({', '.join(parameters)}){returns}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {parameter}," for parameter in parameters), f"){returns}"])


def _parameters(arguments: ast.arguments) -> list[str]:
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + [*arguments.defaults]
    found = [_parameter(one, default) for one, default in zip(plain, defaults, strict=True)]
    if arguments.posonlyargs:
        found.insert(len(arguments.posonlyargs), "/")
    if arguments.vararg is not None:
        found.append(f"*{_parameter(arguments.vararg, None)}")
    elif arguments.kwonlyargs:
        found.append("*")
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    found += [_parameter(one, default) for one, default in pairs]
    # `**ungrouped: Never` takes nothing: it is there for a better error.
    if arguments.kwarg is not None and ast.unparse(arguments.kwarg.annotation or ast.Constant("")) != "Never":
        found.append(f"**{_parameter(arguments.kwarg, None)}")
    return found


def _parameter(one: ast.arg, default: ast.expr | None) -> str:
    text = one.arg if one.annotation is None else f"{one.arg}: {ast.unparse(one.annotation)}"
    if default is None:
        return text
    shown = "..." if isinstance(default, ast.Name) and default.id.startswith("_") else ast.unparse(default)
    return f"{text}{' = ' if one.annotation is not None else '='}{shown}"


def _fields(node: ast.ClassDef) -> list[ast.AnnAssign]:
    found = [part for part in node.body if isinstance(part, ast.AnnAssign)]
    return [
        part
        for part in found
        if not ast.unparse(part.annotation).startswith("ClassVar") and not ast.unparse(part.target).startswith("_")
    ]


def _declaration(node: ast.Assign | ast.AnnAssign) -> str:
    """Return a field as the parameter that it makes: the default out of ``field(...)``."""
    value = node.value
    if not isinstance(value, ast.Call) or not ast.unparse(value.func).endswith("field"):
        return ast.unparse(node)
    options = {word.arg: ast.unparse(word.value) for word in value.keywords}
    text = ast.unparse(node).split(" = ")[0]
    if "default_factory" in options:
        return f"{text} = {options['default_factory']}()"
    return f"{text} = {options['default']}" if "default" in options else text


def _targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [ast.unparse(target) for target in targets]


def _text(node: ast.stmt | None) -> str:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return node.value.value if is_text else ""
