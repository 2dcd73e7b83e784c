"""Tests of floor 2: the schedulers."""
