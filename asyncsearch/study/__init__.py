"""What users call: a study, its run, and its results."""
