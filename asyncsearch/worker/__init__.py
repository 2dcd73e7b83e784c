"""Agents and runners: what executes on the cluster."""
