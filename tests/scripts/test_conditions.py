"""A benchmark says what its figures depend on."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "_conditions.py"


def module() -> Any:
    spec = importlib.util.spec_from_file_location("_conditions", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_options_of_java_are_named_with_values_or_as_the_default() -> None:
    conditions = module().conditions
    assert "Java options: the default ones" in conditions({})
    assert "Java options: the default ones" in conditions({"SPARK_SUBMIT_OPTS": ""})
    assert "Java options: SPARK_SUBMIT_OPTS=-Xint" in conditions({"SPARK_SUBMIT_OPTS": "-Xint"})


def test_cores_versions_the_file_system_and_the_load_are_named() -> None:
    said = " ".join([*module().conditions({}), module().load("before")])
    for word in ("cores", "Python 3.", "pyspark ", "stores in ", "load before: "):
        assert word in said
