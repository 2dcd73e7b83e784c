"""Conformance suites."""
