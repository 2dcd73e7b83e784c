"""K alike members of PyTorch as one computation."""
