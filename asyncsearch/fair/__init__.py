"""How many workers each of several studies has on one cluster. Pure."""
