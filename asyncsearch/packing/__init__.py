"""Packed training: several torch models trained together, alike ones as one computation.

Each member is trained as if it was alone, within rounding: its weights, optimizer settings, generator and number of
steps are its own.
"""

from asyncsearch.packing.member import Member as Member
from asyncsearch.packing.member import cross_entropy as cross_entropy
from asyncsearch.packing.packs import Pack as Pack
from asyncsearch.packing.primitives import free as free
from asyncsearch.packing.primitives import load as load
from asyncsearch.packing.primitives import pack as pack
from asyncsearch.packing.probe import why_not as why_not

__all__ = ["Member", "Pack", "cross_entropy", "free", "load", "pack", "why_not"]
