"""Run the benchmarks and write their results into ``docs/performance.md``.

Each ``scripts/bench_*.py`` ends with one line of JSON; its figures become rows of one table. A benchmark that is named
as an argument replaces only its own rows.

    python scripts/write_performance.py                 all of them
    python scripts/write_performance.py handoff stop    two of them
    python scripts/write_performance.py short=run.log   one that was run before, by what it printed
    python scripts/write_performance.py --keep DIR      all of them; what NAME prints is kept in DIR/NAME.txt, and one
                                                        whose file is there is read and not run again

The page is written after each of them. One that fails keeps its former rows, and the exit code is 1.
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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

SCRIPTS = Path(__file__).resolve().parent
PAGE = SCRIPTS.parent / "docs" / "performance.md"
SPECIAL = {"handoff_connect": ("handoff", "--connect")}
"""Benchmarks that are another one with an option of their own, which has rows of its own."""
BENCHMARKS = sorted([*SPECIAL, *(path.stem.removeprefix("bench_") for path in SCRIPTS.glob("bench_*.py"))])
OPTIONS = {"recovery": ("--executors", "--store", "hdfs"), "idle": ("--slots",)}
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
    "short.first_trial_s": ("<=", 0.4),
    "utilisation": (">=", 95.0),
    "latency_ratio": ("<=", 1.10),
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
    "units_beyond_stopping": ("<=", 0),
    "units_beyond_median": ("<=", 0),
    "units_beyond_hyperband": ("<=", 0),
    "units_beyond_pbt": ("<=", 0),
    "processes_lost": ("<=", 0),
    "in_place": (">=", 0.8),
    "slots_back_s": ("<=", 15.0),
    "kill_to_step_s": ("<=", 0.3),
    "keras_cpu_ratio": (">=", 1.5),
    "lanes_filled": (">=", 15.0),
    "auto_calls_9": ("<=", 1.15),
    "auto_calls_30": ("<=", 1.15),
    "auto_calls_150": ("<=", 1.15),
    "hash_s_per_gb": ("<=", 0.1),
    "syncs_per_checkpoint": ("<=", 2.0),
    "hdfs_calls_per_checkpoint": ("<=", 7.0),
    "resume_calls_per_trial": ("<=", 1.0),
    "closure_bytes_per_worker": ("<=", 100_000.0),
    "driver_calls_per_s": ("<=", 500.0),
    "driver_calls_leaving": ("<=", 500.0),
    "suggest_p99_ms": ("<=", 2.0),
}
"""Of values; ``BENCHMARK.FIGURE`` where two benchmarks have a figure of one name."""

RATIO_GOALS: dict[str, tuple[str, float]] = {
    "throughput": (">=", 0.98),
    "throughput_virtual": (">=", 0.98),
    "real_worker_s": ("<=", 1 / 0.75),
    "sim_worker_s": ("<=", 1 / 0.75),
    "pack_mlp_32": (">=", 8.0),
    "pack_cnn_16": (">=", 2.0),
    "stages_x_packs": ("<=", 1 / 8),
    "aside_s": ("<=", 0.5),
    "promoted_s": ("<=", 1 / 1.5),
    "check_tasks": ("<=", 1.0),
    "connect_handoff_ms": ("<=", 1.1),
}
"""Of values divided by their baselines."""

SLACK = {"reports_per_s": 0.99}
"""Parts of goals that are enough: a load that is offered at a rate is never above it."""

HEADINGS = ("figure", "value", "goal", "baseline", "ratio", "command", "measured")

TEXT = """# What it costs

The time and memory that asyncsearch itself takes, each beside a baseline measured in the same run. The top of each
script defines its figures and baselines. A goal is one of the value, or of its ratio to the baseline where it says so;
what misses it is in bold. A row without a goal explains the rows beside it.

{table}

{machine}

`scripts/write_performance.py` runs the benchmarks and writes this page. Run them on a machine that does nothing else.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Run benchmarks and write docs/performance.md.")
    parser.add_argument("names", nargs="*", metavar="NAME[=LOG]", help=f"of {', '.join(BENCHMARKS)}; none: all of them")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep there what each prints; read what is there")
    options = parser.parse_args()
    logs = dict(name.partition("=")[::2] for name in options.names or BENCHMARKS)
    unknown = set(logs) - set(BENCHMARKS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}. There are: {', '.join(BENCHMARKS)}.")
    return write_each({name: Path(log) if log else None for name, log in logs.items()}, options.keep)


def write_each(logs: Mapping[str, Path | None], keep: Path | None) -> int:
    """Write the rows of benchmarks, one after the other, and return 1 if one of them failed."""
    failed = []
    for name, log in logs.items():
        try:
            write({name: [row(name, figure) for figure in figures_in(output_of(name, log, keep))]})
        except BenchmarkError as error:
            failed.append(str(error))
    print("\n".join([*failed, f"wrote {PAGE}"]))
    return 1 if failed else 0


def write(found: Mapping[str, Sequence[str]]) -> None:
    """Write the page with these rows in place of the former ones of their benchmarks."""
    rows = [line for name, lines in (rows_before() | found).items() for line in lines]
    lines = [f"| {' | '.join(HEADINGS)} |", "|---|---:|---:|---:|---:|---|---|", *rows]
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(TEXT.format(table="\n".join(lines), machine=machine()))


class BenchmarkError(Exception):
    """A benchmark failed."""


def output_of(name: str, log: Path | None, keep: Path | None) -> list[str]:
    """Return the output of a benchmark: as its log says, as it was kept, or now."""
    kept = keep / f"{name}.txt" if keep else None
    if log or (kept and kept.exists()):
        return (log or kept).read_text().splitlines()  # type: ignore[union-attr]
    lines = run(name)
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text("".join(lines))
    return lines


def figures_in(printed: list[str]) -> list[dict[str, Any]]:
    """Return the figures of a benchmark, the last line of JSON that it printed."""
    last = next((line for line in reversed(printed) if line.startswith("[{")), None)
    if last is None:
        raise BenchmarkError("There is no line of figures in what a benchmark printed.")
    figures: list[dict[str, Any]] = json.loads(last)
    return figures


def run(name: str) -> list[str]:
    """Run a benchmark, show its output, and return that."""
    printed = []
    script, *options = words(name)
    command = [sys.executable, str(SCRIPTS / script), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            printed.append(line)
            print(line, end="", flush=True)
    if process.returncode:
        raise BenchmarkError(f"{script} failed with exit code {process.returncode}; see its output above.")
    return printed


def row(name: str, figure: dict[str, Any]) -> str:
    """Return the row of a figure, in bold what misses its goal."""
    ratio = figure["ratio"]
    goal, ratio_goal = goal_of(GOALS, name, figure["name"]), goal_of(RATIO_GOALS, name, figure["name"])
    slack = SLACK.get(figure["name"], 1.0)
    cells = (
        f"`{figure['name']}`",
        marked(f"{number(figure['value'])} {figure['unit']}", is_missed(figure["value"], goal, slack)),
        shown_goal(goal) or shown_goal(ratio_goal, "ratio "),
        number(figure["baseline"]),
        "" if ratio is None else marked(number(ratio), is_missed(ratio, ratio_goal, slack)),
        command(name),
        datetime.datetime.now(datetime.UTC).date().isoformat(),
    )
    return f"| {' | '.join(cells)} |"


def goal_of(goals: Mapping[str, tuple[str, float]], benchmark: str, figure: str) -> tuple[str, float] | None:
    return goals.get(f"{benchmark}.{figure}", goals.get(figure))


def is_missed(value: float, goal: tuple[str, float] | None, slack: float) -> bool:
    if goal is None:
        return False
    sign, limit = goal
    return value > limit if sign == "<=" else value < slack * limit


def marked(text: str, is_bold: bool) -> str:
    return f"**{text}**" if is_bold else text


def shown_goal(goal: tuple[str, float] | None, what: str = "") -> str:
    return f"{what}{goal[0]} {number(goal[1])}" if goal else ""


def command(name: str) -> str:
    """Return the command of one benchmark."""
    return f"`scripts/{' '.join(words(name))}`"


def words(name: str) -> list[str]:
    """Return the script of a benchmark and its options."""
    script, *options = SPECIAL.get(name, (name, *OPTIONS.get(name, ())))
    return [f"bench_{script}.py", *options]


def number(value: float) -> str:
    """Return a number with three significant digits, or all digits of a larger one."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def rows_before() -> dict[str, list[str]]:
    """Return the existing rows of the page, by benchmark."""
    lines = PAGE.read_text().splitlines() if PAGE.exists() else []
    rows = [line for line in lines if line.startswith("| `")]
    found: dict[str, list[str]] = {name: [] for name in BENCHMARKS}
    for line in rows:
        special = [name for name in SPECIAL if command(name) in line]
        # Not by the whole command: that of others may have had other options.
        names = special or [name for name in BENCHMARKS if f"`scripts/bench_{name}.py" in line]
        for name in names:
            found[name].append(line)
    return found


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
    sys.exit(main())
