"""The interface for users: a study, its run, and its results."""
