"""A template that has imported what a runner had: its runners find that, and nothing that a fork breaks."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from asyncsearch.agent import next_runner, runner_template
from asyncsearch.agent.next_runner import PreloadedTemplate
from asyncsearch.agent.runner_process import DescriptorSelector
from asyncsearch.agent.runner_template import ForkedRunner, Template
from asyncsearch.runner.channel import agent_end
from asyncsearch.runner.process import preloading
from asyncsearch.runner.process.preloading import Preload, installed_modules
from asyncsearch.runner.protocol import Ended, ImportedModules, LaneReported, Load, Train
from asyncsearch.trainable import TrialContext
from tests.agent.driver import make_stage
from tests.shares import takes_long

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks runners")

PACKAGES = {
    "plain_one": "",
    "noted_one": "import os, threading\nnote = os.environ.get('NOTE', '')\nnice = os.getpriority(0, 0)",
    "threaded_one": "import threading\nthreading.Thread(target=threading.Event().wait, name='mine').start()",
    "outer_one": "import threaded_one",
    "open_one": "import os\nheld = os.open('/dev/null', os.O_RDONLY)",
    "failing_one": "raise SystemExit('not today')",
    "dying_one": "import os\nos._exit(3)",
    "endless_one": "import threading\nthreading.Event().wait()",
    "serving_one": "import subprocess\nsubprocess.Popen(['sleep', '600'])",
    "daemon_one": "import subprocess\nsubprocess.run('exec sleep 600 <&- >&- 2>&- &', shell=True)",
    "temporary_one": "import tempfile\nplace = tempfile.TemporaryDirectory()",
    "file_one": "import os, tempfile\nnumber, name = tempfile.mkstemp()\nos.close(number)",
    "tidy_one": "import tempfile\ntempfile.TemporaryDirectory().cleanup()\ntempfile.NamedTemporaryFile().close()",
    "local_one": "import contextvars, decimal, threading\nhere = threading.local()\nhere.depth = 5\n"
    "variable = contextvars.ContextVar('variable', default=1)\nvariable.set(6)\ndecimal.getcontext().prec = 77",
    "setting_one": "import os\nos.environ.setdefault('OF_IMPORT', '1')\nnote = os.environ.get('OF_TRIAL', '')",
    "last_one": "",
}
"""Name -> code of a package that is installed."""
ALL = "each process that replaces the first one of this worker imports all modules itself:"


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """Install packages in a folder, and return the environment in which they are found."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    for name, code in PACKAGES.items():
        (folder / f"{name}.py").write_text(code)
    tests = str(Path(__file__).parents[2])
    return {"PYTHONPATH": os.pathsep.join([str(folder), tests, *filter(None, sys.path)]), "OPENBLAS_NUM_THREADS": "2"}


class Prepared:
    """A worker's templates, the second one with modules."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.watch, self.environment = DescriptorSelector(), environment
        self.said: list[str] = []
        self.preloaded = PreloadedTemplate(self.watch, self.said.append)

    def imports(self, *names: str, nice: int = 0, **variables: str) -> Prepared:
        """Wait until they are imported, which at the lowest priority would wait for all other tests."""
        self.preloaded.prepare(Preload({**self.environment, **variables}, names, nice=nice))
        while self.preloaded.is_awaited:
            self.watch.wait(60.0)
        return self

    def look(self, trial: Callable[[TrialContext], Mapping[str, Any]]) -> dict[str, float]:
        """Return what a trial reports from the process that begins now."""
        runner = self.preloaded.start()
        assert runner is not None, self.preloaded.left_out
        try:
            return reported(runner, trial)[0].metrics
        finally:
            end(runner)


@pytest.fixture
def worker(installed: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Prepared]:
    first = Template.program({**os.environ, **installed})
    monkeypatch.setattr(runner_template, "_STARTED", [first])
    made = Prepared(installed)
    yield made
    made.preloaded.close()
    made.watch.close()
    first.close()


def reported(runner: ForkedRunner, trial: Any, **load: Any) -> tuple[LaneReported, list[ImportedModules]]:
    """Let a runner train, and return its report with what it has imported, if it is to say that."""
    channel = agent_end(runner.channel)
    channel.post(Load(cloudpickle.dumps(trial), "accuracy", b"\0marker\n", **load))
    channel.post(Train((make_stage(0, stop=1, max_resource=1),)))
    found: list[Any] = []
    while (message := channel.receive()) is not None:
        found.append(message)
        if isinstance(message, Ended):
            runner.channel.shutdown(socket.SHUT_WR)
    reports = [one for one in found if isinstance(one, LaneReported)]
    assert reports, found
    return reports[0], [one for one in found if isinstance(one, ImportedModules)]


def end(runner: ForkedRunner) -> None:
    """End a runner as its agent's handle does."""
    os.killpg(runner.pid, signal.SIGKILL)
    runner.await_end()
    runner.wait()
    runner.channel.close()
    runner.stdout.close()
    runner.stderr.close()
    os.close(runner.lifeline)


def finds(*names: str) -> Callable[[TrialContext], dict[str, float]]:
    """Make a trial that reports which modules its process has when it begins."""

    def train(trial: TrialContext) -> dict[str, float]:
        import sys

        return {"accuracy": 1.0, **{name: float(name in sys.modules) for name in names}}

    return train


def test_runner_finds_what_was_imported_before_it_was_forked(worker: Prepared) -> None:
    found = worker.imports("plain_one", "noted_one").look(finds("plain_one", "noted_one", "last_one"))
    assert (found["plain_one"], found["noted_one"], found["last_one"]) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("names", "left_out"),
    [
        (("plain_one", "threaded_one", "last_one"), {"threaded_one": "it starts the thread 'mine'"}),
        (
            ("outer_one", "threaded_one", "last_one"),
            dict.fromkeys(("outer_one", "threaded_one"), "it starts the thread 'mine'"),
        ),
        (("open_one", "last_one"), {"open_one": "it keeps /dev/null open"}),
        (
            ("failing_one", "no_such_one", "last_one"),
            {"failing_one": "it cannot be imported here: SystemExit: not today"},
        ),
        (("temporary_one", "last_one"), {"temporary_one": "it makes a temporary file or folder"}),
        (("file_one", "tidy_one"), {"file_one": "it makes a temporary file or folder"}),
        (("serving_one", "last_one"), {"serving_one": "it starts a process"}),
        (("daemon_one", "last_one"), {"daemon_one": "it starts a process"}),
    ],
)
def test_module_that_no_fork_survives_is_left_out_alone(
    worker: Prepared, names: tuple[str, ...], left_out: dict[str, str]
) -> None:
    found = worker.imports(*names).look(finds(*names))
    assert worker.preloaded.left_out == left_out
    assert [name for name in names if found[name]] == [
        name for name in names if name not in left_out and name != "no_such_one"
    ]


def test_package_that_starts_a_thread_is_left_out_whole_and_once(worker: Prepared, tmp_path: Path) -> None:
    """Its modules come before it where they are named in the order in which they were ready."""
    package = tmp_path / "site-packages" / "threading_package"
    package.mkdir()
    (package / "__init__.py").write_text(f"from threading_package import first, second\n{PACKAGES['threaded_one']}")
    for name in ("first", "second"):
        (package / f"{name}.py").write_text("")
    names = ["threading_package.first", "threading_package.second", "threading_package", "last_one"]
    worker.imports(*names)
    assert list(worker.preloaded.left_out) == ["threading_package"]
    assert worker.look(finds("threading_package.first", "last_one")) == {
        "accuracy": 1.0, "threading_package.first": 0.0, "last_one": 1.0,
    }  # fmt: skip


def test_memory_of_pyarrow_is_begun_anew_in_a_fork(worker: Prepared) -> None:
    """Its thread, which each import of pandas brings, kept a process from being forked."""
    pytest.importorskip("pyarrow")

    def fills(trial: TrialContext) -> dict[str, float]:
        import sys

        was_there = float("pyarrow" in sys.modules)
        import pyarrow

        arrays = [pyarrow.array(range(10_000)) for _ in range(100)]
        return {"accuracy": was_there, "sum": float(sum(len(array) for array in arrays))}

    worker.imports("pyarrow")
    assert worker.preloaded.left_out == {}
    assert worker.look(fills) == {"accuracy": 1.0, "sum": 1_000_000.0}


def test_template_that_is_given_up_leaves_no_temporary_files(worker: Prepared, tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    worker.imports("temporary_one", "file_one", TMPDIR=str(folder))
    assert set(worker.preloaded.left_out) == {"temporary_one", "file_one"}
    assert list(folder.iterdir()) == []


def look_at_thread(trial: TrialContext) -> dict[str, float]:
    """Report what an import has set for its thread."""
    import decimal
    import sys

    had = "local_one" in sys.modules
    import local_one  # type: ignore[import-not-found]

    depth = getattr(local_one.here, "depth", 0)
    return {"accuracy": float(had), "depth": depth, "set": local_one.variable.get(), "prec": decimal.getcontext().prec}


def test_what_imports_set_for_their_thread_is_set_for_that_of_trials(worker: Prepared) -> None:
    assert worker.imports("local_one").look(look_at_thread) == {"accuracy": 1.0, "depth": 5, "set": 6, "prec": 77}


def look_at_variables(trial: TrialContext) -> dict[str, float]:
    """Report which environment variables a process begins with."""
    import os
    import sys

    noted = getattr(sys.modules.get("setting_one"), "note", "") == "1"
    return {name: float(name in os.environ) for name in ("OF_IMPORT", "OF_TRIAL")} | {"accuracy": float(noted)}


def test_variables_of_a_trial_are_those_of_imports_and_of_no_later_process(worker: Prepared) -> None:
    worker.preloaded.prepare(Preload(worker.environment, ("setting_one",), {"OF_IMPORT": "1", "OF_TRIAL": "1"}, nice=0))
    found = worker.imports("setting_one").look(look_at_variables)
    assert found == {"accuracy": 1.0, "OF_IMPORT": 1.0, "OF_TRIAL": 0.0}, "an import set one of them, a trial the other"


def test_import_that_ends_its_process_costs_no_runner(worker: Prepared) -> None:
    worker.imports("plain_one", "dying_one")
    assert worker.preloaded.start() is None
    assert worker.said == [f"{ALL} the process with these imports has ended"]
    runner = runner_template.fork_runner({})
    assert runner is not None
    assert reported(runner, finds("plain_one"))[0].metrics["plain_one"] == 0.0
    end(runner)


@pytest.mark.parametrize("call", ["memfd_create", "pidfd_open", "pipe"])
def test_machine_that_refuses_a_second_template_does_without(
    worker: Prepared, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, refused)
        before = len(os.listdir("/proc/self/fd"))
        worker.imports("plain_one")
        assert len(os.listdir("/proc/self/fd")) == before
    assert worker.preloaded.start() is None


def test_end_waits_for_no_import(worker: Prepared) -> None:
    worker.preloaded.prepare(Preload(worker.environment, ("endless_one",)))
    worker.preloaded.close()
    assert worker.preloaded.start() is None


def test_endless_refusals_end(worker: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(next_runner, "_MOST_LEFT_OUT", 1)
    worker.imports("outer_one", "threaded_one", "open_one")
    assert worker.preloaded.start() is None
    why = "1 and more cannot be imported beforehand: outer_one (it starts the thread 'mine')"
    assert worker.said == [f"{ALL} {why}"]


def look_at_process(trial: TrialContext) -> dict[str, float]:
    """Report what the process is like."""
    import os
    import sys

    import noted_one  # type: ignore[import-not-found]
    import numpy as np

    return {
        "accuracy": 1.0,
        "noted": float(noted_one.note == "as in the runner"),
        "import_nice": noted_one.nice,
        "nice": float(os.getpriority(os.PRIO_PROCESS, 0)),
        "threads": float(len(os.listdir("/proc/self/task"))),
        "drawn": float(np.random.random()),  # noqa: NPY002
        "products": float((np.ones((300, 300)) @ np.ones((300, 300)))[0, 0]),
        "names_in_main": float(len([name for name in vars(sys.modules["__main__"]) if not name.startswith("__")])),
    }


def test_forked_runners_are_as_if_they_had_imported_it_themselves(worker: Prepared) -> None:
    worker.imports("noted_one", "numpy", "numpy.random", nice=Preload({}, ()).nice, NOTE="as in the runner")
    assert worker.preloaded.left_out == {}, "the threads of OpenBLAS end before a fork"
    one, other = worker.look(look_at_process), worker.look(look_at_process)
    assert one["noted"] == 1.0
    assert one["drawn"] != other["drawn"]
    assert one["products"] == 300.0
    assert one["names_in_main"] == 0.0
    assert (one["import_nice"], one["nice"]) == (19.0, float(os.getpriority(os.PRIO_PROCESS, 0)))


def test_first_template_keeps_the_second_when_its_runners_end(worker: Prepared) -> None:
    runner = runner_template.fork_runner({})
    worker.imports("plain_one")
    assert runner is not None
    end(runner)
    assert worker.look(finds("plain_one"))["plain_one"] == 1.0


def test_second_template_that_is_killed_is_done_without(worker: Prepared) -> None:
    worker.imports("plain_one")
    template = worker.preloaded._template
    assert template is not None
    template.kill()
    assert worker.preloaded.start() is None
    assert worker.said == [f"{ALL} the process with these imports has ended"]
    runner = runner_template.fork_runner({})
    assert runner is not None
    end(runner)


def imports_some(trial: TrialContext) -> dict[str, float]:
    import os

    os.environ["NOTE"] = "set by the trial"
    import own_one  # type: ignore[import-not-found]  # noqa: F401
    import plain_one  # type: ignore[import-not-found]  # noqa: F401

    return {"accuracy": 1.0}


def test_runner_names_the_installed_modules_and_the_variables(worker: Prepared, tmp_path: Path) -> None:
    (tmp_path / "own_one.py").write_text("")
    runner = runner_template.fork_runner({})
    assert runner is not None
    environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path), worker.environment["PYTHONPATH"]])}
    _, found = reported(runner, imports_some, names_imports=True, environment=environment)
    end(runner)
    if not found:
        pytest.skip("this machine has too little memory for it")
    [imported] = found
    assert "plain_one" in imported.modules
    assert {"own_one", "tests", "__main__"}.isdisjoint(imported.modules)
    assert imported.environment == {"NOTE": "set by the trial"}


def trains_torch(trial: TrialContext) -> dict[str, float]:
    """Train in torch, which this process had before or has not."""
    import sys

    had = "torch._dynamo" in sys.modules
    import torch

    torch.manual_seed(7)
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.rand(16, 8)).square().mean().backward()
        optimizer.step()
    return {
        "accuracy": float(sum(one.sum() for one in net.parameters())),
        "had": float(had),
        "may_use_cuda": float(not torch._C._cuda_isInBadFork()),
    }


def trains_keras(trial: TrialContext) -> dict[str, float]:
    """Train in Keras on TensorFlow, which this process had before or has not."""
    import sys

    had = "tensorflow" in sys.modules
    import keras
    import numpy as np

    keras.utils.set_random_seed(7)
    net = keras.Sequential([keras.layers.Dense(8), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
    net.compile(keras.optimizers.Adam(), "mse")
    net.fit(np.ones((32, 8)), np.ones(32), epochs=2, verbose=0)
    return {"accuracy": float(sum(one.sum() for one in net.get_weights())), "had": float(had), "may_use_cuda": 1.0}


@pytest.mark.parametrize("trains", [trains_torch, pytest.param(trains_keras, marks=takes_long)])
def test_framework_trains_as_in_a_process_that_imports_it(worker: Prepared, trains: Any) -> None:
    runner = runner_template.fork_runner({})
    assert runner is not None
    alone, imported = reported(runner, trains, names_imports=True, environment=worker.environment)
    end(runner)
    if not imported:
        pytest.skip("this machine has too little memory for it")
    found = worker.imports(*imported[0].modules, nice=0, **imported[0].environment).look(trains)
    assert worker.preloaded.left_out == {}, "it starts threads at its first use, and not at its import"
    assert found == {**alone.metrics, "had": 1.0}
    assert alone.metrics["had"] == 0.0
    assert found["may_use_cuda"] == 1.0


@pytest.mark.parametrize(
    ("rooms", "words"),
    [
        ([(5_000, "the machine"), (4_000, "its cgroup")], ""),
        ([(5_000, "the machine"), (3_999, "its cgroup")], "its cgroup has 3999 MB free, less than 10 times the 400 MB"),
        ([], ""),
    ],
)
def test_room_for_a_second_process_lacks_by_any_limit(
    rooms: list[tuple[int, str]], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preloading, "status", lambda: {"VmRSS": 400 << 20})
    monkeypatch.setattr(preloading, "rooms", lambda: iter([(size << 20, name) for size, name in rooms]))
    assert preloading.lacking_room().removesuffix(" of this process") == words


def test_modules_of_this_process_are_named_in_the_order_of_their_import() -> None:
    names = installed_modules()
    assert "pytest" in names
    assert names.index("msgspec") < names.index("asyncsearch.agent.runner_supervisor")
    assert not [name for name in names if name.startswith("tests.")]
