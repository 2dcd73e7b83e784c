"""The trainer for Keras; ``trainers.torch`` has the same names."""
