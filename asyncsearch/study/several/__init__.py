"""Several studies on one cluster."""
