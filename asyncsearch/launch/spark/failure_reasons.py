"""Readable reasons for the end of a Spark job. Pure: texts in, texts out."""

from __future__ import annotations

import re

_EXECUTOR_LOST = re.compile(r"ExecutorLostFailure \(executor (\S+) exited[^)]*\)(?: Reason: (.*))?")
_TRACEBACK_LINE = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt|Warning)\b.*", re.MULTILINE)
_JVM_GONE = ("SparkContext was shut down", "Py4JNetworkError", "Answer from Java side is empty", "Connection refused")
_CANCELLED = ("SPARK_JOB_CANCELLED", "cancelled part of cancelled", "cancelled as part of")
_CRASHED = ("Python worker exited unexpectedly", "Python worker failed to connect back")
_KNOWN = (
    (_JVM_GONE, "Spark's driver is gone: the session was stopped, or its Java process ended"),
    (_CANCELLED, "its Spark job was cancelled"),
    (("SPARK-24942", "BarrierJobRunWithDynamicAllocation"), "dynamic allocation does not allow barrier tasks"),
    (("SPARK-24819", "BarrierJobSlotsNumberCheckFailed"), "the cluster no longer has a task slot"),
    (_CRASHED, "its Python worker process crashed or was killed"),
)


def reason_of(error: BaseException) -> str:
    """Return the reason why the job of a worker failed, in one readable line."""
    text = full_text(error)
    lost = _EXECUTOR_LOST.search(text)
    if lost:
        return f"its executor {lost[1]} was lost: {_of_executor(lost[2] or 'Spark does not say why')}"
    if "Traceback (most recent call last)" in text:
        last = last_line_of_traceback(text)
        if last:
            return f"its task failed: {last}"
    for signs, words in _KNOWN:
        if any(sign in text for sign in signs):
            return words
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return f"its Spark job failed: {first}"


def full_text(error: BaseException) -> str:
    """Return the full message of an exception of py4j or pyspark."""
    java = getattr(error, "java_exception", None)
    return f"{type(error).__name__}: {error}" if java is None else str(java.getMessage())


def last_line_of_traceback(text: str) -> str:
    """Return the line of a Python traceback that names the exception, empty if there is none."""
    python = text[text.index("Traceback (most recent call last)") :] if "Traceback (most" in text else text
    lines = python.split("\n\tat ", 1)[0].split(" SQLSTATE:", 1)[0]
    found = _TRACEBACK_LINE.findall(lines)
    return found[-1].strip() if found else ""


def _of_executor(reason: str) -> str:
    reason = reason.strip().rstrip(".")
    if "137" in reason:
        return f"{reason} (killed; often because memory ran out, see spark.executor.memoryOverhead)"
    return reason
