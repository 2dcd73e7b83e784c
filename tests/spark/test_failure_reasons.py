"""Spark's errors in words. The texts are Spark 4.3's own, shortened."""

from __future__ import annotations

import pytest

from asyncsearch.launch.spark.job_ends import query_failure, reason_of
from asyncsearch.launch.spark.joining import not_started

BARRIER = (
    "Job aborted due to stage failure: Could not recover from a failed barrier ResultStage. Most recent failure "
    "reason: Stage failed because barrier task ResultTask(3, 0) finished unsuccessfully.\n"
)
LOST = "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: Command exited with code 137"
UNRELATED = "ExecutorLostFailure (executor 7 exited unrelated to the running tasks) Reason: Container was preempted."
BY_YARN = (
    "ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: Container killed by YARN for "
    "exceeding physical memory limits. 1.5 GB of 1.4 GB physical memory used. Consider boosting "
    "spark.executor.memoryOverhead."
)
BY_KUBERNETES = (
    "ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: \n"
    "The executor with id 3 exited with exit code 137(SIGKILL, possible container OOM).\n\nThe API gave"
)
PYTHON = (
    "org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the Python worker: "
    'Traceback (most recent call last):\n  File "/pyspark/worker.py", line 4327, in invoke_udf\n    run_process()\n'
    "ModuleNotFoundError: No module named 'asyncsearch'\n SQLSTATE: 38000\n"
    "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1097)\n"
)
CRASHED = (
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting 'spark.python...'"
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BARRIER + LOST, "its executor 1 was lost: Command exited with code 137 (killed; often because memory ran out"),
        ("Task 0 in stage 8.0 failed 4 times: " + UNRELATED, "its executor 7 was lost: Container was preempted"),
        (BARRIER + BY_YARN, "its executor 2 was lost: its container was killed for memory (Container killed by YARN"),
        (BY_KUBERNETES, "its executor 3 was lost: its container was killed for memory (The executor with id 3"),
        (BARRIER + PYTHON, "its task failed: ModuleNotFoundError: No module named 'asyncsearch'"),
        (BARRIER + CRASHED, "its Python worker process crashed or was killed"),
        ("[SPARK_JOB_CANCELLED] Job 6 cancelled part of cancelled job tags t2", "its Spark job was cancelled"),
        ("Job 3 cancelled because SparkContext was shut down", "Spark's driver is gone"),
        ("Answer from Java side is empty", "Spark's driver is gone"),
        ("[SPARK-24942]: Barrier execution mode does not support dynamic", "dynamic allocation does not allow barrier"),
        (
            "[SPARK-24819]: Barrier execution mode does not allow run a barrier stage",
            "the cluster no longer has a task slot",
        ),
        (
            "[NO_ACTIVE_SESSION] No active Spark session found.",
            "the Spark Connect session was closed, by its server or",
        ),
        ("something new\nand more", "its Spark job failed: RuntimeError: something new"),
    ],
)
def test_reason_says_what_happened(text: str, words: str) -> None:
    reason = reason_of(RuntimeError(text))
    assert reason.startswith(words)
    assert "\n" not in reason


def test_a_failed_query_is_told_in_one_line_without_its_full_stop() -> None:
    assert query_failure(RuntimeError("[SOMETHING] It is new.\nand more")) == "RuntimeError: [SOMETHING] It is new"
    assert query_failure(RuntimeError("StatusCode.UNAVAILABLE.")) == "the Spark Connect server does not answer"


def test_advice_on_memory_is_given_once_and_names_the_setting() -> None:
    reason = reason_of(RuntimeError(BARRIER + BY_YARN))
    assert "1.5 GB of 1.4 GB physical memory used): raise spark.executor.memoryOverhead, which holds workers" in reason
    assert reason.count("memoryOverhead") == 1


def test_an_error_of_this_package_is_said_without_its_class() -> None:
    text = PYTHON.replace("ModuleNotFoundError: No", "asyncsearch.errors.DisconnectedError: The driver at h:1 is no")
    assert reason_of(RuntimeError(text)).startswith("its task failed: The driver at h:1 is no")


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("PySparkRuntimeError: [JAVA_GATEWAY_EXITED] Java gateway process exited.\nx", "It needs Java 17 or newer"),
        (
            "IllegalStateException: Cannot call methods on a stopped SparkContext.\nx",
            "may have refused the application",
        ),
    ],
)
def test_java_is_blamed_only_where_it_did_not_start(text: str, step: str) -> None:
    words = not_started(text)
    assert step in words
    assert ".." not in words
    assert ("Java 17" in words) == ("GATEWAY" in text)


def test_last_exception_of_a_chain_counts() -> None:
    text = (
        "Traceback (most recent call last):\nKeyError: 'a'\n\nDuring handling of the above exception, another "
        "exception occurred:\n\nTraceback (most recent call last):\n  File 'x'\nmylib.errors.DataError: gone\n"
    )
    assert reason_of(RuntimeError(text)) == "its task failed: mylib.errors.DataError: gone"
