"""A training of which this runner is one of several ranks."""
