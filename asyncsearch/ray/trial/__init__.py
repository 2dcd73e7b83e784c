"""The worker's half of a program of Ray Tune: its session, its trainables and their checkpoints."""
