"""Which facts are faults, which are warnings, and what each says to change."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from typing import Any

import msgspec
import pytest

from asyncsearch._version import __version__
from asyncsearch.doctor import Diagnosis, Examination, Severity
from asyncsearch.doctor.diagnosis import of_cluster, of_executors_store, of_machine, of_store
from asyncsearch.doctor.facts import MachineFacts, StoreFacts, machine_facts
from asyncsearch.launch.spark.cluster_facts import ClusterFacts
from asyncsearch.launch.spark.task_facts import StoreView, TaskFacts

PACKAGES = {"asyncsearch": __version__, "grpcio": "1.70.0", "hdfs-native": "0.14.7"}
MACHINE = MachineFacts(
    python="/usr/bin/python3",
    python_version="3.11.7",
    version=__version__,
    home="/lib/asyncsearch",
    cores=8,
    memory_bytes=10**10,
    descriptors=65_536,
    scratch="/tmp",
    scratch_bytes=10**11,
    has_pyspark=True,
    has_java=True,
)
VIEW = StoreView(host="host-1", write_s=0.01, commit_s=0.1, fetch_s=0.1)
STORE = StoreFacts(shown="/shared", append_s=0.001, write_s=0.01, commit_s=0.1, fetch_s=0.1)
TASK = TaskFacts(
    host="host-1",
    python="./environment/bin/python",
    python_version="3.11.7",
    packages=PACKAGES,
    gpus=(),
    visible_gpus=None,
    has_devices=False,
    connection_error="",
    round_trip_s=0.001,
    ahead_s=0.0,
    scratch_bytes=10**11,
)


def cluster(*tasks: TaskFacts, **changes: Any) -> ClusterFacts:
    facts = ClusterFacts(
        place="yarn",
        spark_version="4.3.0",
        is_local=False,
        settings={},
        driver="driver:4711",
        packages=PACKAGES,
        slots=4,
        tasks=tasks or (TASK,),
    )
    return msgspec.structs.replace(facts, **changes)


def task(**changes: Any) -> TaskFacts:
    return msgspec.structs.replace(TASK, **changes)


def unsound(found: list[Diagnosis]) -> list[tuple[Severity, str]]:
    """Return what is not in order, finding and remedy in one text."""
    return [(one.severity, f"{one.finding} => {one.remedy}") for one in found if one.severity is not Severity.OK]


def only(found: list[Diagnosis]) -> tuple[Severity, str]:
    [one] = unsound(found)
    return one


def test_what_is_in_order_needs_no_change() -> None:
    found = of_machine(MACHINE) + of_store(STORE) + of_cluster(cluster()) + of_executors_store("/shared", [VIEW])
    assert unsound(found) == []
    assert all(one.finding and not one.remedy for one in found)


def test_this_machine_can_be_described() -> None:
    assert of_machine(machine_facts())[0].severity is Severity.OK


@pytest.mark.parametrize(
    ("change", "finding", "remedy"),
    [
        ({"descriptors": 256}, "256 files open", "ulimit -n 4096"),
        ({"scratch_bytes": 10**8}, "/tmp has 100 MB left", "TMPDIR"),
        ({"has_java": False}, "pyspark is installed and Java is not", "backend='processes'"),
    ],
)
def test_a_machine_that_lacks_something_is_warned_of(change: dict[str, Any], finding: str, remedy: str) -> None:
    severity, text = only(of_machine(msgspec.structs.replace(MACHINE, **change)))
    assert severity is Severity.WARNING
    assert finding in text.split(" => ")[0]
    assert remedy in text.split(" => ")[1]


def test_a_machine_without_spark_needs_no_java() -> None:
    assert unsound(of_machine(msgspec.structs.replace(MACHINE, has_java=False, has_pyspark=False))) == []


def test_unlimited_descriptors_are_enough() -> None:
    assert unsound(of_machine(msgspec.structs.replace(MACHINE, descriptors=-1))) == []


def test_a_failing_store_is_a_fault_with_the_step_and_the_errors_words() -> None:
    facts = StoreFacts(shown="/shared", failed_step="write a journal", failure="No space left. Free some.")
    assert only(of_store(facts)) == (
        Severity.FAULT,
        "store /shared: could not write a journal => No space left. Free some.",
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"append_s": 0.08}, ("takes 80.0 ms", "a unit of training")),
        ({"commit_s": 4.0}, ("written at 2 MB/s", "save_every=")),
        ({"fetch_s": 4.0}, ("read at 2 MB/s", "save_every=")),
        ({"is_exclusive": False}, ("two drivers", "one driver")),
        ({"free_bytes": 10**8}, ("100 MB are left", "quota_bytes")),
        ({"ahead_s": 60.0}, ("60.0 s ahead of", "NTP")),
        ({"ahead_s": -60.0}, ("60.0 s behind", "NTP")),
    ],
)
def test_a_store_that_is_slow_or_strange_is_warned_of(change: dict[str, Any], words: tuple[str, str]) -> None:
    severity, text = only(of_store(msgspec.structs.replace(STORE, **change)))
    assert severity is Severity.WARNING
    assert all(part in side for part, side in zip(words, text.split(" => "), strict=True))


def test_one_slot_is_named_as_one() -> None:
    found = "\n".join(map(str, of_cluster(cluster(slots=1))))
    assert "Spark: 1 slot, so up to 1 worker (parallelism=1)" in found


def test_a_study_that_runs_is_no_fault() -> None:
    assert unsound(of_store(msgspec.structs.replace(STORE, is_in_use=True))) == []


@pytest.mark.parametrize(
    ("facts", "severity", "words"),
    [
        (cluster(slots=0, tasks=()), Severity.FAULT, "no task slot"),
        (cluster(slots_failure="set parallelism=...", slots=0), Severity.WARNING, "set parallelism=..."),
        (cluster(failure="Python 3.9 is too old", tasks=()), Severity.FAULT, "Python 3.9 is too old"),
        (cluster(warnings=("Speculation is on.",)), Severity.WARNING, "Speculation is on."),
        (cluster(TASK, task(python_version="3.12.1")), Severity.WARNING, "Python 3.11.7, 3.12.1"),
        (cluster(task(packages={**PACKAGES, "grpcio": ""})), Severity.FAULT, "grpcio cannot be imported on host-1"),
        (cluster(task(packages={**PACKAGES, "grpcio": "1.60.0"})), Severity.WARNING, "grpcio is 1.70.0 on the driver"),
        (cluster(task(packages={**PACKAGES, "asyncsearch": "0.0.1"})), Severity.FAULT, "0.0.1 on host-1"),
        (cluster(task(connection_error="timed out")), Severity.FAULT, "at driver:4711: timed out"),
        (cluster(task(ahead_s=30.0)), Severity.WARNING, "host-1 is 30.0 s ahead of"),
        (cluster(task(ahead_s=-90_000.0)), Severity.FAULT, "90,000.0 s behind"),
        (cluster(task(scratch_bytes=10**8)), Severity.WARNING, "100 MB left on host-1"),
        (cluster(task(gpus=("5",), visible_gpus="0,1")), Severity.FAULT, "contradicting GPUs"),
        (cluster(task(has_devices=True)), Severity.WARNING, "discoveryScript"),
        (
            cluster(settings={"spark.executor.resource.gpu.amount": "2"}),
            Severity.WARNING,
            "spark.task.resource.gpu.amount=1",
        ),
    ],
)
def test_what_is_wrong_with_a_cluster_is_found(facts: ClusterFacts, severity: Severity, words: str) -> None:
    found, text = only(of_cluster(facts))
    assert (found, words in text) == (severity, True), text


def test_a_clock_is_not_blamed_for_a_slow_connection() -> None:
    assert unsound(of_cluster(cluster(task(ahead_s=6.0, round_trip_s=4.0)))) == []


def test_gpus_of_tasks_are_listed_by_machine() -> None:
    found = of_cluster(cluster(task(gpus=("1",)), task(gpus=("0",)), task(host="host-2", gpus=("0",))))
    assert "host-1:0, host-1:1, host-2:0" in found[-1].finding


def test_a_package_for_hdfs_is_asked_for_only_where_the_store_is_there() -> None:
    facts = cluster(task(packages={**PACKAGES, "hdfs-native": ""}))
    assert unsound(of_cluster(facts, store="/shared")) == []
    assert "hdfs-native" in only(of_cluster(facts, store="hdfs://host/x"))[1]


def test_a_store_that_executors_see_elsewhere_is_a_fault_with_their_names() -> None:
    views = [StoreView(host=f"host-{number}", wrong="it is not there", is_elsewhere=True) for number in range(5)]
    severity, text = only(of_executors_store("/data", views))
    assert severity is Severity.FAULT
    assert "on host-0, host-1, host-2 and 2 more it is not there => name a place that all machines see" in text


def test_a_store_closed_to_executors_is_a_fault_with_its_errors_remedy() -> None:
    words = "StoreError: A package is missing. Install 'asyncsearch[hdfs]' with pip."
    severity, text = only(of_executors_store("hdfs:///data", [VIEW, StoreView(host="host-2", wrong=words)]))
    assert severity is Severity.FAULT
    assert f"on host-2 {words} => what the error says" in text


def test_a_store_that_is_slow_on_one_executor_is_warned_of_with_its_name() -> None:
    slow = StoreView(host="host-2", write_s=0.5, commit_s=8.0, fetch_s=0.2)
    severity, text = only(of_executors_store("/shared", [VIEW, slow]))
    assert severity is Severity.WARNING
    assert "on host-2, the slowest of the executors" in text
    assert "written at 1 MB/s and read at 42 MB/s; a small file takes 500 ms => save less often" in text


def test_an_examination_is_true_if_a_search_can_run() -> None:
    sound = Diagnosis(Severity.OK, "fine")
    slow = Diagnosis(Severity.WARNING, "slow", "be faster")
    broken = Diagnosis(Severity.FAULT, "broken", "mend it")
    assert Examination((sound, slow))
    assert not Examination((sound, slow, broken))
    assert str(Examination((sound,))).splitlines() == ["ok      fine", "nothing to change"]
    assert str(Examination((broken, slow, slow))).splitlines() == [
        *("fault   broken", "        change: mend it"),
        *["warning slow", "        change: be faster"] * 2,
        "1 fault and 2 warnings",
    ]


def test_frameworks_that_abort_together_are_a_warning_naming_the_error() -> None:
    clashing = "tensorflow-cpu 2.20.0", "torch 2.12.1", "triton 3.7.1"
    [found] = of_machine(msgspec.structs.replace(MACHINE, clashing=clashing))[len(of_machine(MACHINE)) :]
    assert found.severity is Severity.WARNING
    assert all(name in found.finding for name in clashing)
    assert "LLVM ERROR: inconsistency in registered CommandLine options" in found.finding
    assert "import torch._dynamo before TensorFlow" in found.remedy.replace("imports", "import")


@pytest.mark.parametrize("missing", ["tensorflow", "torch", "triton"])
def test_frameworks_clash_only_where_all_are_installed(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name not in {"tensorflow", "torch", "triton"} - absent:
            raise PackageNotFoundError(name)
        return "1.0"

    absent: set[str] = set()
    monkeypatch.setattr("asyncsearch.doctor.facts.version", version)
    assert machine_facts().clashing == ("tensorflow 1.0", "torch 1.0", "triton 1.0")
    absent.add(missing)
    assert machine_facts().clashing == ()


def test_the_doctor_imports_no_framework() -> None:
    lines = "import sys; from asyncsearch.doctor import examine; examine(spark=False); print(sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True).stdout
    assert not [name for name in ("'torch'", "'tensorflow'", "'triton'") if name in loaded]
