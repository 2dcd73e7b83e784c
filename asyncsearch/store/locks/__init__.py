"""Locks and rights of one process among several, by the operating system or by leases in files."""
