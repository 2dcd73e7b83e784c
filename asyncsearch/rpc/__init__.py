"""The gRPC edge: the contract of ``rpc/`` in Python."""
