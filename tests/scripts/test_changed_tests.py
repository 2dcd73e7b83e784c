"""Which tests a change touches: those that import it, lie beside it, or name it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.scripts.tools import imported

FILES = {
    "asyncsearch/__init__.py": "if TYPE_CHECKING:\n    from asyncsearch.study.study import Study\n",
    "asyncsearch/ids.py": "TRIAL = 1\n",
    "asyncsearch/plan/__init__.py": "",
    "asyncsearch/plan/keys.py": "from asyncsearch.ids import TRIAL\n",
    "asyncsearch/study/__init__.py": "",
    "asyncsearch/study/study.py": "from asyncsearch.plan import keys\n",
    "asyncsearch/store/__init__.py": "",
    "asyncsearch/store/disk.py": "import os\n",
    "tests/plan/test_keys.py": "from asyncsearch.plan.keys import TRIAL\n",
    "tests/store/test_disk.py": "from asyncsearch.store import disk\n",
    "tests/study/test_study.py": "from asyncsearch import Study\n",
    "tests/system/test_whole.py": "from tests.system.tools import searched\n",
    "tests/system/test_shell.py": "import subprocess\n",
    "tests/system/tools.py": "from asyncsearch import Study\n",
    "tests/scripts/test_soak.py": "imported('_soak')\n",
    "tests/golden/test_stores.py": "",
    "tests/golden/stores/0.1.0/bundle.bin": "",
    "tests/conftest.py": "",
    "tests/test_habits.py": "",
    "tests/test_page_code.py": "",
    "scripts/_soak.py": "",
    "docs/plan.md": "",
    "pyproject.toml": "",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "touched"),
    [
        ("asyncsearch/store/disk.py", {"tests/store"}),
        ("asyncsearch/plan/keys.py", {"tests/plan", "tests/study/test_study.py", "tests/system/test_whole.py"}),
        ("asyncsearch/ids.py", {"tests/plan/test_keys.py"}),
        ("tests/system/tools.py", {"tests/system/test_whole.py"}),
        ("tests/store/test_disk.py", {"tests/store/test_disk.py"}),
        ("tests/store/test_gone.py", set()),
        ("tests/golden/stores/0.1.0/bundle.bin", {"tests/golden"}),
        ("scripts/_soak.py", {"tests/scripts/test_soak.py"}),
        ("docs/plan.md", {"tests/test_page_code.py"}),
    ],
)
def test_a_change_touches_what_imports_it_lies_beside_it_or_names_it(
    repository: Path, changed: str, touched: set[str]
) -> None:
    assert set(imported("changed_tests").touched_tests(repository, [changed])) == touched | {"tests/test_habits.py"}


@pytest.mark.parametrize("changed", ["pyproject.toml", "tests/conftest.py"])
def test_a_change_of_what_all_have_in_common_touches_all_tests(repository: Path, changed: str) -> None:
    assert imported("changed_tests").touched_tests(repository, ["docs/plan.md", changed]) == ["tests"]


def test_where_nothing_has_changed_no_test_is_touched(repository: Path) -> None:
    assert imported("changed_tests").touched_tests(repository, []) == []


def test_a_change_is_what_differs_from_main_in_commits_or_in_the_folder(repository: Path) -> None:
    def git(*command: str) -> None:
        author = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *author, *command], cwd=repository, check=True, capture_output=True)

    git("init", "--initial-branch=main")
    git("add", ".")
    git("commit", "--message=all")
    git("switch", "--create=branch")
    (repository / "docs/plan.md").write_text("new", encoding="utf-8")
    git("commit", "--all", "--message=one")
    (repository / "asyncsearch/ids.py").unlink()
    (repository / "tests/test_new.py").write_text("", encoding="utf-8")
    changed = imported("changed_tests").changed_files(repository)
    assert changed == ["asyncsearch/ids.py", "docs/plan.md", "tests/test_new.py"]
