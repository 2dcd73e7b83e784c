"""What studies share: a folder, the claims on its nodes, and what a driver does there."""
