"""The engine on a virtual clock with scripted workers: what a search would do on a cluster that nobody has to rent.

    clock.py       time that is moved by hand       workloads.py   what trials cost and are worth: drawn curves
    cluster.py     scripted workers                 quadratic.py   a workload whose optimum is known
    chance.py      stragglers and dropped work      recorded.py    an earlier study as the workload
    searching.py   ``simulate``                     result.py      what was found, and when
    watching.py    how it is noted                 answers.py     a workload's answers, checked

Everything here is pure: no clock, thread, file or network.
"""

from asyncsearch.simulate.cluster import Delays, Loss, Simulation
from asyncsearch.simulate.quadratic import NoisyQuadratic
from asyncsearch.simulate.random_faults import Chance
from asyncsearch.simulate.recorded_workload import RecordedWorkload
from asyncsearch.simulate.result import Arrival, SimulatedIncumbent, SimulationResult
from asyncsearch.simulate.simulated_search import simulate
from asyncsearch.simulate.workloads import Curves, Workload

__all__ = [
    "Arrival",
    "Chance",
    "Curves",
    "Delays",
    "Loss",
    "NoisyQuadratic",
    "RecordedWorkload",
    "SimulatedIncumbent",
    "Simulation",
    "SimulationResult",
    "Workload",
    "simulate",
]
