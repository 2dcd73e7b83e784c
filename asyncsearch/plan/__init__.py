"""The search plan: what was requested, what is trained, what is left."""
