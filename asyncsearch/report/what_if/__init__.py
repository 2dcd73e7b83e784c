"""What a search would cost, and what it would have cost on other clusters."""
