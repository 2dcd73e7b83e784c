"""The runner: the child process that executes the user's code.

It may import the vocabulary (the modules at the root of the package), ``sequences``, and ``trainers.state``,
whose adapters save the objects of ``trial.epochs(state=...)``; nothing else of asyncsearch. The contract ``runner`` in
pyproject.toml enforces this.
"""
