"""Hyper-parameter sequences: values that change while a trial trains.

    constants.py  constants are JSON values      exact.py     decimals, rounded once
    formulas.py   pieces and their formulas      undecided.py what domains are to a sequence
    base.py       Sequence                       templates.py sequences with domains in them
    parsing.py    what arguments may be          periodic.py  endlessly many pieces
    steps.py      constant, values, multistep, step
    curves.py     exponential, linear, polynomial, cosine
    cycles.py     cosine_restarts, cyclic
    joined.py     warmup, chain
    own.py        custom: the user's functions
    decoding.py   sequences in params            courses.py   when which parameter changes
    picture.py    a small picture

Everything here is pure but the table of the user's functions that a process knows.
"""

from asyncsearch.sequences.base_sequence import Sequence
from asyncsearch.sequences.change_points import course
from asyncsearch.sequences.composition import chain, warmup
from asyncsearch.sequences.curves import cosine, exponential, linear, polynomial
from asyncsearch.sequences.custom_sequences import custom, custom_functions, register, sequence
from asyncsearch.sequences.cycles import cosine_restarts, cyclic
from asyncsearch.sequences.decoding import from_json, has_sequences, is_sequence, present, revive
from asyncsearch.sequences.formulas import Formula, Piece
from asyncsearch.sequences.steps import constant, multistep, step, values
from asyncsearch.sequences.undecided_values import Undecided

__all__ = [
    "Formula",
    "Piece",
    "Sequence",
    "Undecided",
    "chain",
    "constant",
    "cosine",
    "cosine_restarts",
    "course",
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
    "sequence",
    "step",
    "values",
    "warmup",
]
