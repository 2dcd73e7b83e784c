"""The cost of a search, before it runs and on other clusters."""
