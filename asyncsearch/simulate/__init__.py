"""The engine on a virtual clock with scripted workers."""
