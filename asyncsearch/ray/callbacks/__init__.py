"""The callbacks of a program: those that the driver calls, and those of frameworks, which report."""
