"""What a launch runs on the worker's side: the agent, or what a test puts in its place."""

from __future__ import annotations

from collections.abc import Callable

from asyncsearch.agent.config import WorkerConfig

AgentFunction = Callable[[WorkerConfig], str]
"""Serves the driver until it lets the worker go, in the main thread of its process; returns why it ended."""


def run_agent(config: WorkerConfig) -> str:
    """Run the real agent."""
    # Imported on the worker: whoever only launches needs no gRPC.
    from asyncsearch.agent.agent import run_agent as run

    return run(config)
