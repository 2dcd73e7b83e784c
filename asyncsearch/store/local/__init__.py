"""A store in a folder that all workers see."""
