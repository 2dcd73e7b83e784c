"""Figure 7 of the ASHA paper (Li et al., MLSys 2020, appendix A.1) with the real engine, on a virtual clock.

25 workers, reduction_factor 4, r 1, R 256, brackets of 256. Training takes ``1 + |z|`` times its units, with z normal,
drawn for each assignment; in each time unit work is lost with the drop probability, and is then trained again.
Panel a: configurations trained to R within 2,000 time units. Panel b: time until the first one is trained to R.
Both for synchronous SHA and ASHA, with promoted trials that resume, and with ones that restart from zero.

    python scripts/simulate_figure7.py                draws both panels into docs/ and writes docs/figure7.md
    python scripts/simulate_figure7.py --runs 2       a quick look: prints, and writes nothing
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from _panels import Curve, Panel, draw

from asyncsearch.ids import TrialId
from asyncsearch.randomness import generator
from asyncsearch.schedulers import ASHA, SHA
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.base_searcher import Searcher, SearcherState
from asyncsearch.simulate import Chance, Faults, SimulationResult, TrainingModel, Until, simulate
from asyncsearch.space import Space
from asyncsearch.trial import Params

DOCS = Path(__file__).resolve().parent.parent / "docs"
RUNS, WORKERS, R, FACTOR, BRACKET = 25, 25, 256, 4, 256
HORIZON = 2_000.0
PATIENCE = 20_000.0
"""Panel b: a run in which no configuration was trained to R by then counts with this time."""

PANELS = {
    "a": ((0.10, 0.24, 0.56, 1.33), (0.0, 0.0025, 0.005, 0.0075, 0.01)),
    "b": ((0.67, 1.00, 1.33, 1.67), (0.0, 0.001, 0.002, 0.003)),
}
METHODS: dict[str, Scheduler] = {
    "SHA": SHA(max_resource=R, reduction_factor=FACTOR, bracket_size=BRACKET),
    "ASHA": ASHA(max_resource=R, reduction_factor=FACTOR),
}
COLOURS = {"SHA": "#d9480f", "ASHA": "#2f7fd1"}
Y = {"a": f"configurations trained to R in {HORIZON:,.0f} time units", "b": "time units to the first at R"}


@dataclass(frozen=True)
class Job:
    """One simulated search."""

    panel: str
    spread: float
    drop: float
    method: str
    restarts: bool
    run: int

    @property
    def curve(self) -> tuple[str, float, str, bool]:
        """The position of its point."""
        return self.panel, self.spread, self.method, self.restarts


@dataclass
class Values:
    """Trials with constant, randomly drawn values: only time matters here, and ranks must not follow the ids."""

    seed: int
    drawn: list[float] = field(default_factory=list)

    def value(self, trial: TrialId, params: Params, resource: int) -> float:
        while trial >= len(self.drawn):
            self.drawn += generator(self.seed, "figure7", len(self.drawn)).random(1024).tolist()
        return self.drawn[trial]

    def seconds(self, trial: TrialId, params: Params) -> float:
        return 1.0


@dataclass(frozen=True)
class Nothing(Searcher):
    """Proposes empty configurations without end: their content does not matter, and drawing takes time."""

    def begin(self, space: Space, seed: int) -> SearcherState:
        return NothingState()

    def describe(self) -> str:
        return "Nothing()"


class NothingState(SearcherState):
    """Stores nothing."""

    def propose(self, number: int) -> Params:
        return {}


def search(job: Job, until: float, *, to_first: bool = False) -> SimulationResult:
    """Simulate one search."""
    return simulate(
        Values(job.run),
        scheduler=METHODS[job.method],
        searcher=Nothing(),
        workers=WORKERS,
        until=Until(seconds=until, completed=1 if to_first else None),
        faults=Faults(chance=Chance(spread=job.spread, drop=job.drop, seed=job.run), max_losses=10**9),
        training=TrainingModel(restarts=job.restarts, report_every=None),
    )


def measure(job: Job) -> float:
    """Return the value of one run in a panel."""
    if job.panel == "a":
        return float(len(search(job, HORIZON).completed))
    completed = search(job, PATIENCE, to_first=True).completed
    return completed[0].at_s if completed else PATIENCE


def jobs(runs: int, panels: str) -> list[Job]:
    """Return all searches."""
    return [
        Job(panel, spread, drop, method, restarts, run)
        for panel in panels
        for spread, drop in itertools.product(*PANELS[panel])
        for method in METHODS
        for restarts in (False, True)
        for run in range(runs)
    ]


Curves = dict[tuple[str, float, str, bool], list[tuple[float, float, float]]]


def collect(done: list[Job], values: list[float]) -> Curves:
    """Return the points of each curve: drop probability, mean, standard deviation."""
    found: dict[tuple[tuple[str, float, str, bool], float], list[float]] = defaultdict(list)
    for job, value in zip(done, values, strict=True):
        found[job.curve, job.drop].append(value)
    curves: Curves = defaultdict(list)
    for (curve, drop), sample in found.items():
        curves[curve].append((drop, statistics.mean(sample), statistics.stdev(sample) if len(sample) > 1 else 0.0))
    return curves


def table(panel: str, curves: Curves) -> str:
    """Return the means of a panel as a table of Markdown."""
    spreads, drops = PANELS[panel]
    lines = ["| sd | drop | " + " | ".join(name for name, _, _ in ways()) + " |", "|---:|---:|" + "---:|" * len(ways())]
    for spread, (place, drop) in itertools.product(spreads, enumerate(drops)):
        cells = []
        for _, method, restarts in ways():
            _, mean, sd = curves[panel, spread, method, restarts][place]
            cells.append(f"{mean:.0f} ± {sd:.0f}" if mean >= 100 else f"{mean:.1f} ± {sd:.1f}")
        lines.append(f"| {spread:g} | {drop:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def ways() -> list[tuple[str, str, bool]]:
    """Return label, method and whether it restarts, of each curve of a panel."""
    names = {False: "resumes", True: "restarts"}
    return [(f"{method}, {names[restarts]}", method, restarts) for restarts in (False, True) for method in METHODS]


def picture(panel: str, curves: Curves, path: Path) -> None:
    """Draw a panel: one small picture for each standard deviation."""
    panels = [
        Panel(
            f"sd {spread:g}",
            [
                Curve(name, COLOURS[method], curves[panel, spread, method, restarts], restarts)
                for name, method, restarts in ways()
            ],
        )
        for spread in PANELS[panel][0]
    ]
    draw(f"Figure 7{panel}: {Y[panel]}", panels, path, x="drop probability", y="")


TEXT = """# Figure 7 of the ASHA paper, simulated

`scripts/simulate_figure7.py` wrote this page: appendix A.1 of Li et al., "A System for Massively Parallel
Hyperparameter Tuning" (MLSys 2020), run by the engine on a [virtual clock](simulate.md).

25 workers, `reduction_factor` 4, r = 1, R = 256, brackets of n = 256. Training takes `1 + |z|` times as long as its
units say, with z normal of standard deviation *sd*, drawn for each piece of work. In each time unit work is lost with
probability *drop*. Each point is the mean of {runs} runs, with one standard deviation.

Choices that the paper leaves open: lost work is trained again, from the last checkpoint where trials resume
and from zero where they restart. While a bracket of synchronous SHA waits, idle workers begin the next one. ASHA begins
new configurations without end. Trials are ranked by one value that is drawn for each, so only time matters.

## {a}

![panel a](figure7a.svg)

{table_a}

## {b}

![panel b](figure7b.svg)

{table_b}

{reading}
"""

READING = """## How this compares with the paper

Where this was written the paper's figure could not be looked up, so no number of it stands here. What is compared is
what the appendix sets out to show: that ASHA is more robust to stragglers and to lost work than synchronous SHA.

It agrees in this:

- ASHA trains more configurations to R at every point of panel a, and has its first one sooner at every point of panel
  b, whether trials resume or restart.
- Stragglers cost SHA more. Without any loss ASHA trains 1.3 times as many configurations to R at sd 0.1, and 1.5
  times as many at sd 1.33; its first one comes 1.1 to 1.2 times as early at sd 0.67, and 1.2 to 1.35 times at sd
  1.67.
- Lost work costs both much more where trials restart: at drop 0.01 a third of the configurations is left at sd 0.1,
  against a half where they resume. Work at the top then lasts 256 units and not 192, and begins anew.

It does not show, or shows less, in this:

- That lost work costs SHA more. Up to sd 0.56 both lose about the same share of their configurations to it; only at
  sd 1.33 with a drop from 0.0075 does ASHA keep visibly more where trials restart. Here lost work is trained again,
  and idle workers of SHA begin the next bracket. With `max_losses=0`, under which lost work is given up and counts as
  the worst of its rung, both have about half as many at sd 0.1 and drop 0.005 (16 and 22 where they resume, 8 and 10
  where they restart; 5 runs), and SHA is no further behind. An SHA whose workers wait for their bracket was not
  tried; which of these the paper's simulation did we could not check.
- ASHA is ahead in panel a without any stragglers, too. It promotes more than the exact share while its rungs are
  small, on less evidence, and some of these reach R. This panel does not ask whether they are the right ones.

It takes half an hour of one core: 3,600 searches, of which the longest train 50,000 units; `--processes` shares them
among cores.
"""


def page(tables: dict[str, str], runs: int) -> str:
    """Return the page that shows both panels."""
    heads = {panel: f"{words[0].upper()}{words[1:]}" for panel, words in Y.items()}
    return TEXT.format(runs=runs, a=heads["a"], b=heads["b"], table_a=tables["a"], table_b=tables["b"], reading=READING)


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulate figure 7 of the ASHA paper.")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"a point (default: {RUNS}, as in the paper)")
    parser.add_argument("--panels", default="ab", choices=("a", "b", "ab"))
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--output", type=Path, help=f"folder (default: {DOCS.name}/ if --runs is {RUNS}, else nothing)")
    options = parser.parse_args()
    todo = jobs(options.runs, options.panels)
    began = time.monotonic()
    with ProcessPoolExecutor(options.processes) as pool:
        values = list(pool.map(measure, todo, chunksize=8))
    curves = collect(todo, values)
    minutes = (time.monotonic() - began) / 60
    output = options.output or (DOCS if options.runs == RUNS else None)
    tables = {panel: table(panel, curves) for panel in options.panels}
    for panel in options.panels:
        print(f"\n{Y[panel]}; mean and standard deviation of {options.runs} runs\n\n{tables[panel]}")
        if output is not None:
            output.mkdir(exist_ok=True)
            picture(panel, curves, output / f"figure7{panel}.svg")
    if output is not None and len(tables) == len(PANELS):
        (output / "figure7.md").write_text(page(tables, options.runs), encoding="utf-8")
    print(f"\n{len(todo):,} searches in {minutes:.1f} minutes with {options.processes} processes")


if __name__ == "__main__":
    main()
