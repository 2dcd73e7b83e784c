"""The parts of a study that its store keeps."""
