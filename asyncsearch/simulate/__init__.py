"""The engine on a virtual clock with scripted workers: what a search would do on a cluster that nobody has to rent.

    clock.py             time that is moved by hand       workloads.py          cost and value of trials: drawn curves
    cluster.py           scripted workers                 quadratic.py          a workload with a known optimum
    options.py           delays, faults, training, end    recorded_workload.py  an earlier study as the workload
    random_faults.py     stragglers and dropped work      checked_workload.py   return values of a workload, checked
    simulated_search.py  ``simulate``                     result.py             what was found, and when
    observer.py          records that result             shared_cluster.py     several studies on one pool of workers

Everything here is pure: no clock, thread, file or network.
"""

from asyncsearch.simulate.cluster import Simulation
from asyncsearch.simulate.options import Chance, Delays, Faults, Loss, TrainingModel, Until
from asyncsearch.simulate.quadratic import NoisyQuadratic
from asyncsearch.simulate.recorded_workload import RecordedWorkload
from asyncsearch.simulate.result import Arrival, SimulatedIncumbent, SimulationResult, SizedTraining
from asyncsearch.simulate.shared_cluster import Holding, SharedSimulation
from asyncsearch.simulate.simulated_search import simulate
from asyncsearch.simulate.workloads import Curves, Workload

__all__ = [
    "Arrival",
    "Chance",
    "Curves",
    "Delays",
    "Faults",
    "Holding",
    "Loss",
    "NoisyQuadratic",
    "RecordedWorkload",
    "SharedSimulation",
    "SimulatedIncumbent",
    "Simulation",
    "SimulationResult",
    "SizedTraining",
    "TrainingModel",
    "Until",
    "Workload",
    "simulate",
]
