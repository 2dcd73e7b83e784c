"""Tests of floor 2: keys, the search plan and what is kept."""
