"""What the trainable takes along, and what is said when it cannot."""

from __future__ import annotations

import functools
import importlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import cloudpickle
import pytest

from asyncsearch.errors import NotPicklableError
from asyncsearch.launch import bundle, installed_modules, own_modules, unsendable
from asyncsearch.launch.bundle import _names_module, pack
from asyncsearch.trainable import Trainer, TrialContext

ImportOwn = Callable[[str, Mapping[str, str]], ModuleType]
FACTOR = 3


def run_elsewhere(data: bytes, expression: str, folder: Path) -> str:
    """Unpickle in a process that has the installed packages and nothing else, and return what the expression prints."""
    code = f"import pickle, sys; train = pickle.loads(sys.stdin.buffer.read()); print({expression})"
    done = subprocess.run([sys.executable, "-P", "-c", code], input=data, cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


@pytest.fixture
def import_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ImportOwn]:
    """Write modules below the name ``own``, which only this process can import, and import one of them."""
    folder = tmp_path / "own_modules"
    monkeypatch.syspath_prepend(str(folder))

    def load(name: str, sources: Mapping[str, str]) -> ModuleType:
        for file, text in sources.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield load
    for name in [name for name in sys.modules if name.partition(".")[0] == "own"]:
        del sys.modules[name]


def train_with_global(trial: TrialContext) -> int:
    return FACTOR * 2


def test_function_travels_with_the_globals_that_it_uses(tmp_path: Path) -> None:
    assert run_elsewhere(pack(train_with_global).data, "train(None)", tmp_path) == "6"


def test_module_that_is_not_installed_travels_with_the_function(tmp_path: Path, import_own: ImportOwn) -> None:
    own = import_own(
        "own.main",
        {
            "own/__init__.py": "",
            "own/tools.py": "def double(x): return 2 * x",
            "own/main.py": "from own import tools\nimport own.tools\n"
            "def train(trial): return tools.double(4), own.tools.double(1)",
        },
    )
    assert run_elsewhere(pack(own.train).data, "train(None)", tmp_path) == "(8, 2)"


def test_modules_that_import_each_other_travel(tmp_path: Path, import_own: ImportOwn) -> None:
    own = import_own(
        "own.a",
        {
            "own/__init__.py": "",
            "own/a.py": "from own import b\ndef train(trial): return b.g(3)\ndef f(n): return n",
            "own/b.py": "from own import a\ndef g(n): return a.f(n) + 1",
        },
    )
    assert run_elsewhere(pack(own.train).data, "train(None)", tmp_path) == "4"


def test_a_chain_of_modules_is_pickled_as_a_whole_once(
    tmp_path: Path, import_own: ImportOwn, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = {
        f"own/{one}.py": f"from own import {after}\ndef f(n): return {after}.f(n) + 1" for one, after in ("ab", "bc")
    }
    files = {"own/__init__.py": "", **chain, "own/c.py": "def f(n): return n"}
    wholes: list[object] = []
    parcel = bundle._Parcel

    def counted(trainable: object, own: own_modules.OwnModules) -> object:
        wholes.append(trainable)
        return parcel(trainable, own)

    monkeypatch.setattr(bundle, "_Parcel", counted)
    packed = pack(import_own("own.a", files).f)
    assert run_elsewhere(packed.data, "train(3)", tmp_path) == "5"
    assert len(wholes) == 1, "what each of them brings along is found in it alone"


def test_package_without_init_travels(tmp_path: Path, import_own: ImportOwn) -> None:
    own = import_own(
        "own.main",
        {"own/deep/m.py": "K = 5", "own/main.py": "import own.deep.m\ndef train(trial): return own.deep.m.K"},
    )
    assert run_elsewhere(pack(own.train).data, "train(None)", tmp_path) == "5"


def test_what_is_installed_goes_by_name() -> None:
    data = pack(pytest.approx).data
    assert len(data) < 200
    assert pickle.loads(data) is pytest.approx


def test_trainer_class_travels(tmp_path: Path) -> None:
    class Mine(Trainer):
        step = FACTOR

    expression = "train.step, train.__mro__[1].__module__"
    assert run_elsewhere(pack(Mine).data, expression, tmp_path) == "3 asyncsearch.trainable.trainer"


def test_registry_of_cloudpickle_is_left_as_it_was() -> None:
    import cloudpickle

    before = cloudpickle.list_registry_pickle_by_value()
    pack(train_with_global)
    assert cloudpickle.list_registry_pickle_by_value() == before


def lock_in_closure() -> object:
    guard = threading.Lock()

    def train(trial: TrialContext) -> None:
        with guard:
            pass

    return train


def lock_in_object_in_dict() -> object:
    class Cache:
        def __init__(self) -> None:
            self.guard = threading.Lock()

    tools = {"cache": Cache()}

    def train(trial: TrialContext) -> object:
        return tools

    return train


def lock_in_default() -> object:
    def train(trial: TrialContext, guard: object = threading.Lock()) -> object:
        return guard

    return train


def lock_in_partial() -> object:
    def train(trial: TrialContext, guard: object) -> object:
        return guard

    return functools.partial(train, guard=threading.Lock())


def lock_in_class() -> object:
    class Mine(Trainer):
        guard = threading.Lock()

    return Mine


def lock_in_slots() -> object:
    class Callable:
        __slots__ = ("guard",)

        def __init__(self) -> None:
            self.guard = threading.Lock()

        def __call__(self, trial: TrialContext) -> None: ...

    return Callable()


def lock_in_method() -> object:
    class Mine:
        def __init__(self) -> None:
            self.guard = threading.Lock()

        def train(self, trial: TrialContext) -> None: ...

    return Mine().train


def lock_in_helper() -> object:
    guard = threading.Lock()

    def helper() -> object:
        return guard

    def train(trial: TrialContext) -> object:
        return helper()

    return train


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lock_in_closure, ["the closure variable 'guard'"]),
        (lock_in_object_in_dict, ["the closure variable 'tools'", "the item 'cache'", "the attribute 'guard'"]),
        (lock_in_default, ["the default of the argument 'guard'"]),
        (lock_in_partial, ["the argument 'guard' of the partial"]),
        (lock_in_class, ["the class attribute 'guard'"]),
        (lock_in_slots, ["the attribute 'guard'"]),
        (lock_in_method, ["the object that it is a method of", "the attribute 'guard'"]),
        (lock_in_helper, ["the closure variable 'helper'", "the closure variable 'guard'"]),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_error_names_the_way_to_what_cannot_be_pickled(make: Callable[[], object], words: list[str]) -> None:
    with pytest.raises(NotPicklableError) as caught:
        pack(make())
    text = str(caught.value)
    assert ", in it ".join(words) + " is of type _thread.lock" in text
    assert "trial.once(...)" in text


def test_error_names_a_global_of_the_notebook() -> None:
    main = ModuleType("__main__")
    exec("import threading\nguard = threading.Lock()\ndef train(trial): return guard", vars(main))
    with pytest.raises(
        NotPicklableError, match="train cannot be sent to workers: the global variable 'guard' is of type"
    ):
        pack(main.train)


def test_module_with_a_lock_is_executed_by_workers_and_says_so(tmp_path: Path, import_own: ImportOwn) -> None:
    source = "import threading\nguard = threading.Lock()\ndef train(trial): return guard.locked()"
    own = import_own("own", {"own.py": source})
    packed = pack(own.train)
    assert pickle.loads(packed.data) is own.train
    assert run_elsewhere(packed.data, "train(None)", tmp_path) == "False"
    [warning] = packed.warnings
    assert "runs the module own again, because of its global variable 'guard'" in warning
    assert packed.by_name == ("own",)


@pytest.mark.parametrize(("file", "by_name"), [("own/_core.so", True), ("own/core.py", False)])
def test_a_package_with_compiled_code_in_a_folder_of_pip_is_installed(
    file: str, by_name: bool, import_own: ImportOwn
) -> None:
    record = f"own/__init__.py,sha256=x,1\n{file},sha256=x,1\n"
    own = import_own("own", {"own/__init__.py": "def train(trial): return 3", "own-1.dist-info/RECORD": record})
    packed = pack(own.train)
    assert (b"co_code" in packed.data or len(packed.data) > 200) is not by_name
    assert packed.warnings == ()


@pytest.mark.parametrize("kind", ["bytes", "pipe", "folder", "device"])
def test_what_pip_did_not_write_beside_a_module_hinders_no_search(kind: str, import_own: ImportOwn) -> None:
    own = import_own("own", {"own/__init__.py": "def train(trial): return 3", "own-1.dist-info/RECORD": ""})
    record = Path(str(own.__file__)).parent.parent / "own-1.dist-info" / "RECORD"
    record.unlink()
    match kind:
        case "bytes":
            record.write_bytes(b"\xff\xfe,sha256=x,1\n")
        case "pipe":
            os.mkfifo(record)
        case "folder":
            record.mkdir()
        case _:
            record.symlink_to("/dev/zero")
    installed_modules._has_compiled.cache_clear()
    assert pack(own.train).by_name == ()


def test_captured_data_is_measured_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsendable, "WARN_BYTES", 2_000_000)
    images, labels, tiny = bytes(3_000_000), bytes(1_500_000), bytes(10)

    def load() -> object:
        return images

    def train(trial: TrialContext) -> object:
        return load(), labels, tiny

    [warning] = pack(train).warnings
    assert warning.startswith("test_captured_data_is_measured_and_named.<locals>.train captures 5 MB")
    assert (
        "the closure variable 'load', in it the closure variable 'images': 3 MB; the closure variable 'labels': 2 MB"
        in warning
    )
    assert "tiny" not in warning


def test_too_much_captured_data_is_refused_without_pickling_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsendable, "MAX_BYTES", 2_000_000)
    images = [bytes(1_000_001)] + [bytearray(1_000_001) for _ in range(20)]

    def train(trial: TrialContext) -> object:
        return images

    with pytest.raises(
        NotPicklableError, match=r"captures more than 2 MB.*the closure variable 'images': more than 2 MB"
    ):
        pack(train)


def test_small_trainable_has_no_warnings() -> None:
    assert pack(train_with_global).warnings == ()


def test_what_a_decorator_has_registered_with_keras_travels_registered(tmp_path: Path, import_own: ImportOwn) -> None:
    pytest.importorskip("keras")
    own = import_own(
        "own.layers",
        {
            "own/__init__.py": "",
            "own/layers.py": "import keras\n"
            "@keras.saving.register_keras_serializable(package='mine')\n"
            "class Scale(keras.layers.Layer): pass\n"
            "@keras.saving.register_keras_serializable()\n"
            "def loss(y, p): return 0\n"
            "def plain(y, p): return 0\n"
            "def train(trial):\n"
            "    known = keras.saving.get_custom_objects()\n"
            "    pairs = ('mine>Scale', Scale), ('Custom>loss', loss), ('Custom>plain', plain)\n"
            "    return [known.get(name) is one for name, one in pairs]\n",
        },
    )
    assert own.train(None) == [True, True, False]
    assert run_elsewhere(pack(own.train).data, "train(None)", tmp_path) == "[True, True, False]"
    assert own.train(pickle.loads(pack(own.Scale).data)) == [True, True, False]


@pytest.mark.parametrize("length", [0, ord("A") - 8, ord("_") - 8, 300, 0x41424344 % 70_000], ids=str)
@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("mine.Net", True),
        ("minefield", False),
        ('{"to": "mine.Net"}', True),
        ("deter_mine.Net", False),
        ("ermine", False),
    ],
)
def test_a_text_names_a_module_where_its_name_stands_as_a_word(text: str, is_named: bool, length: int) -> None:
    padded = text + "." * length
    for value in (padded, {"to": [padded]}, {padded: "mine_"}):
        assert _names_module(cloudpickle.dumps(value), "mine") == is_named
