"""The page that follows a report through the code names functions that exist."""

from __future__ import annotations

import importlib
import re
from functools import reduce
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "life_of_a_report.md"
NAMES = sorted(set(re.findall(r"`([a-z_.]+:[A-Za-z_.]+)`", PAGE.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("name", NAMES)
def test_each_function_that_the_page_names_exists(name: str) -> None:
    module, _, attributes = name.partition(":")
    assert reduce(getattr, attributes.split("."), importlib.import_module(f"asyncsearch.{module}")) is not None


def test_the_page_names_a_function_for_each_leg() -> None:
    packages = {name.partition(".")[0].partition(":")[0] for name in NAMES}
    assert packages >= {"runner", "agent", "rpc", "driver", "engine", "schedulers", "searchers", "plan", "journal"}
