"""The journal: its format, writer and readers."""
