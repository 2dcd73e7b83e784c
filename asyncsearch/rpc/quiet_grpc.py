"""gRPC, imported with its own log switched off: peers without a token could fill it, and write to the terminal by it.

gRPC reads its settings when it is first imported. ``GRPC_VERBOSITY`` or ``GRPC_TRACE`` in the environment, or an
earlier import by the user's code, keep the log as the user wants it. The environment is left as it was, for child
processes.
"""

from __future__ import annotations

import os

_ASKED_FOR = ("GRPC_VERBOSITY", "GRPC_TRACE")

_is_silenced = not any(name in os.environ for name in _ASKED_FOR)
if _is_silenced:
    os.environ["GRPC_VERBOSITY"] = "NONE"
try:
    import grpc
    from grpc import aio
finally:
    if _is_silenced:
        os.environ.pop("GRPC_VERBOSITY", None)

__all__ = ["aio", "grpc"]
