"""What the engine decides by ``asyncsearch.sizing``: packs, gangs, their sizes, and the share of a study."""
