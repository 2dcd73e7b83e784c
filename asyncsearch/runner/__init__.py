"""The runner: the child process that executes the user's code."""
