"""The search plan: what was asked for, what is trained, what is left."""
