"""Which backend a name means."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from asyncsearch.errors import UsageError
from asyncsearch.launch import choose
from asyncsearch.launch.processes import ProcessLauncher


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    for name in ("pyspark", "pyspark.sql.connect.session"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.parametrize("name", ["inline", "processes", "spark", "threads"])
def test_backend_is_chosen_by_its_name(name: str) -> None:
    assert choose(name).name == name


def test_backend_of_ones_own_is_taken_as_it_is() -> None:
    own = ProcessLauncher()
    assert choose(own) is own


def test_unknown_name_lists_the_names() -> None:
    with pytest.raises(
        UsageError, match="choose one of 'auto', 'inline', 'processes', 'spark', 'spark-cluster', 'threads'"
    ):
        choose("yarn")


def test_auto_without_spark_means_processes() -> None:
    assert choose("auto").name == "processes"


def test_auto_with_pyspark_imported_and_no_session_means_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = ModuleType("pyspark")
    pyspark.SparkContext = SimpleNamespace(_active_spark_context=None)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark", pyspark)
    assert choose("auto").name == "processes"


def test_auto_with_a_session_means_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = ModuleType("pyspark")
    pyspark.SparkContext = SimpleNamespace(_active_spark_context=object())  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark", pyspark)
    assert choose("auto").name == "spark"


def test_auto_under_spark_submit_means_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "12345")
    assert choose("auto").name == "spark"


def test_auto_with_a_connect_session_means_spark_which_refuses_it_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = ModuleType("pyspark.sql.connect.session")
    connect.SparkSession = SimpleNamespace(getActiveSession=object)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", connect)
    assert choose("auto").name == "spark"


def test_choosing_imports_no_spark_and_no_grpc() -> None:
    code = (
        "import sys; from asyncsearch.launch import choose; choose('auto'); choose('spark'); choose('inline');"
        "choose('threads');"
        "print([name for name in ('pyspark', 'grpc') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
