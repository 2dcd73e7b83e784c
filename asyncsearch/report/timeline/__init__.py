"""Which worker trained what, and when, as the journal tells."""
