"""The behaviour of a function as a digest: its bytecode with constants, what it captures, and helpers that it calls.

Comments, docstrings and line numbers do not count. Installed code counts by its name, the user's own by content.
Rule 1: a digest does not depend on the order of sets, on addresses or on the names of files.
Rule 2: what differs in content has another digest; in doubt, equal things may differ.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import pickle
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from asyncsearch.values import module_values
from asyncsearch.values.json_values import is_numpy_array, is_numpy_scalar

_HAS_DOCSTRING = 0x4000000
_KIND = 0xFFFF
"""The flags of a code without docstrings and `from __future__` imports."""
_INSTALLED = ("/site-packages/", "/dist-packages/")
_EVERYWHERE = frozenset({"asyncsearch", "builtins"})
_MOST_VALUES = 10_000
"""How many values are looked at where captured data does not count."""
_NOT_CONTENT = frozenset(
    {"__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__"}
    # What Python notes in a class as it is used.
    | {"__slotnames__", "_abc_impl", "__annotations_cache__"}
)


def code_digest(function: Callable[..., Any]) -> str:
    """Return the digest of a function with everything that it uses."""
    walk = ContentWalk(with_data=True)
    text = walk.describe(function)
    return digest_of([text, *(f"{name}={code}" for name, code in sorted(walk.found().items()))])


def parts_digests(trainable: object) -> dict[str, str]:
    """Return name -> digest of a trainable and of each helper and plain constant of the user's own that it uses.

    Data that it captures, such as arrays, counts by its type only.
    """
    walk = ContentWalk(with_data=False)
    walk.describe(trainable)
    return walk.found()


class ContentWalk:
    """Describes values, and collects each function, class and global constant of the user's own on the way."""

    def __init__(self, *, with_data: bool) -> None:
        self._with_data = with_data
        self._found: dict[str, set[str]] = {}
        self._open: dict[int, Any] = {}
        self._named: dict[int, Any] = {}
        self._left = sys.maxsize if with_data else _MOST_VALUES

    def found(self) -> dict[str, str]:
        """Return name -> digest; definitions of one name have one digest together."""
        return {name: digest_of(sorted(codes)) for name, codes in self._found.items()}

    def describe(self, value: Any) -> str:
        """Return a text that is equal for values of equal content."""
        if value is None or value is Ellipsis or isinstance(value, bool | int | float | complex | str | bytes):
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, types.CodeType):
            return self._code(value)
        if isinstance(value, types.FunctionType | type):
            return f"uses {self._name(value)}"
        if isinstance(value, types.ModuleType):
            return f"module {value.__name__}"
        if id(value) in self._open:
            return "again"
        self._left -= 1
        if self._left < 0:
            return "..."
        self._open[id(value)] = value
        try:
            return self._inside(value)
        finally:
            del self._open[id(value)]

    def _inside(self, value: Any) -> str:
        match value:
            case list() | tuple():
                return f"{type(value).__name__} {self._all(value)}"
            case set() | frozenset():
                return f"{type(value).__name__} {sorted(map(self.describe, list(value)))}"
            case dict():
                return f"dict {sorted((self.describe(key), self.describe(item)) for key, item in list(value.items()))}"
            case types.MethodType():
                return f"method {self._all((value.__func__, value.__self__))}"
            case functools.partial():
                return f"partial {self._all((value.func, value.args, value.keywords))}"
            case staticmethod() | classmethod():
                return f"{type(value).__name__} {self.describe(value.__func__)}"
            case property():
                return f"property {self._all((value.fget, value.fset, value.fdel))}"
            case _ if is_numpy_array(value) or is_numpy_scalar(value):
                return self._array(sys.modules["numpy"].asarray(value))
            case _:
                return self._object(value)

    def _array(self, array: Any) -> str:
        if array.ndim and not self._with_data:
            return "array"
        data = self.describe(array.tolist()) if array.dtype.hasobject else hashlib.sha256(array.tobytes()).hexdigest()
        return f"array {array.dtype} {array.shape} {data}"

    def _object(self, value: Any) -> str:
        name = getattr(value, "__qualname__", None)
        if name is not None and not hasattr(value, "__dict__"):  # built in
            return f"{getattr(value, '__module__', '')}.{name}"
        kind = self._name(type(value))
        if not is_own(type(value).__module__) and not hasattr(value, "__wrapped__"):
            return f"{kind} {self._pickled(value) if self._with_data else ''}"
        state = {**slots_of(value), **getattr(value, "__dict__", {})}
        return f"{kind} {self.describe(state)}"

    def _pickled(self, value: Any) -> str:
        try:
            return hashlib.sha256(pickle.dumps(value, protocol=4)).hexdigest()
        except Exception:
            # It is known by its attributes then: a value without any would be taken for each other one of its type.
            return self.describe(getattr(value, "__dict__", None) or repr(value))

    def _name(self, value: Any) -> str:
        """Return the name of a function or class, and collect it if it is the user's own."""
        name = str(value.__qualname__)
        module = str(getattr(value, "__module__", None) or "")
        if not is_own(module):
            return f"{module}.{name}"
        if id(value) not in self._named:
            self._named[id(value)] = value
            text = self._function(value) if isinstance(value, types.FunctionType) else self._class(value)
            self._found.setdefault(name, set()).add(digest_of([text]))
        return name

    def _function(self, function: types.FunctionType) -> str:
        self._globals(function.__code__, function.__globals__)
        attributes = {name: value for name, value in vars(function).items() if name != "__wrapped__"}
        wrapped = vars(function).get("__wrapped__")
        return self._all(
            (function.__code__, function.__defaults__, function.__kwdefaults__, list(captured_by(function)), wrapped)
        ) + self.describe(attributes)

    def _class(self, kind: type) -> str:
        own = {name: value for name, value in vars(kind).items() if name not in _NOT_CONTENT}
        content = {name: value for name, value in own.items() if not isinstance(value, types.MemberDescriptorType)}
        # A method belongs to its class: an edit of it is an edit of the class.
        texts = [
            f"{name}: {self._function(value) if isinstance(value, types.FunctionType) else self.describe(value)}"
            for name, value in sorted(content.items())
        ]
        return f"{self._all(kind.__bases__)} {texts}"

    def _code(self, code: types.CodeType) -> str:
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _KIND)
        table = getattr(code, "co_exceptiontable", b"")
        constants = self._all(_without_docstring(code))
        return f"code {digest_of([code.co_code.hex(), table.hex(), repr(names), repr(counts), constants])}"

    def _globals(self, code: types.CodeType, known: Mapping[str, Any]) -> None:
        """Collect the user's own objects that the names in a function's code stand for."""
        names = sorted(set(names_in(code)))
        modules = []
        for name in names:
            value = known.get(name, sys.modules.get(name) if name not in known else None)
            if isinstance(value, types.ModuleType):
                modules.append(value)
            elif name in known:
                self._global(name, value)
        for module in modules:
            if is_own(module.__name__):
                for name in names:
                    if name in vars(module):
                        self._attribute(name, vars(module)[name])

    def _attribute(self, name: str, value: Any) -> None:
        """Collect a global of another module, which a code reads as an attribute of it."""
        self._global(name, value)

    def _global(self, name: str, value: Any) -> None:
        # A list or dictionary of a trainable may collect what happens while it trains.
        if not self._with_data and isinstance(value, list | dict | set):
            return
        text = self.describe(value)
        if not text.startswith("uses "):
            self._found.setdefault(name, set()).add(digest_of([text]))

    def _all(self, values: Iterable[Any]) -> str:
        return repr([self.describe(value) for value in list(values)])


def digest_of(texts: Iterable[str]) -> str:
    """Return the hash of a list of texts."""
    # The length of each part stands before it, so that no two lists of texts are hashed as the same bytes.
    data = "".join(f"{len(text)}:{text}" for text in texts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def names_in(code: types.CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes in a code, and in the functions that it defines."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from names_in(inner)


def _without_docstring(code: types.CodeType) -> tuple[Any, ...]:
    """Return the constants of a code; those of functions begin with the docstring, or with None instead of it."""
    constants = code.co_consts
    # The bodies of classes and of comprehensions have no docstring there.
    is_function = bool(code.co_flags & inspect.CO_NEWLOCALS) and not code.co_name.startswith("<")
    is_documented = sys.version_info < (3, 13) or bool(code.co_flags & _HAS_DOCSTRING)
    if is_function and is_documented and constants and isinstance(constants[0], str):
        return (None, *constants[1:])
    return constants


def captured_by(function: types.FunctionType) -> Iterator[Any]:
    """Yield the values of the closure variables of a function."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # the variable is not assigned yet
            yield Ellipsis


def slots_of(value: Any) -> dict[str, Any]:
    """Return the attributes that an object keeps in slots."""
    names = (name for kind in type(value).__mro__ for name in _slot_names(kind))
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _slot_names(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def is_own(module: str) -> bool:
    """Return whether a module is the user's own: one of a script or notebook, or a source that is not installed."""
    if module.partition(".")[0] in _EVERYWHERE or module in sys.builtin_module_names:
        return False
    found = sys.modules.get(module)
    if module == "__main__" or found is None:  # code that was sent by value comes from a module that is not here
        return True
    file = str(module_values(found).get("__file__") or "").replace("\\", "/")
    return file.endswith(".py") and not any(part in file for part in _INSTALLED) and not file.startswith(_libraries())


@functools.cache
def _libraries() -> tuple[str, ...]:
    return tuple({f"{sysconfig.get_path(name)}/".replace("\\", "/") for name in ("stdlib", "platstdlib")})
