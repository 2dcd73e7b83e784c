"""``python -m asyncsearch.wandb sweep.yaml --count 20``: a sweep of a program, without a server."""

from __future__ import annotations

import argparse
import sys

from asyncsearch.errors import AsyncSearchError
from asyncsearch.wandb.sweep_agent import agent
from asyncsearch.wandb.sweep_workers import workers
from asyncsearch.wandb.sweeps import sweep


def main() -> int:
    """Run a sweep that a file describes."""
    parser = argparse.ArgumentParser(prog="python -m asyncsearch.wandb", description="Run a sweep's program, offline.")
    parser.add_argument("sweep", help="the YAML file, with 'program'")
    parser.add_argument("--count", type=int, help="how many runs; all of a grid without it")
    parser.add_argument("--parallelism", type=int, help="how many runs at a time")
    parser.add_argument("--store", help="folder or URL of the sweep, where the same command goes on")
    given = parser.parse_args()
    try:
        workers(given.parallelism, store=given.store)
        agent(sweep(given.sweep), count=given.count)
    except AsyncSearchError as error:
        print(f"asyncsearch: {error}", file=sys.stderr)  # noqa: T201  # a command's answer
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
