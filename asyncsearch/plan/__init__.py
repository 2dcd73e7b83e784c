"""The search plan: requests, running training, and training that is left to do."""
