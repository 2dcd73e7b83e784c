"""The engine on a virtual clock with scripted workers: a search on a cluster that nobody has to rent.

    simulated_search.py  ``simulate``                     result.py             its result, and who notes it
    options.py           delays, faults, training, end    workloads.py          values and costs of trials, checked
    virtual_cluster.py   events in, actions out; workers  recorded_workload.py  an earlier study as the workload
    timed_cluster.py     messages, losses and ends        shared_cluster.py     several studies on one pool of workers
    cluster.py           scripted workers on a clock

Everything here is pure: no clock, thread, file or network.
"""

from asyncsearch.simulate.cluster import Simulation
from asyncsearch.simulate.options import Chance, Delays, Faults, Loss, TrainingModel, Until
from asyncsearch.simulate.recorded_workload import RecordedWorkload
from asyncsearch.simulate.result import Arrival, SimulatedIncumbent, SimulationResult, SizedTraining
from asyncsearch.simulate.shared_cluster import Holding, SharedSimulation
from asyncsearch.simulate.simulated_search import simulate
from asyncsearch.simulate.workloads import Curves, NoisyQuadratic, Workload

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
