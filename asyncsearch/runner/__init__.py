"""The runner: the child process that executes the user's code.

It may import the vocabulary (the modules at the root of the package) and ``sequences``, and nothing else of
asyncsearch; the contract ``runner`` in pyproject.toml enforces this.
"""
