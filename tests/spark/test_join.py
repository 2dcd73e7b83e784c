"""Which sessions are joined, and what is said of those that cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from asyncsearch.errors import UnsupportedSparkError
from asyncsearch.launch.spark.launcher import SparkLauncher
from asyncsearch.launch.spark.session import join

pytest.importorskip("pyspark")


def test_connect_is_refused_with_the_reason_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    with pytest.raises(UnsupportedSparkError, match=r"Spark Connect session.*spark-submit.*backend='processes'"):
        SparkLauncher().check(1)


def test_connect_session_that_is_passed_is_refused() -> None:
    kind = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
    with pytest.raises(UnsupportedSparkError, match="Spark Connect session"):
        join(kind())


def test_missing_pyspark_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(
        UnsupportedSparkError, match=r"Install 'asyncsearch\[spark\]' with pip, or pass backend='processes'"
    ):
        join()


def test_old_pyspark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", "3.4.2")
    with pytest.raises(UnsupportedSparkError, match=r"pyspark 3\.4\.2 is too old"):
        join()


def test_missing_java_says_what_to_do() -> None:
    code = """
from asyncsearch.launch.spark.session import join
try:
    join()
except Exception as error:
    print(repr(error))
"""
    environment = {**os.environ, "JAVA_HOME": "/nowhere", "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert "UnsupportedSparkError" in done.stdout, done.stderr
    assert "It needs Java 17 or newer (JAVA_HOME); where there is none, pass backend='processes'." in done.stdout


def test_what_is_started_is_said_before_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkContext

    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    words = "there is no Spark session yet: starting {}one for this run, which takes some seconds ..."
    assert SparkLauncher().preparation() == words.format("Java and ")
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4711")
    assert SparkLauncher().preparation() == words.format("")


@pytest.mark.spark
def test_a_study_on_spark_without_a_session_says_what_it_starts(tmp_path: Path) -> None:
    code = """
from asyncsearch import Study, uniform
def train(trial):
    trial.report(loss=trial.params["x"])
study = Study(train, space={"x": uniform(0.0, 1.0)}, metric="loss", mode="min", backend="spark", store="s")
study.run(num_trials=1, parallelism=1, display="plain")
"""
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "there is no Spark session yet: starting Java and one for this run" in done.stderr
    assert "note: There was no Spark session, so that one with master local[*] was started" in done.stdout, done.stderr


@pytest.mark.spark
def test_a_session_made_here_is_quiet_uses_this_python_and_is_stopped() -> None:
    code = """
from asyncsearch.launch.spark.launcher import SparkLauncher
launcher = SparkLauncher()
print(launcher.check(1).parallelism)
from pyspark import SparkContext
context = SparkContext._active_spark_context
print(context.pythonExec, context.getConf().get("spark.ui.showConsoleProgress"))
launcher.stop(0.0)
print(SparkContext._active_spark_context)
"""
    environment = {key: value for key, value in os.environ.items() if key != "PYSPARK_PYTHON"}
    environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["1", f"{sys.executable} false", "None"], done.stderr


@pytest.mark.spark
def test_a_local_session_runs_this_python_and_names_workers_and_master() -> None:
    code = """
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[3]").getOrCreate()
from asyncsearch.launch.spark.launcher import SparkLauncher
launcher = SparkLauncher()
print(launcher.workers_now())
preflight = launcher.check(None)
print(session.sparkContext.pythonExec, preflight.parallelism, preflight.place)
launcher.stop(0.0)
"""
    environment = {key: value for key, value in os.environ.items() if key != "PYSPARK_PYTHON"}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["3", f"{sys.executable} 3 Spark local[3]"], done.stderr


@pytest.mark.spark
def test_session_that_is_made_here_is_stopped_by_the_last_who_uses_it() -> None:
    code = """
from asyncsearch.launch.spark.launcher import SparkLauncher
first, second = SparkLauncher(), SparkLauncher()
first.check(1), second.check(1)
from pyspark import SparkContext
context = SparkContext._active_spark_context
first.stop(0.0)
first.stop(0.0)
print(context._jsc.sc().isStopped(), context.parallelize([1]).count())
second.stop(0.0)
print(SparkContext._active_spark_context)
"""
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["False 1", "None"], done.stderr


@pytest.mark.spark
def test_session_that_somebody_else_made_is_never_stopped() -> None:
    code = """
from pyspark.sql import SparkSession
session = SparkSession.builder.getOrCreate()
from asyncsearch.launch.spark.launcher import SparkLauncher
launchers = [SparkLauncher(), SparkLauncher(session)]
for launcher in launchers:
    launcher.check(1)
for launcher in launchers:
    launcher.stop(0.0)
print(session.sparkContext.parallelize([1]).count())
session.stop()
"""
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["1"], done.stderr
