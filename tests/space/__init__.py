"""Tests of floor 1: search spaces."""
