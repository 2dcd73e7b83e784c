"""What all tests have in common: which of them may run beside others, and which are fast."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from asyncsearch import WorkerOptions
from asyncsearch.launch import processes
from tests.forked_workers import ForkedWorkers
from tests.shares import IS_ALL

WHOLE_MACHINE = ("spark", "notebook", "cluster")
NOT_FAST = frozenset(
    (
        "agent",
        "checking",
        "cli",
        "clusters",
        "doctor",
        "faults",
        "first_calls",
        "launch",
        "notebooks",
        "packing",
        "scripts",
        "security",
        "shared",
        "spark",
        "store",
        "study",
        "system",
        "test_page_code.py",
        "test_pictures.py",
        "test_release.py",
        "trainers",
    )
)
"""Folders and files whose tests start processes, train networks or work on disks; the others are pure or simulated."""

FORKING = frozenset({"fair", "first_calls", "hyperopt", "maggy", "optuna", "ray", "schedulers", "study", "wandb"})
"""Folders whose tests are about searches, and not about processes and their ends: workers are forked in them
(``tests/forked_workers.py``), and no program is started for each."""

# Two LLVMs abort a process with TensorFlow when torch loads its compiler, and a process of tests has both frameworks.
sys.modules.setdefault("triton", None)  # type: ignore[arg-type]

# How long an example takes says how busy the machine is. What the test command draws is the same in each run: else a
# change would fail for what it has not touched. --all draws anew each time, and more.
settings.register_profile("all", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("suite", settings.get_profile("all"), max_examples=16, derandomize=True)
settings.register_profile("fast", settings.get_profile("all"), max_examples=16, derandomize=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fast",
        action="store_true",
        help="only the pure and the simulated floors, without slow tests and with a fifth of the random examples",
    )


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("fast" if config.getoption("--fast") else "all" if IS_ALL else "suite")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_fast = collection_path.parent != Path(__file__).parent or collection_path.name not in NOT_FAST
    return None if is_fast or not config.getoption("--fast") else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the tests that need the whole machine one at a time: first, on one worker of xdist; without xdist, last.

    A worker of xdist takes the other tests file by file, so that what a file makes once is made once: those with the
    most slow tests first, for the end of a long one would be waited for.
    """
    heavy = {item for item in items if any(item.get_closest_marker(name) for name in WHOLE_MACHINE)}
    slow = {item for item in items if item.get_closest_marker("slow") or item in heavy}
    if hasattr(config, "workerinput"):
        for item in items:
            item.add_marker(pytest.mark.xdist_group("whole-machine" if item in heavy else _file_of(item)))
        slow_tests = Counter(item.path for item in slow - heavy if not _is_left_out(item))
        items.sort(key=lambda item: (item not in heavy, -slow_tests[item.path]))
    else:
        items.sort(key=lambda item: item in heavy)
    if config.getoption("--fast"):
        config.hook.pytest_deselected(items=[item for item in items if item in slow])
        items[:] = [item for item in items if item not in slow]


def _forking(*modules: str) -> Iterator[ForkedWorkers]:
    workers = ForkedWorkers("asyncsearch.launch.child_process", *modules)
    yield workers
    workers.close()


@pytest.fixture(scope="session")
def _plain_forks() -> Iterator[ForkedWorkers]:
    yield from _forking()


@pytest.fixture(scope="session")
def _torch_forks() -> Iterator[ForkedWorkers]:
    yield from _forking("torch", "torch._dynamo", "torch.distributed.fsdp", "asyncsearch.trainers.torch.trainer")


@pytest.fixture(scope="session")
def _keras_forks() -> Iterator[ForkedWorkers]:
    yield from _forking("keras", "asyncsearch.trainers.keras.trainer")


def _starting_by(workers: ForkedWorkers) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if sys.platform == "linux":
            patch.setattr(processes, "_start", workers.start)
        yield


@pytest.fixture(scope="module")
def torch_workers(_torch_forks: ForkedWorkers) -> Iterator[None]:
    """Let workers in processes of their own begin with torch imported."""
    yield from _starting_by(_torch_forks)


@pytest.fixture(scope="module")
def keras_workers(_keras_forks: ForkedWorkers) -> Iterator[None]:
    """Let workers in processes of their own begin with Keras imported."""
    yield from _starting_by(_keras_forks)


@pytest.fixture(scope="module")
def forked_workers(_plain_forks: ForkedWorkers) -> Iterator[None]:
    """Let workers in processes of their own begin without a start of Python."""
    yield from _starting_by(_plain_forks)


@pytest.fixture(scope="module", autouse=True)
def _forked_in_some_folders(request: pytest.FixtureRequest) -> None:
    if request.path.parent.name in FORKING:
        request.getfixturevalue("forked_workers")


@pytest.fixture(scope="module", autouse=True)
def _without_preloading(request: pytest.FixtureRequest) -> Iterator[None]:
    """Import nothing for later processes where searches last a second: each import would be computed twice."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name in FORKING | {"gangs", "packing", "trainers"}:
            chosen = WorkerOptions.for_agents
            patch.setattr(WorkerOptions, "for_agents", lambda options: chosen(options) | {"preloads": False})
        yield


def pytest_sessionfinish() -> None:
    """Stop this process's HDFS while it is waited for: xdist kills a worker whose exit takes longer than 10 s."""
    if (cluster := sys.modules.get("tests.store.hdfs_cluster")) is not None:
        cluster.stop()


def _is_left_out(item: pytest.Item) -> bool:
    return any(mark.args[:1] == (True,) for mark in item.iter_markers("skipif"))


def _file_of(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).with_suffix("").as_posix()


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what was imported, millions of objects, with each of which it is slower."""
    gc.collect()
    gc.freeze()
