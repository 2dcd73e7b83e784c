"""What the store keeps of a study, and where."""
