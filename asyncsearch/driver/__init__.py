"""The driver's shell around the engine."""
