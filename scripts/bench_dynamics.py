"""What a search asks of its cluster, its store and its workers from second to second: counts and ratios of one run.

Calls: ``log_calls_s``: calls a second of a store like HDFS, of 45 ms each, for the logs of 200 trials that print a line
a second; the baseline is a call a trial and second. ``log_rounds_queued``: rounds of writing that wait for others.
``log_end_s``: what the end of the run waits for its logs; the baseline is a call a trial.

Spark: ``closure_bytes_per_worker``: what a launch carries itself, with a bundle of 8 MB. ``check_tasks`` and
``check_tasks_again``: tasks of the check of 25 executors with 100 slots, for a first and a second search; the baseline
is one an executor. ``driver_calls_per_s`` and ``driver_calls_leaving``: calls of Spark's Java process by looks at 100
workers on 25 executors, none or all of which leave, while a launch waits for its slot; the baseline is the limit.

Checkpoints: ``hash_s_per_gb``: what an entry waits for the comparison of a checkpoint that the same process has
committed; the baseline is one of another process. ``syncs_per_checkpoint``: on a local disk; the baseline syncs each
file and folder. ``hdfs_calls_per_checkpoint``: to commit and delete one of one file; the baseline does not know which
attempt wrote it. ``resume_calls_per_trial``: until the first launch after an unclean end, beyond those after a clean
one, by each trial with a checkpoint; the baseline are listings of all files. ``held_over_needed``: of 81 trials on 4
workers, checkpoints at the peak and at the end for each that is loaded later in the run, or is the result, 1; the
baseline is one for each trial. The reason of the others is printed. ``asha_dropped``: with
``Checkpoints(keep_paused=False)``. ``on_disk_over_needed``: the same of 27 trials on 2 processes, counted on the disk.

The others are searches, whose baseline is the checkout ``--before``, where it is given. ``kill_to_step_s``: seconds
from the SIGKILL of a process that trains in torch to the next step of its trial; the goal is 0.3. ``preload_mb``:
memory of the process from which the next one was forked, as far as no other has it. ``lanes_filled``: trials that a
pack of 16 trains together in steady state, with ASHA on one worker and units of 50 ms: the mean over all calls of the
trainer before the one in which the last of the 100 trials begins, the first one too; the goal is 15.
``auto_calls_<trials>``: calls of a trainer with ``pack="auto"`` as a part of those with ``pack=16``, which is the
fastest size there; the goal is at most 1.15. ``keras_cpu_ratio``: CPU of a process that searches with small networks of
Keras before, as a multiple of that now; the goal is 1.5.

    python scripts/bench_dynamics.py [--before ../earlier] [--only kill_to_step_s]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from _bench import Figure, show
from _dynamics_searches import MEASURED, RATIOS

HERE = Path(__file__).resolve().parents[1]
CALLS = ("logs", "hash", "syncs", "hdfs", "held", "disk", "closure", "checks", "looks")


def measured(name: str, checkout: Path) -> float:
    """Measure a part with a checkout of the package."""
    env = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        [sys.executable, __file__, "--one", name], env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{name} with {checkout}:\n{done.stderr}")
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what a search asks of its cluster, store and workers.")
    parser.add_argument("--before", type=Path, help="checkout of an earlier commit, as the baseline")
    parser.add_argument("--only", action="append", choices=[*CALLS, *MEASURED], help="a part; may be repeated")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(MEASURED[given.one][1]()))
        return 0
    sys.path.insert(0, str(HERE))
    from _dynamics_calls import PARTS  # it imports this checkout's package, which an earlier one may lack parts of

    figures = []
    for name in given.only or [*CALLS, *MEASURED]:
        if name in PARTS:
            figures += PARTS[name]()
            continue
        if name in RATIOS and not given.before:
            sys.stderr.write(f"{name} is left out: it compares with a checkout, so name one by --before.\n")
            continue
        before = measured(name, given.before.resolve()) if given.before else 0.0
        now = measured(name, HERE)
        is_ratio = name in RATIOS
        figures.append(Figure(name, before / now if is_ratio else now, MEASURED[name][0], 1.0 if is_ratio else before))
    show("What a search asks of its cluster, its store and its workers", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
