"""The trainer for PyTorch; ``trainers.keras`` has the same names."""
