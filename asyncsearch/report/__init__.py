"""Output for people: tables, pages, pictures."""
