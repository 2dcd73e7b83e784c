"""The agent: the half of a worker that never runs the user's code."""
