"""Hyper-parameter sequences: values that change while a trial trains.

    base_sequence.py     Sequence                             templates.py         sequences with domains in them
    formulas.py          pieces and their formulas            params.py            sequences in params
    parsing.py           checks of arguments                  svg.py               pictures
    steps.py             constant, values, multistep, step    curves.py            exponential, linear, cosine, ...
    cycles.py            cosine_restarts, cyclic              composition.py       warmup, chain
    custom_sequences.py  custom: the user's functions     objects.py           objects of choices, which never change

Everything here is pure except the tables of the user's functions and objects that a process knows.
"""

from asyncsearch.sequences.base_sequence import Sequence
from asyncsearch.sequences.composition import chain, warmup
from asyncsearch.sequences.curves import cosine, exponential, linear, polynomial
from asyncsearch.sequences.custom_sequences import custom, custom_functions, register, sequence
from asyncsearch.sequences.cycles import cosine_restarts, cyclic
from asyncsearch.sequences.formulas import Formula, Piece
from asyncsearch.sequences.objects import NamedObject
from asyncsearch.sequences.params import has_sequences, is_sequence, present, revive, segments
from asyncsearch.sequences.parsing import from_json
from asyncsearch.sequences.steps import constant, multistep, step, values
from asyncsearch.sequences.templates import Undecided

__all__ = [
    "Formula",
    "NamedObject",
    "Piece",
    "Sequence",
    "Undecided",
    "chain",
    "constant",
    "cosine",
    "cosine_restarts",
    "custom",
    "custom_functions",
    "cyclic",
    "exponential",
    "from_json",
    "has_sequences",
    "is_sequence",
    "linear",
    "multistep",
    "polynomial",
    "present",
    "register",
    "revive",
    "segments",
    "sequence",
    "step",
    "values",
    "warmup",
]
