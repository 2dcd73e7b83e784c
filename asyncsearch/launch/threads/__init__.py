"""Trials side by side in threads of this process, for functions that start Spark jobs, or wait for something else."""
