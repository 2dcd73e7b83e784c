"""The common part of the programs of other libraries when their objectives run on workers.

Each library has a room of its own above this one; none of them is known here.
"""
