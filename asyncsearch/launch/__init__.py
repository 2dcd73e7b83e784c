"""Backends: how workers are started."""
