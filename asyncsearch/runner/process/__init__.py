"""The process in which the user code runs: its start, its signals and limits, its modules, its end."""
