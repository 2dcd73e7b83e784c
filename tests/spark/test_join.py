"""Which sessions are joined, and what is said of those that cannot be."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import Any, NamedTuple

import pytest

from asyncsearch.errors import UnsupportedSparkError
from asyncsearch.launch.spark import connect_server
from asyncsearch.launch.spark.joining import join, present
from asyncsearch.launch.spark.launcher import SparkLauncher

pytest.importorskip("pyspark")


def connect_session(**facts: Any) -> Any:
    return type("SparkSession", (), {"__module__": "pyspark.sql.connect.session", **facts})()


def test_a_connect_session_that_was_stopped_is_refused() -> None:
    with pytest.raises(UnsupportedSparkError, match=r"The Spark session was stopped\. Make a new one"):
        join(connect_session(is_stopped=True))


def test_a_connect_server_without_tags_is_refused_by_its_version() -> None:
    with pytest.raises(UnsupportedSparkError, match=r"need Spark 4\.0 or newer .*, and its server is 3\.5\.4"):
        join(connect_session(is_stopped=False, version="3.5.4"))


def test_a_connect_client_without_tags_is_refused_wherever_it_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", "3.5.9")  # its sessions do not tell their settings
    for meet in (join, present):
        with pytest.raises(UnsupportedSparkError, match=r"need Spark 4\.0 or newer .*, and pyspark here is 3\.5\.9"):
            meet(connect_session(is_stopped=False, version="4.3.0"))


def test_a_process_ends_although_the_server_of_its_session_has_gone() -> None:
    """Spark's client would try it for 10 minutes, in threads for which the exit waits."""
    pytest.importorskip("grpc_status")
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        url = f"sc://127.0.0.1:{nobody.getsockname()[1]}"
    code = f"""
from concurrent.futures import ThreadPoolExecutor
from pyspark.sql.connect.session import SparkSession
from asyncsearch.launch.spark import connect_server
class Asked(SparkSession):
    version = "4.3.0"
session = Asked(connection={url!r})
connect_server.require_connect(session)
ThreadPoolExecutor(1).submit(session.client.release_session)
print("at its end")
"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout == "at its end\n", done.stderr


def test_ctrl_c_at_the_exit_waits_for_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def press(_: object) -> None:
        raise KeyboardInterrupt

    session = connect_session(is_stopped=False)
    given_up: list[object] = []
    monkeypatch.setattr(connect_server, "_MET", {session})
    monkeypatch.setattr(connect_server, "why_silent", press)
    monkeypatch.setattr(connect_server, "give_up_retries", given_up.append)
    connect_server.give_up_silent_servers()
    assert given_up == [session]


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
from asyncsearch.launch.spark.joining import join
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


class Said(NamedTuple):
    """What a process without PYSPARK_PYTHON has printed, line by line, and its errors."""

    by_study: list[str]
    by_others: list[str]
    by_launchers: list[str]
    errors: str


_SESSIONS = """
from asyncsearch import Study, uniform
def train(trial):
    trial.report(loss=trial.params["x"])
study = Study(train, space={"x": uniform(0.0, 1.0)}, metric="loss", mode="min", backend="spark", store="s")
study.run(num_trials=1, parallelism=1, display="plain")

print("--")
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[3]").getOrCreate()
from asyncsearch.launch.spark.launcher import SparkLauncher
launchers = [SparkLauncher(), SparkLauncher(session)]
print(launchers[0].workers_now())
for launcher in launchers:
    preflight = launcher.check(None)
    print(session.sparkContext.pythonExec, preflight.parallelism, preflight.place)
for launcher in launchers:
    launcher.stop(0.0)
print(session.sparkContext.parallelize([1]).count())
session.stop()

print("--")
first, second = SparkLauncher(), SparkLauncher()
print(first.check(1).parallelism, second.check(1).parallelism)
from pyspark import SparkContext
context = SparkContext._active_spark_context
print(context.pythonExec, context.getConf().get("spark.ui.showConsoleProgress"))
first.stop(0.0)
first.stop(0.0)
print(context._jsc.sc().isStopped(), context.parallelize([1]).count())
second.stop(0.0)
print(SparkContext._active_spark_context)
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Said:
    """Three sessions one after another in a process, since a Java takes seconds to start: a study's own, one that
    somebody else has made, and one that launchers make."""
    env = {key: value for key, value in os.environ.items() if key != "PYSPARK_PYTHON"}
    env |= {"SPARK_LOCAL_IP": "127.0.0.1", "PATH": "/usr/bin:/bin"}
    folder = tmp_path_factory.mktemp("sessions")
    done = subprocess.run(
        [sys.executable, "-c", _SESSIONS], env=env, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    by_study, by_others, by_launchers = (part.strip().splitlines() for part in done.stdout.split("--\n"))
    return Said(by_study, by_others, by_launchers, done.stderr)


@pytest.mark.spark
def test_a_study_on_spark_without_a_session_says_what_it_starts(said: Said) -> None:
    assert "there is no Spark session yet: starting Java and one for this run" in said.errors
    assert "note: There was no Spark session, so that one with master local[*] was started" in "\n".join(said.by_study)


@pytest.mark.spark
def test_a_local_session_runs_this_python_and_names_workers_and_master(said: Said) -> None:
    assert said.by_others[:-1] == ["3", *2 * [f"{sys.executable} 3 Spark local[3]"]]


@pytest.mark.spark
def test_session_that_somebody_else_made_is_never_stopped(said: Said) -> None:
    assert said.by_others[-1] == "1"


@pytest.mark.spark
def test_a_session_made_here_is_quiet_and_uses_this_python(said: Said) -> None:
    assert said.by_launchers[:2] == ["1 1", f"{sys.executable} false"]


@pytest.mark.spark
def test_session_that_is_made_here_is_stopped_by_the_last_who_uses_it(said: Said) -> None:
    assert said.by_launchers[2:] == ["False 1", "None"]
