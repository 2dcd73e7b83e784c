"""The pure core: facts in, decisions out."""
