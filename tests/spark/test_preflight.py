"""What is proved before a worker starts, on a Spark of settings alone."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from asyncsearch._version import __version__
from asyncsearch.errors import ClusterError, NotEnoughSlotsError, PackagesDifferError, UnsupportedSparkError, UsageError
from asyncsearch.ids import WorkerId
from asyncsearch.launch.spark.base_session import new_tag
from asyncsearch.launch.spark.container_memory import memory_warning
from asyncsearch.launch.spark.placement import Executor
from asyncsearch.launch.spark.preflight import addresses, examine, task_mode, warnings
from asyncsearch.launch.spark.probe import PACKAGES, as_packages_error, probe
from asyncsearch.launch.spark.session import Made, Spark
from asyncsearch.launch.spark.task import TaskMode
from asyncsearch.store import LocalStore
from asyncsearch.study.worker_config import worker_config

ELASTIC = {"spark.dynamicAllocation.enabled": "true"}


class FakeContext:
    def __init__(self, master: str, settings: dict[str, str]) -> None:
        self.master = master
        self.startTime = 0
        self.pythonExec = "/usr/bin/python3-of-the-cluster"
        self._conf = settings


class FakeSpark(Spark):
    """Has settings and slots; its executors answer what they are told to."""

    def __init__(self, settings: dict[str, str] | None = None, *, master: str = "yarn", slots: int = 4) -> None:
        super().__init__(FakeContext(master, {"spark.driver.host": "localhost"} | (settings or {})))
        self.count = slots
        self.answer: Any = ("host-1", "/usr/bin/python3", __version__, ())
        self.present: list[Executor] | None = [Executor(name, "host-1", slots // 2) for name in ("1", "2")]
        if master.startswith("local"):
            self.present = [Executor("driver", "here", slots)]
        self.is_busy = False
        """Whether one of its executors has no slot, so that another runs its tasks."""
        self.asked = 0
        self.places: list[str] = []
        self.cancelled: list[str] = []

    def slots(self) -> int:
        return self.count

    def executors(self) -> list[Executor] | None:
        return self.present

    def run(self, task: Callable[[Iterable[int]], Iterable[Any]], tasks: int, **how: Any) -> list[Any]:
        self.asked, self.places = tasks, how["places"]
        if self.answer is None:
            return list(task([]))
        if isinstance(self.answer, Exception):
            raise self.answer
        return [(*self.answer, 0 if self.is_busy else number) for number in range(tasks)]

    def thread(self, target: Callable[[], None], name: str) -> Any:
        class Now:
            def start(self) -> None:
                target()

        return Now()

    def cancel(self, tag: str) -> None:
        self.cancelled.append(tag)


def check(spark: FakeSpark, parallelism: int | None = None, mode: TaskMode = TaskMode.INDEPENDENT) -> Any:
    return examine(spark, parallelism, mode, 600.0)


def test_all_slots_are_used_where_nobody_says_how_many() -> None:
    assert check(FakeSpark(slots=7)).parallelism == 7


def test_every_executor_is_asked_although_fewer_workers_are_wanted() -> None:
    spark = FakeSpark(slots=7)
    assert check(spark, 1).parallelism == 1
    assert spark.asked == 2


def test_too_few_slots_say_numbers_and_what_to_do() -> None:
    with pytest.raises(
        NotEnoughSlotsError, match=r"8 workers .* yarn has 4: run with parallelism=4, or raise spark.executor"
    ):
        check(FakeSpark(slots=4), 8)
    with pytest.raises(NotEnoughSlotsError, match=r"local\[2\] has 2: .* use master\('local\[8\]'\)"):
        check(FakeSpark(slots=2, master="local[2]"), 8)


def test_cluster_without_slots_is_refused() -> None:
    with pytest.raises(NotEnoughSlotsError, match="1 workers need as many task slots, and yarn has 0: raise"):
        check(FakeSpark(slots=0))


class LateSpark(FakeSpark):
    """Its first executor comes at the third look."""

    looks = 0

    def slots(self) -> int:
        self.looks += 1
        return 4 if self.looks >= 3 else 0


@pytest.mark.parametrize(("age_s", "is_found"), [(300, True), (3_000, False)])
def test_a_first_executor_is_waited_for_while_the_application_is_young(
    age_s: float, is_found: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("asyncsearch.launch.spark.slots.WAIT_LOGGED_AFTER_S", 0.0)
    monkeypatch.setattr("asyncsearch.launch.spark.slots._GROWTH_LOOK_S", 0.001)
    spark = LateSpark()
    spark.context.startTime = int((time.time() - age_s) * 1000)
    if not is_found:
        with pytest.raises(NotEnoughSlotsError, match="yarn has 0"):
            check(spark, 2)
        return
    assert check(spark, 2).parallelism == 2
    assert [record.getMessage()[:41] for record in caplog.records] == ["yarn has given this application no slot y"]


class SlowSpark(FakeSpark):
    """Its executors come one by one, further apart than those of a cluster that has no more."""

    def __init__(self, settings: dict[str, str], age_s: float, master: str) -> None:
        super().__init__(settings, master=master)
        self.context.startTime = int((time.time() - age_s) * 1000)
        self.counts = [1] * 10 + [2] * 10 + [3]

    def slots(self) -> int:
        return self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]


@pytest.mark.parametrize(
    ("master", "settings", "age_s", "wanted", "workers"),
    [
        ("yarn", {}, 0.0, None, 2),  # YARN is asked for two executors
        ("yarn", {"spark.executor.instances": "3"}, 0.0, None, 3),
        ("yarn", {"spark.executor.instances": "3"}, 100.0, 3, 3),
        ("yarn", {"spark.executor.instances": "3"}, 100.0, None, 1),
        ("spark://host:7077", {}, 0.0, None, 1),  # it gives what it has
        ("spark://host:7077", {}, 0.0, 3, 3),  # a driver that was killed has still held some of it
    ],
)
def test_executors_that_were_asked_for_are_waited_for(
    master: str,
    settings: dict[str, str],
    age_s: float,
    wanted: int | None,
    workers: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("asyncsearch.launch.spark.slots._SETTLED_S", 0.0)
    monkeypatch.setattr("asyncsearch.launch.spark.slots._GROWTH_LOOK_S", 0.001)
    assert check(SlowSpark(settings, age_s, master), wanted).parallelism == workers


def test_an_old_application_of_a_cluster_is_not_kept_waiting_for_more() -> None:
    with pytest.raises(NotEnoughSlotsError, match=r"3 workers .* has 1"):
        check(SlowSpark({}, 100.0, "spark://host:7077"), 3)


def test_no_workers_are_refused() -> None:
    with pytest.raises(UsageError, match="parallelism=0"):
        check(FakeSpark(), 0)


def test_dynamic_allocation_counts_what_it_may_bring() -> None:
    settings = {
        **ELASTIC,
        "spark.dynamicAllocation.maxExecutors": "5",
        "spark.executor.cores": "4",
        "spark.task.cpus": "2",
    }
    assert check(FakeSpark(settings, slots=0), None, TaskMode.PLAIN).parallelism == 10
    with pytest.raises(NotEnoughSlotsError, match=r"11 workers .* at most 10: run with parallelism=10"):
        check(FakeSpark(settings, slots=0), 11, TaskMode.PLAIN)


@pytest.mark.parametrize("limit", [{}, {"spark.dynamicAllocation.maxExecutors": "2147483647"}])
def test_dynamic_allocation_without_limit_wants_a_number(limit: dict[str, str]) -> None:
    spark = FakeSpark({**ELASTIC, **limit}, slots=0)
    assert check(spark, 3, TaskMode.PLAIN).parallelism == 3
    assert spark.asked == 2
    with pytest.raises(NotEnoughSlotsError, match="parallelism="):
        check(spark, None, TaskMode.PLAIN)


def test_dynamic_allocation_refuses_barrier_tasks() -> None:
    with pytest.raises(UnsupportedSparkError, match="does not allow barrier tasks"):
        check(FakeSpark(ELASTIC), 1, TaskMode.INDEPENDENT)


@pytest.mark.parametrize(("cpus", "threads"), [("1", 1), ("3", 3), ("0.5", 1), ("2.5", 3), ("", 1)])
def test_threads_are_the_cores_of_a_task(cpus: str, threads: int) -> None:
    assert check(FakeSpark({"spark.task.cpus": cpus})).cpu_threads == threads


@pytest.mark.parametrize(
    ("settings", "master", "words"),
    [
        ({"spark.executor.cores": "8"}, "yarn", "600 MB before the first trial, and has 384 MB"),
        ({"spark.executor.cores": "8"}, "k8s://https://host", "memoryOverhead=600m"),
        ({"spark.executor.cores": "8"}, "spark://host:7077", ""),
        ({"spark.executor.cores": "8", "spark.executor.memory": "8g"}, "yarn", ""),
        ({"spark.executor.cores": "8", "spark.executor.memoryOverhead": "512"}, "yarn", "has 512 MB"),
        ({"spark.executor.cores": "8", "spark.executor.pyspark.memory": "1g"}, "yarn", ""),
        ({"spark.executor.cores": "8", "spark.task.cpus": "2"}, "yarn", ""),
        ({"spark.executor.cores": "8", "spark.executor.memory": "much"}, "yarn", ""),
        ({}, "yarn", ""),
    ],
)
def test_executors_without_memory_for_their_workers_are_said(settings: dict[str, str], master: str, words: str) -> None:
    spark = FakeSpark(settings, master=master)
    said = memory_warning(spark.conf, master, spark.cpus_per_task)
    assert words in said
    assert bool(words) == bool(said)
    assert said in ["", *warnings(spark, TaskMode.INDEPENDENT)]


@pytest.mark.parametrize(
    ("settings", "master", "given_mb"),
    [
        ({"spark.executor.cores": "4", "spark.executor.memoryOverhead": "2g"}, "yarn", 512),
        ({"spark.executor.pyspark.memory": "1g"}, "k8s://https://host", 384 + 1024),
        ({"spark.executor.memoryOverhead": "much"}, "yarn", None),
        ({}, "spark://host:7077", None),
    ],
)
def test_each_worker_knows_its_part_of_the_memory_of_its_container(
    settings: dict[str, str], master: str, given_mb: int | None
) -> None:
    given = None if given_mb is None else given_mb << 20
    spark = FakeSpark(settings, master=master)
    found, remote = (examine(spark, 1, TaskMode.PLAIN, 1.0, remote_driver=is_remote) for is_remote in (False, True))
    assert found.given_bytes == remote.given_bytes == given
    what = SimpleNamespace(config=SimpleNamespace(study="s", metric="m"), shared=None, devices=None, worker={})
    workers: Any = SimpleNamespace(preflight=found, definition=what, devices=None)
    assert worker_config(workers, b"", LocalStore("s"), WorkerId(0), 1, None).given_bytes == given


@pytest.mark.parametrize(
    ("settings", "mode", "words"),
    [
        (ELASTIC, TaskMode.PLAIN, "Dynamic allocation is on"),
        (
            {**ELASTIC, "spark.speculation": "true", "spark.speculation.task.duration.threshold": "10s"},
            TaskMode.PLAIN,
            "starts copies of tasks",
        ),
        (
            {"spark.python.worker.idleTimeoutSeconds": "300"},
            TaskMode.INDEPENDENT,
            "idleTimeoutSeconds=300 may kill workers",
        ),
        ({"spark.python.worker.killOnIdleTimeout": "true"}, TaskMode.INDEPENDENT, "may kill workers"),
        (
            {"spark.executor.pyspark.memory": "2g", "spark.task.resource.gpu.amount": "1"},
            TaskMode.INDEPENDENT,
            "limits the address space",
        ),
    ],
)
def test_settings_that_harm_are_said(settings: dict[str, str], mode: TaskMode, words: str) -> None:
    assert words in " ".join(warnings(FakeSpark(settings), mode))


def test_a_session_made_for_the_run_is_named_with_its_master_and_remedy() -> None:
    spark = FakeSpark(master="local[*]")
    assert warnings(spark, TaskMode.INDEPENDENT) == []
    spark._made = Made(None)
    (note,) = warnings(spark, TaskMode.INDEPENDENT)
    assert "master local[*]" in note
    assert 'SparkSession.builder.master("local[4]").getOrCreate()' in note


@pytest.mark.parametrize(
    ("master", "settings", "mode"),
    [
        ("local[2]", {}, TaskMode.PLAIN),
        ("local", ELASTIC, TaskMode.PLAIN),
        ("local-cluster[2,1,512]", {}, TaskMode.INDEPENDENT),
        ("yarn", {}, TaskMode.INDEPENDENT),
        ("yarn", ELASTIC, TaskMode.PLAIN),
    ],
)
def test_workers_are_barrier_tasks_where_allowed_and_losable(
    master: str, settings: dict[str, str], mode: TaskMode
) -> None:
    assert task_mode(FakeSpark(settings, master=master)) is mode


def test_speculation_is_no_warning_in_a_local_session_which_has_none() -> None:
    settings = {"spark.speculation": "true", "spark.speculation.task.duration.threshold": "1h"}
    assert warnings(FakeSpark(settings, master="local[2]"), TaskMode.PLAIN) == []


def test_only_the_first_workers_of_a_local_session_wait_for_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncsearch.launch.spark.preflight.cores", lambda: 3)
    monkeypatch.setattr(FakeSpark, "runs_this_python", True)
    spark = FakeSpark(master="local[4]")
    assert check(spark).launches_at_once == 2
    spark.serves()
    assert check(spark).launches_at_once is None, "its Python processes are warm, and start together in no time"
    assert check(FakeSpark()).launches_at_once is None, "executors have cores of their own"


def test_the_session_of_spark_submit_needs_no_advice_on_its_master(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = FakeSpark(master="local[2]")
    spark._made = Made(None)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert "To choose its master" in " ".join(warnings(spark, TaskMode.INDEPENDENT))
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4711")
    assert warnings(spark, TaskMode.INDEPENDENT) == []


def test_usual_settings_have_no_warnings() -> None:
    settings = {
        "spark.python.worker.idleTimeoutSeconds": "0",
        "spark.executor.pyspark.memory": "2g",
        "spark.speculation": "true",
    }
    assert warnings(FakeSpark(settings), TaskMode.INDEPENDENT) == []


def test_missing_packages_name_the_machine_and_the_way_to_ship_them() -> None:
    spark = FakeSpark()
    spark.answer = ("host-1", "/usr/bin/python3", "", ("asyncsearch", "grpcio"))
    with pytest.raises(
        PackagesDifferError,
        match=r"asyncsearch, grpcio cannot be imported on host-1 \(Python /usr/bin/python3\)\. .*venv-pack",
    ):
        check(spark)


def test_another_version_of_asyncsearch_is_refused() -> None:
    spark = FakeSpark()
    spark.answer = ("host-1", "/usr/bin/python3", "0.0.1", ())
    with pytest.raises(PackagesDifferError, match=r"on the driver and 0\.0\.1 on host-1"):
        check(spark)


def test_on_one_machine_the_advice_is_to_name_the_interpreter() -> None:
    spark = FakeSpark(master="local[4]")
    spark.answer = ("here", "/usr/bin/python3", "", ("asyncsearch",))
    with pytest.raises(PackagesDifferError, match=r"os\.environ\['PYSPARK_PYTHON'\] = sys\.executable"):
        check(spark)


def test_another_python_is_told_as_such() -> None:
    text = (
        "Traceback (most recent call last):\n  File 'worker.py'\npyspark.errors.exceptions.base.PySparkRuntimeError: "
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark "
        "cannot run with different minor versions.\n"
    )
    error = as_packages_error(RuntimeError(text), is_local=False)
    assert "another Python than the driver: Python in worker has different version: 3.9" in str(error)
    missing = RuntimeError('java.io.IOException: Cannot run program "./environment/bin/python": error=2, No such file')
    assert './environment/bin/python": error=2' in str(as_packages_error(missing, is_local=False))
    assert as_packages_error(RuntimeError("anything else"), is_local=False) is None


def test_folder_without_code_is_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_a_folder" / "inside").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path))
    packages = {"only_a_folder.inside": "folder", "msgspec": "msgspec", "missing.inside": "missing"}
    [(_, python, version, missing, _, unreached)] = probe(packages)([0])
    assert (python, version, missing, unreached) == (sys.executable, __version__, ("folder", "missing"), "")


def test_probe_runs_where_asyncsearch_is_missing() -> None:
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    code = (
        "import pickle, sys; sys.modules['asyncsearch'] = None; look = pickle.loads(sys.stdin.buffer.read());"
        "print(look([0])[0][3])"
    )
    data = cloudpickle.dumps(probe({"msgspec": "msgspec"}))
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=False)
    assert done.stdout.decode().strip() == "('asyncsearch',)", done.stderr.decode()


def test_packages_that_are_asked_for_are_those_that_workers_import() -> None:
    requirements = importlib.metadata.requires("asyncsearch") or []
    required = {re.split(r"[^\w-]", text)[0] for text in requirements if "extra ==" not in text}
    assert set(PACKAGES.values()) == required - {"cryptography"}  # for the driver alone


def settings_of(**settings: str) -> Callable[[str], str]:
    return lambda key: settings.get(key.replace(".", "_"), "")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ("this-machine", "0.0.0.0")),
        ({"spark_driver_host": "10.0.0.5"}, ("10.0.0.5", "0.0.0.0")),
        ({"spark_driver_host": "10.0.0.5", "spark_driver_bindAddress": "10.0.0.6"}, ("10.0.0.5", "10.0.0.6")),
        ({"spark_driver_host": "0.0.0.0", "spark_driver_bindAddress": "0.0.0.0"}, ("this-machine", "0.0.0.0")),
        ({"spark_asyncsearch_driver_host": "gateway", "spark_driver_host": "10.0.0.5"}, ("gateway", "0.0.0.0")),
        ({"spark_driver_host": "localhost"}, ("localhost", "127.0.0.1")),
        ({"spark_driver_host": "fe80::1"}, ("[fe80::1]", "[::]")),
    ],
)
def test_wildcard_is_never_advertised(settings: dict[str, str], expected: tuple[str, str]) -> None:
    assert addresses(settings_of(**settings), False, lambda: "this-machine") == expected


def test_port_is_any_unless_it_is_set() -> None:
    assert check(FakeSpark()).port == 0
    assert check(FakeSpark({"spark.asyncsearch.driver.port": "40404"})).port == 40404
    with pytest.raises(UsageError, match=r"spark\.asyncsearch\.driver\.port='many' is not a port"):
        check(FakeSpark({"spark.asyncsearch.driver.port": "many"}))


def test_local_workers_reach_the_driver_over_loopback() -> None:
    assert addresses(settings_of(spark_driver_host="10.0.0.5"), True) == ("127.0.0.1", "127.0.0.1")


@pytest.mark.parametrize("host", ["nowhere.invalid", "localhost"])
def test_executors_that_do_not_reach_the_driver_are_told_with_its_address(host: str) -> None:
    own = {"host": host, "bindAddress": "127.0.0.1", "port": "0"}
    spark = FakeSpark({f"spark.asyncsearch.driver.{key}": value for key, value in own.items()})
    spark.answer = None
    if host == "localhost":
        assert check(spark).host == host
        return
    words = r"do not reach this process at nowhere\.invalid:\d+, .*Set spark\.asyncsearch\.driver\.host .*driver\.port"
    with pytest.raises(ClusterError, match=words):
        check(spark)


def test_tags_have_no_commas_and_differ() -> None:
    assert "," not in new_tag("a,b")
    assert new_tag("a") != new_tag("a")


@pytest.mark.parametrize("master", ["local[4]", "yarn"])
def test_each_executor_is_asked_once_and_later_ones_when_they_come(master: str) -> None:
    spark = FakeSpark(master=master)
    assert spark.present is not None
    check(spark, 2)
    assert spark.asked == len(spark.present)
    assert spark.places == [one.place for one in spark.present]
    spark.asked = 0
    check(spark, 2)
    assert spark.asked == 0
    spark.present = [*spark.present, Executor("7", "host-2", 2)]
    check(spark, 2)
    assert (spark.asked, spark.places) == (1, ["executor_host-2_7"])


def test_executors_whose_tasks_ran_elsewhere_are_asked_again() -> None:
    spark = FakeSpark(master="yarn")
    spark.is_busy = True
    for _ in range(2):
        spark.asked = 0
        check(spark, 2)
        assert spark.asked == 2


@pytest.mark.parametrize(("present", "asked"), [(None, 4), ([], 1)])
def test_executors_without_names_are_asked_by_slots_and_none_by_one_task(present: Any, asked: int) -> None:
    spark = FakeSpark(master="yarn")
    spark.present = present
    check(spark, 2)
    assert (spark.asked, spark.places) == (asked, [])


@pytest.mark.parametrize(("master", "asked"), [("local[4]", 0), ("yarn", 2)])
def test_tasks_that_run_this_python_on_this_machine_are_not_asked(master: str, asked: int) -> None:
    spark = FakeSpark(master=master)
    spark.context.pythonExec = sys.executable
    check(spark)
    assert spark.asked == asked


def test_local_executors_that_lacked_something_are_asked_again() -> None:
    spark = FakeSpark(master="local[4]")
    spark.answer = ("here", "/usr/bin/python3", "", ("asyncsearch",))
    for _ in range(2):
        with pytest.raises(PackagesDifferError):
            check(spark)
