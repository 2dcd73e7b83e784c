"""What the programs of other libraries have in common when their objectives run on workers.

Each library has a room of its own above this one; none of them is known here.
"""
