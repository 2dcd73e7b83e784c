"""The verdicts of the doctor. Pure: facts in, findings and their remedies out."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence

import msgspec

from asyncsearch.agent.devices import visible_devices
from asyncsearch.doctor.facts import CHECKPOINT_BYTES, MachineFacts, StoreFacts
from asyncsearch.errors import ClusterError
from asyncsearch.launch.spark.cluster_facts import ClusterFacts
from asyncsearch.launch.spark.task_facts import StoreView
from asyncsearch.report.formatting import many

_FEW_DESCRIPTORS = 1024
_LITTLE_SCRATCH_BYTES = 1 << 30
_SLOW_APPEND_S = 0.05
_SLOW_BYTES_PER_S = 10e6
_SHOWN_CLOCK_S = 5.0
_CERTIFICATE_CLOCK_S = 12 * 3600.0
"""Certificates of a study begin a day early; half of it is kept for drift."""
_SAVE_LESS = "save less often (save_every=), keep checkpoints small, or use a store nearer to the workers"
_SHIP = (
    "give the executors the driver's environment: `bash scripts/pack_env.sh`, then spark.archives=FILE#environment and "
    "PYSPARK_PYTHON=./environment/bin/python"
)


class Severity(enum.Enum):
    """The meaning of a finding for a search."""

    OK = "ok"
    WARNING = "warning"
    """It will run, and something will be slow, lost or surprising."""
    FAULT = "fault"
    """It will not run."""


class Diagnosis(msgspec.Struct, frozen=True):
    """One finding, and what to change."""

    severity: Severity
    finding: str
    remedy: str = ""

    def __str__(self) -> str:
        lines = [f"{self.severity.value:<8}{self.finding}"]
        if self.remedy:
            lines.append(f"{'':<8}change: {self.remedy}")
        return "\n".join(lines)


def ok(finding: str) -> Diagnosis:
    """Return a finding that needs no change."""
    return Diagnosis(Severity.OK, finding)


def warning(finding: str, remedy: str) -> Diagnosis:
    """Return a finding that a search survives."""
    return Diagnosis(Severity.WARNING, finding, remedy)


def fault(finding: str, remedy: str) -> Diagnosis:
    """Return a finding that a search does not survive."""
    return Diagnosis(Severity.FAULT, finding, remedy)


def of_machine(facts: MachineFacts) -> list[Diagnosis]:
    """Return the findings on the driver's machine."""
    memory = f"{facts.memory_bytes / 1e9:.1f} GB of memory free"
    found = [
        ok(
            f"this machine: Python {facts.python_version} ({facts.python}), asyncsearch {facts.version} in {facts.home}"
        ),
        ok(f"this machine: {facts.cores} cores, {memory}"),
    ]
    if 0 <= facts.descriptors < _FEW_DESCRIPTORS:
        found.append(
            warning(
                f"this machine: a process may have {facts.descriptors} files open, and each worker needs some",
                "`ulimit -n 4096` before the driver starts",
            )
        )
    if facts.scratch_bytes < _LITTLE_SCRATCH_BYTES:
        found.append(
            warning(
                f"this machine: {facts.scratch} has {facts.scratch_bytes / 1e6:,.0f} MB left, and checkpoints pass "
                "through it",
                "free space there, or set TMPDIR to a larger disk",
            )
        )
    if facts.has_pyspark and not facts.has_java:
        found.append(
            warning(
                "this machine: pyspark is installed and Java is not, so that no Spark session can be made here",
                "install Java 17, or `pip install 'asyncsearch[java]'`; or run with backend='processes'",
            )
        )
    return [*found, *_frameworks(facts)]


def _frameworks(facts: MachineFacts) -> list[Diagnosis]:
    if not facts.clashing:
        return []
    tensorflow, torch, triton = facts.clashing
    return [
        warning(
            f"this machine: {tensorflow}, {torch} and its {triton} are installed; a process that imports TensorFlow "
            "and then trains with torch may be killed (SIGABRT with "
            '"LLVM ERROR: inconsistency in registered CommandLine options", or SIGSEGV)',
            "use one of the two in an environment, or torch's build for the CPU, which has no triton; a program that "
            "needs both imports torch._dynamo before TensorFlow. A search with one of them alone needs no change",
        )
    ]


def of_store(facts: StoreFacts) -> list[Diagnosis]:
    """Return the findings on a store."""
    name = f"store {facts.shown}"
    if facts.failure:
        return [fault(f"{name}: could not {facts.failed_step}", facts.failure)]
    return [*_speed(name, facts), *_kind(name, facts), *_store_clock(name, facts)]


def _speed(name: str, facts: StoreFacts) -> list[Diagnosis]:
    assert facts.append_s is not None
    assert facts.write_s is not None
    assert facts.commit_s is not None
    assert facts.fetch_s is not None
    append = f"{name}: a durable record of the journal takes {facts.append_s * 1e3:.1f} ms (median of 20)"
    slowest = min(CHECKPOINT_BYTES / facts.commit_s, CHECKPOINT_BYTES / facts.fetch_s)
    speed = (
        f"{name}: checkpoints are written at {CHECKPOINT_BYTES / facts.commit_s / 1e6:.0f} MB/s and read at "
        f"{CHECKPOINT_BYTES / facts.fetch_s / 1e6:.0f} MB/s; a small file takes {facts.write_s * 1e3:.0f} ms"
    )
    return [
        ok(append)
        if facts.append_s <= _SLOW_APPEND_S
        else warning(
            append,
            "let a unit of training, from one report to the next, take a second or more; or keep the study on a faster "
            "disk that all workers see",
        ),
        ok(speed) if slowest >= _SLOW_BYTES_PER_S else warning(speed, _SAVE_LESS),
    ]


def _kind(name: str, facts: StoreFacts) -> list[Diagnosis]:
    found = []
    if facts.is_in_use:
        found.append(ok(f"{name}: a driver runs a study there now; a second one would be refused"))
    if not facts.is_exclusive:
        found.append(
            warning(
                f"{name}: it has no exclusive create, so two drivers that begin at one moment may both get the lock",
                "start one driver for each study, and wait for its first line before you start another",
            )
        )
    if facts.free_bytes is not None and facts.free_bytes < _LITTLE_SCRATCH_BYTES:
        found.append(
            warning(
                f"{name}: {facts.free_bytes / 1e6:,.0f} MB are left there",
                "free space, or bound the checkpoints: Sharing(quota_bytes=...)",
            )
        )
    return found


def _store_clock(name: str, facts: StoreFacts) -> list[Diagnosis]:
    if facts.ahead_s is None or abs(facts.ahead_s) <= _SHOWN_CLOCK_S:
        return []
    return [
        warning(
            f"{name}: its clock is {_offset(facts.ahead_s)} this machine's, and ages of files are read from it",
            "set both clocks by NTP",
        )
    ]


def of_cluster(facts: ClusterFacts, *, store: str = "") -> list[Diagnosis]:
    """Return the findings on a Spark session.

    Args:
        store: URL of the store that its workers would use; empty if it is not known.
    """
    found = [ok(f"Spark {facts.spark_version}, master {facts.place}")]
    found += [Diagnosis(Severity.WARNING, text) for text in facts.warnings]
    if facts.slots_failure:
        found.append(warning("Spark: the number of workers is not known beforehand", facts.slots_failure))
    elif facts.slots:
        slots, workers = many(facts.slots, "slot"), many(facts.slots, "worker")
        found.append(ok(f"Spark: {slots}, so up to {workers} (parallelism={facts.slots})"))
    else:
        found.append(fault("Spark: there is no task slot", "look whether the cluster gives this application executors"))
    if facts.failure:
        return [*found, fault("Spark: the executors could not be asked", facts.failure)]
    if not facts.tasks:
        return found
    checks: Sequence[Callable[[ClusterFacts], list[Diagnosis]]] = (_python, _connections, _clocks, _scratch, _gpus)
    return found + _packages(facts, store) + [one for check in checks for one in check(facts)]


def of_executors_store(shown: str, views: Sequence[StoreView]) -> list[Diagnosis]:
    """Return the findings on a store as executors see it."""
    name = f"store {shown}"
    wrong = {view.host: view for view in views if view.wrong}
    if wrong:
        first = next(iter(wrong.values()))
        remedy = (
            "name a place that all machines see under this name: a shared folder, hdfs://..., s3://..."
            if first.is_elsewhere
            else "what the error says, on these machines; workers read and write the store from there"
        )
        return [fault(f"{name}: on {_listed(wrong)} {first.wrong}", remedy)]
    found = [ok(f"{name}: all executors asked can read and write it")]
    return [*found, _speed_there(name, views)] if views else found


def _speed_there(name: str, views: Sequence[StoreView]) -> Diagnosis:
    slowest = max(views, key=lambda view: max(view.commit_s, view.fetch_s))
    text = (
        f"{name}: on {slowest.host}, the slowest of the executors, which all save at once, checkpoints are written at "
        f"{CHECKPOINT_BYTES / slowest.commit_s / 1e6:.0f} MB/s and read at "
        f"{CHECKPOINT_BYTES / slowest.fetch_s / 1e6:.0f} MB/s; a small file takes {slowest.write_s * 1e3:.0f} ms"
    )
    if CHECKPOINT_BYTES / max(slowest.commit_s, slowest.fetch_s) >= _SLOW_BYTES_PER_S:
        return ok(text)
    return warning(text, _SAVE_LESS)


def _python(facts: ClusterFacts) -> list[Diagnosis]:
    versions = sorted({task.python_version for task in facts.tasks})
    programs = sorted({task.python for task in facts.tasks})
    machines = len({task.host for task in facts.tasks})
    asked = f"{many(len(facts.tasks), 'task')} on {many(machines, 'machine')}"
    text = f"executors: Python {', '.join(versions)} ({', '.join(programs[:3])}), {asked} asked"
    if len(versions) == 1:
        return [ok(text)]
    return [warning(text, _SHIP)]


def _packages(facts: ClusterFacts, store: str) -> list[Diagnosis]:
    found = []
    for package, version in facts.packages.items():
        if package == "hdfs-native" and not store.startswith(("hdfs:", "viewfs:")):
            continue
        missing = [task.host for task in facts.tasks if not task.packages[package]]
        others = {
            task.host: task.packages[package] for task in facts.tasks if task.packages[package] not in ("", version)
        }
        if missing:
            found.append(fault(f"executors: {package} cannot be imported on {_listed(missing)}", _SHIP))
        elif others and version:
            other = next(iter(others.values()))
            text = f"executors: {package} is {version} on the driver and {other} on {_listed(others)}"
            found.append((fault if package == "asyncsearch" else warning)(text, _SHIP))
    return found or [ok("executors: the packages that workers need are those of the driver")]


def _connections(facts: ClusterFacts) -> list[Diagnosis]:
    failed = {task.host: task.connection_error for task in facts.tasks if task.connection_error}
    if failed:
        reason = next(iter(failed.values()))
        return [
            fault(
                f"executors: {_listed(failed)} cannot connect to the driver at {facts.driver}: {reason}",
                "set spark.asyncsearch.driver.host to a name of the driver that executors know; behind a firewall, "
                "open a port and set spark.asyncsearch.driver.port to it",
            )
        ]
    slowest = max(task.round_trip_s for task in facts.tasks)
    return [
        ok(f"executors: all connect to the driver at {facts.driver}, there and back in at most {slowest * 1e3:.2f} ms")
    ]


def _clocks(facts: ClusterFacts) -> list[Diagnosis]:
    worst = max(facts.tasks, key=lambda task: abs(task.ahead_s))
    size = abs(worst.ahead_s) - worst.round_trip_s / 2
    text = f"executors: the clock of {worst.host} is {_offset(worst.ahead_s)} the driver's"
    remedy = "set the clocks of all machines by NTP"
    if size > _CERTIFICATE_CLOCK_S:
        return [fault(f"{text}, beyond the validity of a study's certificate", remedy)]
    if size > _SHOWN_CLOCK_S:
        return [warning(f"{text}, so that times in logs cannot be compared (decisions use the driver's alone)", remedy)]
    return []


def _scratch(facts: ClusterFacts) -> list[Diagnosis]:
    small = {task.host: task.scratch_bytes for task in facts.tasks if task.scratch_bytes < _LITTLE_SCRATCH_BYTES}
    if not small:
        return []
    text = f"executors: temporary files have {min(small.values()) / 1e6:,.0f} MB left on {_listed(small)}"
    return [warning(text, "free space there, or set spark.executorEnv.TMPDIR to a larger disk")]


def _gpus(facts: ClusterFacts) -> list[Diagnosis]:
    given = [task for task in facts.tasks if task.gpus]
    if not given:
        return _gpus_not_given(facts)
    found = []
    for task in given:
        try:
            visible_devices(task.gpus, task.visible_gpus)
        except ClusterError as error:
            found.append(fault(f"executors: {task.host} has contradicting GPUs", str(error)))
            break
    addresses = sorted({(task.host, address) for task in given for address in task.gpus})
    shown = ", ".join(f"{host}:{address}" for host, address in addresses[:8])
    return found or [ok(f"executors: GPUs of the tasks, by Spark's addresses: {shown}")]


def _gpus_not_given(facts: ClusterFacts) -> list[Diagnosis]:
    if "spark.executor.resource.gpu.amount" in facts.settings:
        return [
            warning(
                "executors: they have GPUs, and tasks ask for none, so that each worker sees all GPUs of its executor",
                "spark.task.resource.gpu.amount=1",
            )
        ]
    idle = {task.host for task in facts.tasks if task.has_devices}
    if idle and not facts.is_local:
        return [
            warning(
                f"executors: {_listed(idle)} has GPUs that Spark does not know, so that each worker sees all of them",
                "spark.executor.resource.gpu.amount and .discoveryScript, and spark.task.resource.gpu.amount=1",
            )
        ]
    return []


def _offset(ahead_s: float) -> str:
    return f"{abs(ahead_s):,.1f} s {'ahead of' if ahead_s > 0 else 'behind'}"


def _listed(hosts: Iterable[str]) -> str:
    names = sorted({*hosts})
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
