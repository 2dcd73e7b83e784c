"""Which members of a pack may train as one computation, and why others may not."""
