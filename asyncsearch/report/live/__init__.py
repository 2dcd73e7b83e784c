"""Output for people while a search runs."""
