"""Units of several trainers for PyTorch, trained as one computation where that is possible."""
