"""The code of a page runs as it stands there, in one process from top to bottom, in an empty folder.

A block that cannot run by itself is marked in its first line: ```python fragment.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_documentation import PAGES, codes, text_of


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if codes(page)], ids=lambda page: page.name)
def test_code_runs_as_it_stands_in_the_page(page: Path, tmp_path: Path) -> None:
    for package in ("keras", "lightgbm", "optuna", "sklearn", "torch", "xgboost"):
        if re.search(rf"^(import|from) {package}\b", text_of(page), flags=re.MULTILINE):
            pytest.importorskip(package)
    script = tmp_path / "page.py"
    script.write_text("\n".join(codes(page)), encoding="utf-8")
    # Threads of OpenMP wait for each other by computing, which takes the processor from the tests beside them.
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
