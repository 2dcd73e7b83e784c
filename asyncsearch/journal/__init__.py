"""The journal: its format, its writer, and what can be read from it."""
