"""Search spaces: domains, conditions, constraints, and ``Space``, which holds them.

    parameter_values.py  JSON values and sequences       conditions.py    where a parameter exists
    domains.py           Domain, choice, constant        numbers.py       uniform, randint and their kin
    normals.py           normal, lognormal
    dotted_names.py      nested mappings <-> names       parameters.py    sequences that contain domains
    dependencies.py      conditions across a space       search_space.py  Space
    constraints.py       the user's functions of params, and the candidates that they reject

Everything here is pure: randomness comes from the generator that a method is given.
"""

from asyncsearch.space.conditions import Condition
from asyncsearch.space.constraints import MAX_CANDIDATES, Constraint
from asyncsearch.space.domains import Choice, Constant, Domain, choice, constant
from asyncsearch.space.normals import LogNormal, Normal, Quantiled, lognormal, normal
from asyncsearch.space.numbers import (
    LogRandInt,
    LogUniform,
    QRandInt,
    QUniform,
    RandInt,
    Uniform,
    lograndint,
    loguniform,
    quniform,
    randint,
    uniform,
)
from asyncsearch.space.search_space import Space

__all__ = [
    "MAX_CANDIDATES",
    "Choice",
    "Condition",
    "Constant",
    "Constraint",
    "Domain",
    "LogNormal",
    "LogRandInt",
    "LogUniform",
    "Normal",
    "QRandInt",
    "QUniform",
    "Quantiled",
    "RandInt",
    "Space",
    "Uniform",
    "choice",
    "constant",
    "lognormal",
    "lograndint",
    "loguniform",
    "normal",
    "quniform",
    "randint",
    "uniform",
]
