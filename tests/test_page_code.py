"""The code of a page runs as it stands there, in one process from top to bottom, in an empty folder.

A block that cannot run by itself is marked in its first line: ```python fragment. Pages that take long are run by
``bash scripts/check.sh --all``, and by ``--changed`` where they differ from main.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.scripts.tools import imported
from tests.shares import takes_long
from tests.test_documentation import PAGES, ROOT, codes, text_of

LONG = {
    "ablation.md",
    "autoscaling.md",
    "gangs.md",
    "lightgbm.md",
    "migrate_hyperopt.md",
    "migrate_maggy.md",
    "migrate_optuna.md",
    "migrate_ray.md",
    "migrate_wandb_sweeps.md",
    "packing.md",
    "scikit_learn.md",
    "trainables.md",
    "trainers.md",
    "tutorial.md",
    "write_your_own_launcher.md",
    "write_your_own_scheduler.md",
    "write_your_own_store.md",
    "xgboost.md",
}
CHANGED = imported("changed_tests").changed_files(ROOT) if os.environ.get("ASYNCSEARCH_TESTS") == "changed" else []


def case_of(page: Path) -> Any:
    """Return a page as a case, which a cheaper page does not show if it differs from main."""
    is_long = page.name in LONG and page.relative_to(ROOT).as_posix() not in CHANGED
    return pytest.param(page, marks=takes_long if is_long else ())


def test_the_pages_that_take_long_are_pages_with_code() -> None:
    assert {page.name for page in PAGES if codes(page)} >= LONG


@pytest.mark.slow
@pytest.mark.parametrize("page", [case_of(page) for page in PAGES if codes(page)], ids=lambda page: page.name)
def test_code_runs_as_it_stands_in_the_page(page: Path, tmp_path: Path) -> None:
    for package in ("hyperopt", "keras", "lightgbm", "optuna", "sklearn", "torch", "xgboost"):
        if re.search(rf"^(import|from) (asyncsearch\.)?{package}\b", text_of(page), flags=re.MULTILINE):
            pytest.importorskip(package)
    script = tmp_path / "page.py"
    script.write_text("\n".join(codes(page)), encoding="utf-8")
    # Threads of OpenMP wait for each other by computing, which takes the processor from the tests beside them.
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
