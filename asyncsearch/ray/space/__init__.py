"""What a program of Ray Tune searches: domains, configurations, and what proposes them."""
