"""Search spaces: domains, conditions, constraints, and ``Space``, which holds them.

    parameter_values.py  JSON values and sequences       conditions.py    where a parameter exists
    domains.py           Domain, choice, constant        spacing.py       what domains of numbers share
    floats.py            uniform, loguniform, quniform   integers.py      randint, lograndint
    dotted_names.py      nested mappings <-> names       parameters.py    sequences that contain domains
    dependencies.py      conditions across a space       search_space.py  Space
    constraints.py       the user's functions of params, and the candidates that they reject

Everything here is pure: randomness comes from the generator that a method is given.
"""

from asyncsearch.space.conditions import Condition
from asyncsearch.space.constraints import MAX_CANDIDATES, Constraint
from asyncsearch.space.domains import Choice, Constant, Domain, choice, constant
from asyncsearch.space.numbers import (
    LogRandInt,
    LogUniform,
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
    "LogRandInt",
    "LogUniform",
    "QUniform",
    "RandInt",
    "Space",
    "Uniform",
    "choice",
    "constant",
    "lograndint",
    "loguniform",
    "quniform",
    "randint",
    "uniform",
]
