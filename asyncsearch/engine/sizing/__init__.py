"""Decisions of the engine by ``asyncsearch.sizing``: packs, gangs, their sizes, and the share of a study."""
