"""Run the benchmarks and write their results into ``docs/performance.md``.

Each ``scripts/bench_*.py`` ends with one line of JSON; its figures become rows of one table. A benchmark that is named
as an argument replaces only its own rows.

    python scripts/write_performance.py                 all of them
    python scripts/write_performance.py handoff stop    two of them
    python scripts/write_performance.py short=run.log   one that was run before, by what it printed
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

SCRIPTS = Path(__file__).resolve().parent
PAGE = SCRIPTS.parent / "docs" / "performance.md"
BENCHMARKS = sorted(path.stem.removeprefix("bench_") for path in SCRIPTS.glob("bench_*.py"))
OPTIONS = {"recovery": ("--executors", "--store", "hdfs")}
"""Those that a benchmark runs with here."""
PACKAGES = ("grpcio", "protobuf", "msgspec", "numpy", "pyspark", "torch")

GOALS: dict[str, tuple[str, float]] = {
    "handoff_ms": ("<=", 2.0),
    "stop_p99_ms": ("<=", 10.0),
    "idle_cpu_percent": ("<=", 2.0),
    "reports_per_s": (">=", 2000.0),
    "reports_lost": ("<=", 0),
    "server_growth_mb": ("<=", 16.0),
    "decide_us_1e3": ("<=", 50.0),
    "decide_us_1e5": ("<=", 50.0),
    "decide_us_1e6": ("<=", 50.0),
    "decide_growth": ("<=", 2.0),
    "bytes_per_trial": ("<=", 1024.0),
    "bytes_per_trial_most": ("<=", 1024.0),
    "bytes_per_trial_plan": ("<=", 1024.0),
    "plan_decision_ms_1e3": ("<=", 2.0),
    "plan_decision_ms_1e5": ("<=", 2.0),
    "bytes_per_node": ("<=", 2048.0),
    "plan_448_s": ("<=", 1.0),
    "boundary_ms": ("<=", 5.0),
    "saving_off_percent": ("<=", 5.0),
    "simulate_100k_s": ("<=", 60.0),
    "fixed_s": ("<=", 0.3),
    "first_trial_s": ("<=", 0.4),
    "utilisation": (">=", 92.0),
    "latency_ratio": ("<=", 1.25),
    "show_s": ("<=", 0.4),
    "runner_s": ("<=", 1.0),
    "runner_units": ("<=", 1.0),
    "pack_never_slower": (">=", 0.97),
    "agent_units": ("<=", 1.0),
    "driver_s": ("<=", 3.0),
    "executor_beyond_s": ("<=", 1.0),
    "executor_units": ("<=", 1.0),
    "jain": (">=", 0.98),
    "jain_instant": (">=", 0.98),
    "jain_gangs": (">=", 0.98),
    "jain_two_gangs": (">=", 0.98),
    "change_s": ("<=", 1.0),
    "driver_hdfs_beyond_s": ("<=", 3.0),
}

HEADINGS = ("figure", "value", "goal", "baseline", "ratio", "command", "measured")

TEXT = """# What it costs

The time and memory that asyncsearch itself takes, each beside a baseline measured in the same run. The top of each
script defines its figures and baselines. A row without a goal explains the rows beside it.

{table}

{machine}

`scripts/write_performance.py` runs the benchmarks and writes this page. Run them on a machine that does nothing else.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Run benchmarks and write docs/performance.md.")
    parser.add_argument("names", nargs="*", metavar="NAME[=LOG]", help=f"of {', '.join(BENCHMARKS)}; none: all of them")
    names = dict(name.partition("=")[::2] for name in parser.parse_args().names or BENCHMARKS)
    unknown = set(names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}. There are: {', '.join(BENCHMARKS)}.")
    found: dict[str, list[str]] = {}
    for name, log in names.items():
        printed = Path(log).read_text().splitlines() if log else run(name)
        found[name] = [row(name, figure) for figure in figures_in(printed)]
    before = rows_before()
    rows = [line for name in BENCHMARKS for line in found.get(name, before.get(name, []))]
    lines = [f"| {' | '.join(HEADINGS)} |", "|---|---:|---:|---:|---:|---|---|", *rows]
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(TEXT.format(table="\n".join(lines), machine=machine()))
    print(f"wrote {PAGE}")


def figures_in(printed: list[str]) -> list[dict[str, Any]]:
    """Return the figures of a benchmark, the last line of JSON that it printed."""
    figures: list[dict[str, Any]] = json.loads(next(line for line in reversed(printed) if line.startswith("[")))
    return figures


def run(name: str) -> list[str]:
    """Run a benchmark, show its output, and return that."""
    printed = []
    command = [sys.executable, str(SCRIPTS / f"bench_{name}.py"), *OPTIONS.get(name, ())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            printed.append(line)
            print(line, end="", flush=True)
    if process.returncode:
        sys.exit(f"bench_{name}.py failed with exit code {process.returncode}; see its output above.")
    return printed


def row(name: str, figure: dict[str, Any]) -> str:
    """Return the row of a figure, in bold if it misses its goal."""
    value, unit = figure["value"], figure["unit"]
    sign, goal = GOALS.get(figure["name"], ("", 0.0))
    is_missed = (sign == "<=" and value > goal) or (sign == ">=" and value < 0.99 * goal)
    shown = f"{number(value)} {unit}"
    cells = (
        f"`{figure['name']}`",
        f"**{shown}**" if is_missed else shown,
        f"{sign} {number(goal)}" if sign else "",
        number(figure["baseline"]),
        "" if figure["ratio"] is None else number(figure["ratio"]),
        command(name),
        datetime.datetime.now(datetime.UTC).date().isoformat(),
    )
    return f"| {' | '.join(cells)} |"


def command(name: str) -> str:
    """Return the command of one benchmark."""
    return f"`{' '.join((f'scripts/bench_{name}.py', *OPTIONS.get(name, ())))}`"


def number(value: float) -> str:
    """Return a number with three significant digits, or all digits of a larger one."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def rows_before() -> dict[str, list[str]]:
    """Return the existing rows of the page, by benchmark."""
    lines = PAGE.read_text().splitlines() if PAGE.exists() else []
    rows = [line for line in lines if line.startswith("| `")]
    return {name: [line for line in rows if f"`scripts/bench_{name}.py" in line] for name in BENCHMARKS}


def machine() -> str:
    """Describe the machine of the measurement."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"Measured with {os.cpu_count()} cores ({processor()}), {psutil.virtual_memory().total / 2**30:.0f} GB of "
        f"memory, {platform.system()} {platform.release()},\nPython {platform.python_version()}, {versions};\n"
        "driver, workers and load on this one machine."
    )


def processor() -> str:
    """Return the name of the processor, if it has one."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def version(package: str) -> str:
    """Return the version of a package, or a note that it is missing."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    main()
