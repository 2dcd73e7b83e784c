"""A module of the user's own exists once in a worker: for what was sent, for imports there and for pickles."""

from __future__ import annotations

import gc
import importlib
import itertools
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from asyncsearch.errors import NotPicklableError
from asyncsearch.launch.bundle import pack
from asyncsearch.launch.installed_modules import folders_of
from asyncsearch.launch.own_modules import loaded_modules

_numbers = itertools.count()

IN_WORKER = """
import pickle, sys
from asyncsearch.runner.process.sent_code import take_modules_over
from asyncsearch.runner.process.sent_code import adopt
take_modules_over()
train = pickle.loads(sys.stdin.buffer.read())
adopt(train)
for number, check in enumerate(train(None)):
    assert check, number
"""


def run_in_worker(data: bytes, folder: Path) -> None:
    """Unpickle as a runner does, in a process that has the installed packages and no file of the user's own."""
    command = [sys.executable, "-P", "-c", IN_WORKER]
    done = subprocess.run(command, input=data, cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


class Project:
    """Modules of the user's own, which only this process can import."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._before = set(sys.modules)
        sys.path.insert(0, str(folder))

    def write(self, sources: Mapping[str, str]) -> None:
        """Write modules: ``a.b`` is a module, ``a.`` the package itself."""
        for name, text in sources.items():
            place = f"{name}__init__" if name.endswith(".") else name
            file = self.folder / f"{place.replace('.', '/')}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(text))
        importlib.invalidate_caches()

    def load(self, *names: str) -> list[Any]:
        return [importlib.import_module(name) for name in names]

    def close(self) -> None:
        sys.path.remove(str(self.folder))
        added = {name: sys.modules[name] for name in set(sys.modules) - self._before}
        for name, module in added.items():
            places = [getattr(module, "__file__", None) or "", *folders_of(module)]
            if any(place.startswith(str(self.folder)) for place in places):
                del sys.modules[name]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path / "project")
    yield made
    made.close()


def script(text: str, **known: Any) -> Any:
    """Return the function ``train`` of a script."""
    main = ModuleType("__main__")
    vars(main).update(known)
    exec(textwrap.dedent(text), vars(main))
    return main.train


DEFINITIONS = {
    "class {0}:\n    w = 1": "{m}.{0}()",
    "import enum\nclass {0}(enum.Enum):\n    A = 1": "{m}.{0}.A",
    "import enum\nclass {0}(enum.IntFlag):\n    R = 1\n    W = 2": "{m}.{0}.R | {m}.{0}.W",
    "import dataclasses\n@dataclasses.dataclass\nclass {0}:\n    x: int = 1": "{m}.{0}(2)",
    "import dataclasses\n@dataclasses.dataclass(frozen=True, slots=True)\nclass {0}:\n    x: int": "{m}.{0}(2)",
    "import abc\nclass {0}B(abc.ABC):\n    @abc.abstractmethod\n    def f(self): ...\n"
    "class {0}({0}B):\n    def f(self): return super()": "{m}.{0}()",
    "class {0}O:\n    class {0}: pass": "{m}.{0}O.{0}()",
    "import typing\nclass {0}(typing.NamedTuple):\n    a: int": "{m}.{0}(1)",
    "import collections\n{0} = collections.namedtuple('{0}', 'a')": "{m}.{0}(1)",
    "class {0}(dict): pass": "{m}.{0}(a=1)",
    "class {0}(Exception): pass": "{m}.{0}('x')",
    "def {0}(): return 1": "{m}.{0}",
    "import functools\n@functools.lru_cache\ndef {0}(): return 1": "{m}.{0}",
    "import functools\n@functools.cache\ndef {0}(n=9): return n if n < 2 else {0}(n - 1)": "{m}.{0}",
    "import functools\n@functools.singledispatch\ndef {0}(x): return 0\n"
    "@{0}.register\ndef {0}i(x: int): return 1": "{m}.{0}",
    "import functools\nclass {0}:\n    @functools.cached_property\n    def c(self): return 1\n"
    "    @functools.lru_cache\n    def d(self): return self.c": "{m}.{0}()",
    "import msgspec\nclass {0}(msgspec.Struct):\n    a: int = 1": "{m}.{0}(a=2)",
    "import ctypes\nclass {0}(ctypes.Structure):\n    _fields_ = [('a', ctypes.c_int)]": "{m}.{0}(a=2)",
    "class {0}M(type):\n    pass\nclass {0}(metaclass={0}M): pass": "{m}.{0}()",
    "REG = []\nclass {0}B:\n    def __init_subclass__(cls, key): REG.append((key, cls))\n"
    "class {0}({0}B, key=1): pass": "{m}.REG[0][1]()",
    "import threading\nLOCK = threading.Lock()\nclass {0}:\n    def f(self):\n        with LOCK: return 1": "{m}.{0}()",
}
"""Source of a definition -> expression of an object that it makes."""
IMPORTS = [
    "import {m}",
    "import importlib; {m0} = importlib.import_module('{m}')",
    "import sys; {m0} = sys.modules['{m}']",
    "import importlib; importlib.import_module(CONFIG['target'])\n    import {m}",
]
PLACES = ["{n}", "p{n}.inner", "s{n}.deep.inner"]


@settings(
    max_examples=12, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    definitions=st.lists(st.sampled_from(sorted(DEFINITIONS)), min_size=4, max_size=8, unique=True),
    imported=st.sampled_from(IMPORTS),
    place=st.sampled_from(PLACES),
    at_hand=st.booleans(),
)
def test_a_workers_imports_pickles_and_settings_find_the_sent_module(
    project: Project, definitions: list[str], imported: str, place: str, at_hand: bool
) -> None:
    module = place.format(n=f"mod{next(_numbers)}")
    names = [f"D{number}" for number in range(len(definitions))]
    source = "\n".join(text.format(name) for text, name in zip(definitions, names, strict=True))
    project.write({module: f"{source}\nBATCH = 32\nOPTIONS = {{}}\n"})
    [loaded] = project.load(module)
    loaded.BATCH = 512
    loaded.OPTIONS["a"] = 1
    objects = ", ".join(DEFINITIONS[text].format(name, m=module) for text, name in zip(definitions, names, strict=True))
    first = module.partition(".")[0]
    bound = f"    import {module}\n" if "importlib" in imported or "sys" in imported else ""
    train = script(
        f"""
def train(trial):
    import pickle
    {imported.format(m=module, m0="found")}
{bound}
    yield {module}.BATCH == 512
    yield {module}.OPTIONS == {{"a": 1}}
    yield OPTIONS is {module}.OPTIONS
    for value in [{objects}]:
        again = pickle.loads(pickle.dumps(value))
        yield type(again) is type(value)
        yield FIRST is None or isinstance(FIRST, type) is False
    yield {module}.__spec__.name == "{module}"
""",
        OPTIONS=loaded.OPTIONS,
        CONFIG={"target": module},
        FIRST=None,
        **({first: sys.modules[first]} if at_hand else {}),
    )
    run_in_worker(pack(train).data, project.folder.parent)


def test_packages_with_relative_imports_circles_and_module_getattr_are_one(project: Project) -> None:
    project.write(
        {
            "pkg.": "from . import a\nVERSION = 1\ndef __getattr__(name):\n    if name == 'lazy': return 9\n"
            "    raise AttributeError(name)\n",
            "pkg.a": "from . import b\nclass A: pass\ndef go(): return b.back(3)\ndef f(n): return n\n",
            "pkg.b": "from pkg import a\nSTATE = []\ndef back(n): return a.f(n) + len(STATE)\n",
            "pkg.sub.deep": "from ..a import A\nclass D(A): pass\ndef late():\n    from . import other\n"
            "    from ..b import STATE\n    return other.K, len(STATE)\n",
            "pkg.sub.other": "K = 10\n",
        }
    )
    pkg, deep, other, b = project.load("pkg", "pkg.sub.deep", "pkg.sub.other", "pkg.b")
    b.STATE.append(1)
    other.K = 20
    train = script(
        """
        def train(trial):
            import pkg.b, pkg.a, pkg.sub.other, sys
            yield deep.late() == (20, 1)
            yield pkg.a.go() == 4
            yield pkg.lazy == 9
            yield deep.D.__mro__[1] is pkg.a.A
            yield sys.modules["pkg.sub.deep"] is deep is pkg.sub.deep
            yield pkg.sub.other.K == 20
        """,
        deep=deep,
    )
    del pkg
    run_in_worker(pack(train).data, project.folder.parent)


def test_what_refers_to_an_executed_module_shares_its_classes_and_settings(project: Project) -> None:
    project.write(
        {
            "locked": "import threading\nLOCK = threading.Lock()\nLEVEL = 1\nclass T:\n    size = 1\n"
            "def use():\n    with LOCK: return LEVEL\n",
            "above": "import locked, plain\nfrom locked import T\nclass U(T): pass\n"
            "def both(): return locked.use() + plain.K\n",
            "a_far": "import above\ndef far(): return above.both()\n",
            "plain": "K = 1\n",
        }
    )
    locked, above, plain, a_far = project.load("locked", "above", "plain", "a_far")
    locked.LEVEL, locked.T.size, plain.K = 10, 3, 100
    train = script(
        """
        def train(trial):
            import locked, pickle, plain
            yield above.both() == a_far.far() == 110
            yield a_far.above is above
            yield locked.T.size == above.U.size == 3
            yield type(pickle.loads(pickle.dumps(above.U()))) is above.U
            yield plain.K == 100
        """,
        above=above,
        a_far=a_far,
    )
    packed = pack(train)
    [warning] = packed.warnings
    assert warning == (
        "Each worker runs the module locked again, because of its global variable 'LOCK' (_thread.lock), which cannot "
        "be sent."
    )
    run_in_worker(packed.data, project.folder.parent)


def test_a_registry_is_filled_by_an_executed_module_and_keeps_its_marks(project: Project) -> None:
    project.write(
        {
            "kinds": "KINDS = {}\n\ndef register(kind):\n    KINDS[kind.__name__] = kind\n    return kind\n",
            "nets": """
                import threading

                from kinds import register

                LOCK = threading.Lock()
                MISSING = object()

                @register
                class Net:
                    pass

                def is_missing(value=MISSING):
                    with LOCK:
                        return value is MISSING
            """,
        }
    )
    kinds, nets = project.load("kinds", "nets")
    train = script(
        """
        def train(trial):
            yield kinds.KINDS["Net"] is nets.Net
            yield nets.is_missing() and nets.is_missing(MARK) and not nets.is_missing(object())
        """,
        kinds=kinds,
        nets=nets,
        MARK=nets.MISSING,
    )
    run_in_worker(pack(train).data, project.folder.parent)


def test_unused_unpicklable_objects_stay_and_are_named_when_asked_for(project: Project) -> None:
    source = "import threading\nLOCK = threading.Lock()\nBIG = bytes(3_000_000)\nK = 1\ndef get(): return K\n"
    project.write({"m": source})
    [m] = project.load("m")
    m.K = 2
    train = script(
        """
        def train(trial):
            import m
            yield m.get() == 2
            for name in ("LO" + "CK", "B" + "IG"):
                try:
                    getattr(m, name)
                except AttributeError as error:
                    yield f"m.{name} was not sent to this worker" in str(error)
        """
    )
    packed = pack(train)
    assert packed.warnings == ()
    assert len(packed.data) < 100_000
    run_in_worker(packed.data, project.folder.parent)


def test_globals_of_the_script_are_those_of_main_in_a_worker(tmp_path: Path) -> None:
    train = script(
        """
        import functools
        class Net:
            class Part: pass
        @functools.lru_cache
        def load(): return [1]
        NETS = [Net()]
        main = 3
        def train(trial):
            import __main__, pickle
            yield type(pickle.loads(pickle.dumps(NETS[0]))) is type(NETS[0])
            yield type(pickle.loads(pickle.dumps(Net.Part()))) is Net.Part
            yield pickle.loads(pickle.dumps(load)) is load
            yield __main__.NETS is NETS and __main__.main == main == 3
        """
    )
    run_in_worker(pack(train).data, tmp_path)


def test_packing_leaves_the_classes_of_this_process_as_they_are() -> None:
    import pickle

    registered: list[type] = []

    class Net:
        def size(self) -> int:
            return _SIZES["size"]

    class Registering:
        def __init_subclass__(cls) -> None:
            registered.append(cls)

    class Sub(Net, Registering):
        pass

    before = Net.size
    assert pickle.loads(pack(Sub).data) is Sub
    assert Net.size is before
    assert registered == [Sub]


_SIZES = {"size": 1}


def stand_in(name: str, module: str, **attributes: Any) -> Any:
    """Return an object of a class of Spark's name."""
    return type(name, (), {"__module__": module, **attributes})()


@pytest.mark.parametrize(
    ("kind", "module", "line"),
    [
        ("Accumulator", "pyspark.accumulators", "trial.report(..., count=count)"),
        ("DataFrame", "pyspark.sql.classic.dataframe", "rows = data.toPandas()"),
        ("RDD", "pyspark.core.rdd", "rows = data.collect()"),
        ("SparkSession", "pyspark.sql.session", "spark.table(...).toPandas()"),
        ("SparkContext", "pyspark.core.context", "sc.textFile(...).collect()"),
        ("JavaWrapper", "pyspark.ml.wrapper", "needs no Spark"),
    ],
)
@pytest.mark.parametrize("way", ["direct", "list", "attribute", "partial", "module", "default"])
def test_what_only_sparks_driver_has_is_refused_by_name_with_a_remedy(
    project: Project, kind: str, module: str, line: str, way: str
) -> None:
    data = stand_in(kind, module)
    text = {
        "direct": "def train(trial): return data",
        "list": "datas = [data]\ndef train(trial): return datas",
        "attribute": "class C: pass\nc = C()\nc.data = data\ndef train(trial): return c.data",
        "partial": "import functools\ntrain = functools.partial(lambda data, trial: data, data)",
        "module": "import own_spark\nown_spark.data = data\ndef train(trial): return own_spark.data",
        "default": "def train(trial, data=data): return data",
    }[way]
    project.write({"own_spark": ""})
    with pytest.raises(NotPicklableError) as caught:
        pack(script(text, data=data))
    message = str(caught.value)
    assert "which only the driver has" in message or "only tasks of Spark add" in message
    assert line in message.replace("it.", "data.")
    assert "Study(..., backend='threads')" in message


def test_a_value_of_spark_that_is_not_used_does_not_matter(project: Project, tmp_path: Path) -> None:
    project.write({"features": "spark = None\ndef read(): return spark.table('t')\ndef scale(x): return 2 * x\n"})
    [features] = project.load("features")
    features.spark = stand_in("SparkSession", "pyspark.sql.session")
    packed = pack(script("import features\ndef train(trial):\n    yield features.scale(2) == 4"))
    assert packed.warnings == ()
    run_in_worker(packed.data, tmp_path)


def test_a_msgspec_struct_travels_in_a_module_and_not_in_the_script(project: Project) -> None:
    text = "import msgspec\nclass Point(msgspec.Struct):\n    x: int\n    y: int = 2\n"
    project.write({"own_points": text})
    project.load("own_points")
    train = "def train(trial):\n    yield Point(1).x + Point(1).y == 3"
    run_in_worker(pack(script(f"from own_points import Point\n{train}")).data, project.folder.parent)
    with pytest.raises(NotPicklableError, match=r"global variable 'Point' is a msgspec\.Struct.*Define it in a module"):
        pack(script(f"{text}{train}"))


def test_a_broadcast_variable_travels_with_its_value(tmp_path: Path) -> None:
    rows = stand_in("Broadcast", "pyspark.core.broadcast", value=[1, 2, 3])
    run_in_worker(pack(script("def train(trial):\n    yield sum(rows.value) == 6", rows=rows)).data, tmp_path)


def test_a_file_open_for_writing_is_refused_and_emptied_by_no_worker(project: Project) -> None:
    project.write({"logs": f"FILE = open({str(project.folder / 'log.txt')!r}, 'w')\ndef note(x): FILE.write(x)\n"})
    [logs] = project.load("logs")
    with logs.FILE, pytest.raises(NotPicklableError, match="the global variable 'FILE' of the module logs is of type"):
        pack(script("import logs\ndef train(trial): logs.note('x')"))


def test_reimported_modules_travel_though_the_old_ones_form_a_circle(project: Project) -> None:
    project.write({"one": "import two\nK = 1\ndef get(): return two.K\n", "two": "import one\nK = 1\n"})
    [old] = project.load("one")
    for name in ("one", "two"):
        del sys.modules[name]
    project.write({"two": "import one\nK = 22 + 0\n"})
    [new] = project.load("one")
    train = script(
        """
        def train(trial):
            import one
            yield (old.get(), new.get(), one is new) == (1, 22, True)
        """,
        old=old,
        new=new,
    )
    run_in_worker(pack(train).data, project.folder.parent)


def test_an_object_pickled_by_name_comes_from_its_module_or_is_refused(project: Project) -> None:
    source = """
        import typing
        P = typing.ParamSpec("P")
        Size = typing.NewType("Size", int)
        NOTHING = object()
        class Missing:
            def __reduce__(self): return "MISSING"
        MISSING = Missing()
        def get(value=MISSING): return value is MISSING
        def plain(value=NOTHING): return value is NOTHING
        """
    project.write({"singles": source})
    project.load("singles")
    train = script(
        """
        import singles
        def train(trial):
            import pickle, singles as again
            yield singles is again
            yield singles.get() and singles.plain()
            yield singles.Size(3) == 3
            yield pickle.loads(pickle.dumps(singles.MISSING)) is singles.MISSING
            yield isinstance(singles.P, __import__("typing").ParamSpec)
        """
    )
    run_in_worker(pack(train).data, project.folder.parent)
    text = textwrap.dedent(
        """
        class Missing:
            def __reduce__(self): return "MISSING"
        MISSING = Missing()
        def train(trial): return MISSING
        """
    )
    with pytest.raises(NotPicklableError, match=r"the global variable 'MISSING' is of type .*a worker does not have"):
        pack(script(text))


def test_a_module_in_a_closure_or_object_brings_what_is_used_of_it(project: Project) -> None:
    project.write({"held": "import ctypes, threading\nLIB = ctypes.CDLL(None)\ndef get(): return LIB is not None\n"})
    [held] = project.load("held")
    for text in (
        "def make(held):\n    def train(trial):\n        yield held.get()\n    return train\ntrain = make(held)",
        "class C: pass\nc = C()\nc.held = held\ndef train(trial):\n    yield c.held.get()",
        "helds = [held]\ndef train(trial):\n    yield helds[0].get()",
    ):
        run_in_worker(pack(script(text, held=held)).data, project.folder.parent)


def test_the_command_line_is_taken_over_by_processes_for_trials_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pickle

    from asyncsearch.launch.bundle import with_sources

    monkeypatch.setattr(sys, "argv", ["search.py", "--epochs", "3"])
    data = with_sources(pack(script("def train(trial):\n    import sys\n    yield sys.argv[1:] == ['--epochs', '3']")))
    monkeypatch.setattr(sys, "argv", ["notebook"])
    run_in_worker(data, tmp_path)
    pickle.loads(data)
    assert sys.argv == ["notebook"]


@pytest.mark.parametrize("way", ["import {p}.used", "import {p} as q", "from {p} import used", "import {p}.used as u"])
@pytest.mark.parametrize("is_executed", [False, True])
def test_a_package_brings_only_the_modules_in_it_that_are_reached(
    way: str, is_executed: bool, project: Project, tmp_path: Path
) -> None:
    name = f"pkg{next(_numbers)}"
    lock = "import threading\nL = threading.Lock()\n" if is_executed else ""
    used = f"{lock}def f():\n    {'with L: ' if is_executed else ''}return 1\n"
    project.write({f"{name}.": "", f"{name}.used": used, f"{name}.unused": "import colorsys\n"})
    project.load(name, f"{name}.used", f"{name}.unused")
    called = {"used": "used.f()", "u": "u.f()", "q": "q.used.f()"}.get(way.rsplit(maxsplit=1)[-1], f"{name}.used.f()")
    train = script(
        f"""
        import sys
        {way.format(p=name)}
        def train(trial):
            return [{called} == 1, 'colorsys' not in sys.modules]
        """
    )
    run_in_worker(pack(train).data, tmp_path)


def test_modules_that_others_import_meanwhile_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {**sys.modules}
    monkeypatch.setattr(sys, "modules", modules)

    def imports(phase: str, _: dict[str, int]) -> None:  # as another thread would, at any allocation
        modules[f"{phase} {len(modules)}"] = sys

    threshold = gc.get_threshold()
    gc.callbacks.append(imports)
    gc.set_threshold(1)
    try:
        assert "pytest" in loaded_modules()
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(imports)
