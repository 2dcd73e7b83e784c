"""Pickles the user's own code by value, so that a worker needs neither its files nor the driver's process.

Broadcast variables of Spark travel with it. Objects of Spark's driver do not: the answer is the line to write.
"""

from __future__ import annotations

import functools
import importlib
import io
import pickle
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import cloudpickle

from asyncsearch.launch.installed_modules import is_installed
from asyncsearch.launch.own_modules import SKIPPED, OwnModules, is_inside, place_of
from asyncsearch.runner.process import rebuilt_values, sent_code

_DRIVER_ONLY = {
    "Accumulator": "an accumulator of Spark, to which only tasks of Spark add. Report the number instead, as in "
    "trial.report(..., count=count)",
    "SparkSession": "the session of Spark, which only the driver has. Read what trials need before the search, as in "
    "rows = spark.table(...).toPandas(), and use rows in the function",
    "SparkContext": "the context of Spark, which only the driver has. Read what trials need before the search, as in "
    "rows = sc.textFile(...).collect(), and use rows in the function",
    "RDD": "an RDD of Spark, which only the driver has. Collect it before the search, as in rows = {name}.collect(), "
    "and use rows in the function",
    "DataFrame": "a DataFrame of Spark, which only the driver has. Collect it before the search, as in "
    "rows = {name}.toPandas(), and use rows in the function; if it is large, write it to files with "
    "{name}.write.parquet(...), and read them with trial.once(...)",
    "Frame": "a DataFrame of Spark, which only the driver has. Collect it before the search, as in "
    "rows = {name}.to_pandas(), and use rows in the function",
    "JavaWrapper": "an object of Spark ML, which only the driver has. Train with it in Spark itself, or with a library "
    "that needs no Spark in the function",
    "SQLContext": "the context of Spark SQL, which only the driver has. Read what trials need before the search, as in "
    "rows = spark.table(...).toPandas(), and use rows in the function",
    "Column": "a column of Spark, which only the driver has. Collect its values before the search, as in "
    "rows = df.select({name}).toPandas(), and use rows in the function",
    "GroupedData": "a grouping of Spark, which only the driver has. Collect the result before the search, as in "
    "rows = {name}.count().toPandas(), and use rows in the function",
}
"""Name of a class -> words on its objects, and the line to write."""
OR_IN_THREADS = "; or run the trials in threads of the driver, which may use it: Study(..., backend='threads')"


class UnsendableError(Exception):
    """A value that must not be sent; ``words`` name it and the line to write."""

    def __init__(self, value: object, words: str) -> None:
        super().__init__(words.format(name="it"))
        self.value, self.words = value, words


def spark_words(value: object) -> str | None:
    """Return words on a value of Spark that only the driver has, with the line to write. None if it is another one."""
    for kind in type(value).__mro__:
        if kind.__module__.partition(".")[0] == "pyspark" and kind.__name__ in _DRIVER_ONLY:
            return f"{_DRIVER_ONLY[kind.__name__]}{OR_IN_THREADS}"
    return None


def value_of_broadcast(value: object) -> tuple[Any] | None:
    """Return the value of a broadcast variable, alone in a tuple. None if it is something else."""
    kind = type(value)
    if kind.__name__ == "Broadcast" and kind.__module__ in ("pyspark.broadcast", "pyspark.core.broadcast"):
        return (value.value,)  # type: ignore[attr-defined]
    return None


_NAMES_OF_TYPES = (typing.ParamSpec, typing.TypeVarTuple)
_ASSIGNED = ("__module__", "__name__", "__qualname__", "__doc__")


_reduced = cloudpickle.Pickler.dispatch_table[types.CodeType]


def _reduce_code(code: types.CodeType) -> tuple[Any, ...]:
    # cloudpickle from 3.1.3 writes "<dynamic-code>" in place of the file: tracebacks of workers would lack the lines,
    # and a resumed study would describe its functions in other words than the script does.
    make, arguments, *rest = _reduced(code)
    file = next(index for index, argument in enumerate(arguments) if isinstance(argument, str))
    return make, (*arguments[:file], code.co_filename, *arguments[file + 1 :]), *rest


class CodePickler(cloudpickle.Pickler):  # type: ignore[misc]
    """``cloudpickle.Pickler`` that keeps the name of each function's file, in every version of cloudpickle."""

    dispatch_table = cloudpickle.Pickler.dispatch_table.new_child({types.CodeType: _reduce_code})


def dumps(value: object) -> bytes:
    """Pickle a value for ``pickle.loads``, which needs cloudpickle installed."""
    buffer = io.BytesIO()
    CodePickler(buffer).dump(value)
    return buffer.getvalue()


class _Namespace:
    """The globals of a module that is sent by value: in the worker, those of the module itself."""

    def __init__(self, module: types.ModuleType) -> None:
        self.module = module


class ValuePickler(CodePickler):
    """Sends each module of the user's own as one object, with all its globals, whatever refers to it."""

    def __init__(self, file: Any, own: OwnModules, root: object = None) -> None:
        """Make a pickler.

        Args:
            own: the modules of the user's own, and how each is sent.
            root: the only member of own modules that is written itself, to see whether it can be sent. None for all.
        """
        super().__init__(file)
        self._own, self._root = own, root
        self.files: set[str] = set()
        self.mentioned: set[str] = set()
        """Names of the own modules that something refers to."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, types.FunctionType):
            return _registered(obj, self._function(obj))
        if isinstance(obj, type):
            return _registered(obj, self._class(obj))
        if isinstance(obj, types.ModuleType):
            return self._module(obj)
        if isinstance(obj, types.CodeType):
            self.mentioned |= self._own.imported_by(obj)
            return NotImplemented
        if isinstance(obj, _Namespace):
            is_complete = self._root is None and obj.module.__name__ in self._own.sent
            return (sent_code.namespace, (obj.module,)) if is_complete else (dict, ())
        if type(obj) is object and (place := self._own.place_of_mark(obj)) is not None:
            self.mentioned.add(place[0])
            if self._own.goes_by_name(place[0]):
                return getattr, (self._own.get(place[0]), place[1])
        if (reduced := _rebuilt(obj)) is not None:
            return reduced
        if (words := spark_words(obj)) is not None:
            raise UnsendableError(obj, words)
        self._require_content(obj)
        return NotImplemented

    def _require_content(self, value: Any) -> None:
        """Refuse an object of the user's own that pickles as a name: a worker has no such name."""
        kind, module = type(value), getattr(value, "__module__", None)
        if kind.__module__ == "ctypes" or type(kind).__module__ == "_ctypes":
            raise pickle.PicklingError("a library in C is loaded by each process for itself")
        if kind in self.dispatch_table:
            return
        if module != "__main__" and self._own.get(str(module)) is None:
            return
        methods: tuple[Any, ...] = (kind.__reduce__, kind.__reduce_ex__)
        if methods != (object.__reduce__, object.__reduce_ex__):
            reduced = value.__reduce_ex__(self.proto)
            if isinstance(reduced, str):
                raise pickle.PicklingError(f"it is pickled as the name {reduced!r}, which a worker does not have")

    def _function(self, function: types.FunctionType) -> Any:
        self.files.add(function.__code__.co_filename)
        module = self._own.module_of_function(function)
        if module is None:
            return _dispatching(function) or super().reducer_override(function)
        if (other := self._member(function, module)) is not None:
            return other
        names = function.__code__.co_names
        held = {one.__name__ for name in names if isinstance(one := vars(module).get(name), types.ModuleType)}
        self.mentioned |= self._own.reached_in(held, names)
        self.globals_ref[id(vars(module))] = _Namespace(module)
        if (reduced := _dispatching(function)) is not None:
            return reduced
        make, arguments, (attributes, slots), *rest = self._dynamic_function_reduce(function)
        # The module brings all its globals.
        return make, arguments, (attributes, {**slots, "__globals__": {}}), *rest

    def _class(self, kind: type) -> Any:
        module = self._own.module_of_class(kind)
        if module is not None and (other := self._member(kind, module)) is not None:
            return other
        if type(kind).__module__.startswith("msgspec.") and kind.__module__ == "__main__":
            # Its fields are laid out by its class statement alone: a copy would take no values.
            raise UnsendableError(
                kind,
                "a msgspec.Struct of the script itself, of which a copy takes no values. Define it in a module beside "
                "the script, and import it",
            )
        reduced = super().reducer_override(kind)
        if not isinstance(reduced, tuple) or len(reduced) < 6:
            return reduced
        make, arguments, (attributes, slots), items, pairs, fill = reduced
        # cloudpickle calls a class in a class by its last name alone, under which pickle does not find it.
        state = ({**attributes, "__qualname__": kind.__qualname__}, slots)
        made = (rebuilt_values.token_of(kind), make, arguments)
        return rebuilt_values.make_class, made, (fill, state), items, pairs, rebuilt_values.fill_class

    def _member(self, member: Any, module: types.ModuleType) -> Any:
        """Return how a member of an own module is written, if not by value."""
        name = module.__name__
        self.mentioned.add(name)
        is_named = self._own.has_member(module, member)
        if is_named and self._own.goes_by_name(name):
            return member.__qualname__
        if self._root is not None and is_named and not is_inside(member, self._root):
            return str, (name,)
        return None

    def _module(self, module: types.ModuleType) -> Any:
        name = module.__name__
        if self._own.get(name) is not module:
            if name in sys.modules and self._own.get(name) is None:
                return super().reducer_override(module)
            # Made by hand, or replaced since by another import: cloudpickle does not end where two of them refer to
            # each other.
            content = {key: value for key, value in vars(module).items() if key not in SKIPPED}
            return types.ModuleType, (name,), content, None, None, sent_code.fill_module
        self.mentioned.add(name)
        if self._root is not None or name not in self._own.sent:
            return str, (name,)  # it is to be decided how it is sent
        if self._own.goes_by_name(name):
            return importlib.import_module, (name,)
        return sent_code.make_module, (name, place_of(module), self._own.left_out(name))


def _registered(value: Any, reduced: Any) -> Any:
    """Return a function or class with the name under which Keras finds it, if a decorator has registered it there."""
    saving: Any = getattr(sys.modules.get("keras"), "saving", None)
    if not (isinstance(reduced, tuple) and len(reduced) == _PARTS and hasattr(saving, "get_registered_name")):
        return reduced
    name = saving.get_registered_name(value)
    if saving.get_custom_objects().get(name) is not value:
        return reduced
    make, arguments, state, items, pairs, fill = reduced
    return make, arguments, (name, fill, state), items, pairs, rebuilt_values.fill_registered


_PARTS = 6
"""Parts of how an object is made again that is given its content by a function."""


def _rebuilt(value: Any) -> Any:
    """Return how a value is made again that pickle writes by name, or refuses. None if pickle does better."""
    if isinstance(value, functools._lru_cache_wrapper):
        if _is_importable(value):
            return None
        settings = value.cache_parameters()
        arguments = (value.__wrapped__, settings["maxsize"], settings["typed"])
        return rebuilt_values.cached, arguments, _attributes(value), None, None, rebuilt_values.set_attributes
    if type(value) is functools.cached_property:
        attributes = {"func": value.func, "__doc__": value.__doc__}
        return rebuilt_values.cached_property, (value.attrname,), attributes, None, None, rebuilt_values.set_attributes
    if isinstance(value, _NAMES_OF_TYPES):
        return type(value), (value.__name__,)
    if isinstance(value, typing.NewType):
        attributes = {"__module__": value.__module__}
        return (
            typing.NewType,
            (value.__name__, value.__supertype__),
            attributes,
            None,
            None,
            rebuilt_values.set_attributes,
        )
    broadcast = value_of_broadcast(value)
    return None if broadcast is None else (rebuilt_values.SharedValue, broadcast)


def _dispatching(function: types.FunctionType) -> Any:
    """Return how a function of ``functools.singledispatch`` is made again. None if it is another one."""
    registry = getattr(function, "registry", None)
    if function.__code__.co_filename != functools.__file__ or not isinstance(registry, Mapping):
        return None
    if _is_importable(function):
        return None
    cases = {kind: case for kind, case in registry.items() if kind is not object}
    kept = {name: value for name, value in _attributes(function).items() if name not in _OF_DISPATCH}
    base: Callable[..., Any] = registry[object]
    return rebuilt_values.dispatching, (base,), (cases, kept), None, None, rebuilt_values.set_cases


_OF_DISPATCH = frozenset({"register", "dispatch", "registry", "_clear_cache"})


def _attributes(function: Any) -> dict[str, Any]:
    return {name: getattr(function, name, None) for name in _ASSIGNED} | dict(getattr(function, "__dict__", {}))


def _is_importable(value: Any) -> bool:
    """Return whether an installed module has a value under its name."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    if module is None or module.__name__ == "__main__" or not is_installed(module):
        return False
    found: Any = module
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value
